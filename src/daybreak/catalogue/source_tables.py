"""The thirteen tables of the operator's messaging platform, as the models read them.

Identifiers are UUID (native or text), times are UTC instants, counts are BIGINT.
"""

from __future__ import annotations

from dataclasses import dataclass

from daybreak.catalogue.columns import Column, ColumnType


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One source table. `primary_key` names the columns that identify a row, () when none do.

    `instant` is the column whose later-than-`as_of` rows are not there yet, None when the table
    carries the current state.
    """

    name: str
    description: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    instant: str | None = None

    def column(self, name: str) -> Column:
        """The column of that name. Raises KeyError."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


def _columns(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    """(name, type with `?` when it may be NULL, description) to columns."""
    return tuple(
        Column(name, ColumnType(kind.rstrip("?")), kind.endswith("?"), description) for name, kind, description in rows
    )


SOURCE_TABLES: tuple[SourceTable, ...] = (
    SourceTable(
        "leaders",
        "The accounts. Every Leader listed here gets files.",
        _columns(
            ("leader_id", "uuid", "The Leader; the client_id of the service."),
            ("leader_name", "text", "Its name."),
            ("parent_leader_id", "uuid?", "The Leader above it, NULL at the top."),
            ("billing_entity_leader_id", "uuid?", "The Leader that pays; itself when NULL."),
        ),
        ("leader_id",),
    ),
    SourceTable(
        "members",
        "The people of a Leader's audience, in their current state.",
        _columns(
            ("member_id", "uuid", "The Member."),
            ("leader_id", "uuid", "The Leader it belongs to."),
            ("phone_number", "text", "E.164, with the plus sign."),
            ("subscription_state", "text", "live, opted_out, blocked or deleted."),
            ("first_name", "text?", "First name."),
            ("last_name", "text?", "Last name."),
            ("email", "text?", "Email address."),
            ("date_of_birth", "date?", "Date of birth."),
            ("gender", "text?", "male, female, non_binary or no_answer."),
            ("city", "text?", "City."),
            ("state", "text?", "State or region."),
            ("state_code", "text?", "Its code."),
            ("country", "text?", "Country."),
            ("country_code", "text?", "ISO 3166-1 alpha-2."),
            ("device_type", "text?", "Kind of phone."),
            ("first_activated_at", "timestamp?", "When the Member first became live."),
        ),
        ("member_id",),
    ),
    SourceTable(
        "member_state_changes",
        "Each change of a Member's subscription state.",
        _columns(
            ("member_id", "uuid", "The Member."),
            ("leader_id", "uuid", "Its Leader."),
            ("subscription_state", "text", "The state it changed to."),
            ("state_changed_at", "timestamp", "When."),
        ),
        instant="state_changed_at",
    ),
    SourceTable(
        "campaigns",
        "Messages sent to many Members at once.",
        _columns(
            ("campaign_id", "uuid", "The campaign."),
            ("leader_id", "uuid", "The Leader that sent it."),
            ("campaign_name", "text?", "Its name."),
            ("channel", "text", "sms or whatsapp."),
            ("usage_channel", "text", "sms, mms or whatsapp."),
            ("text", "text?", "The text that was sent."),
            ("media_url", "text?", "The picture or video that was sent."),
            ("is_test", "boolean", "Sent as a test."),
            ("is_scheduled", "boolean", "Sent by schedule."),
            ("is_filtered", "boolean", "Sent to a part of the audience."),
            ("sent_at", "timestamp", "When."),
        ),
        ("campaign_id",),
        "sent_at",
    ),
    SourceTable(
        "outbound_messages",
        "Every message a Leader sent to a Member.",
        _columns(
            ("message_id", "uuid", "The message."),
            ("leader_id", "uuid", "The Leader that sent it."),
            ("member_id", "uuid", "The Member it went to."),
            ("campaign_id", "uuid?", "The campaign it is part of."),
            ("outbound_message_type", "text", "Why it was sent."),
            ("usage_channel", "text", "sms, mms or whatsapp."),
            ("segment_count", "bigint", "Segments it took."),
            ("unit_count", "bigint", "Units it is billed as."),
            ("sent_at", "timestamp", "When."),
        ),
        ("message_id",),
        "sent_at",
    ),
    SourceTable(
        "inbound_messages",
        "Every message a Member sent to a Leader.",
        _columns(
            ("message_id", "uuid", "The message."),
            ("leader_id", "uuid", "The Leader it went to."),
            ("member_id", "uuid", "The Member who sent it."),
            ("campaign_id", "uuid?", "The campaign it answers."),
            ("is_stop", "boolean", "It asks to stop."),
            ("received_at", "timestamp", "When."),
        ),
        ("message_id",),
        "received_at",
    ),
    SourceTable(
        "campaign_links",
        "The links a campaign contains.",
        _columns(
            ("link_id", "uuid", "The link."),
            ("campaign_id", "uuid", "The campaign that contains it."),
            ("link_type", "text", "link or media."),
            ("link_url", "text", "Where it leads."),
        ),
        ("link_id",),
    ),
    SourceTable(
        "link_hits",
        "Every opening of a link.",
        _columns(
            ("link_id", "uuid", "The link."),
            ("member_id", "uuid?", "Who opened it, when known."),
            ("hit_at", "timestamp", "When."),
        ),
        instant="hit_at",
    ),
    SourceTable(
        "terms",
        "Terms that Members accept.",
        _columns(
            ("term_id", "uuid", "The terms."),
            ("term_language", "text?", "Their text."),
            ("custom_signup_language", "text?", "The Leader's own text on the sign-up page."),
            ("additional_checkbox_language", "text?", "The text of the extra checkbox."),
        ),
        ("term_id",),
    ),
    SourceTable(
        "member_term_accepts",
        "Each acceptance of terms by a Member.",
        _columns(
            ("member_id", "uuid", "The Member."),
            ("leader_id", "uuid", "Its Leader."),
            ("term_id", "uuid", "The terms."),
            ("member_email", "text?", "The email address given then."),
            ("member_country_code", "text?", "ISO 3166-1 alpha-2."),
            ("was_checked", "boolean", "The box was checked when the form was sent."),
            ("was_pre_checked", "boolean", "The box was checked when the form was shown."),
            ("accepted_at", "timestamp", "When."),
        ),
        instant="accepted_at",
    ),
    SourceTable(
        "custom_field_values",
        "What Members answered in fields a Leader made up.",
        _columns(
            ("member_id", "uuid", "The Member."),
            ("leader_id", "uuid", "Its Leader."),
            ("custom_field_name", "text", "The field."),
            ("custom_field_value", "text?", "The answer."),
        ),
        ("member_id", "custom_field_name"),
    ),
    SourceTable(
        "communities",
        "Groups of a Leader's Members.",
        _columns(
            ("community_id", "uuid", "The community."),
            ("leader_id", "uuid", "Its Leader."),
            ("community_name", "text", "Its name."),
        ),
        ("community_id",),
    ),
    SourceTable(
        "community_memberships",
        "Who joined which community. A Member may leave and join again: several rows.",
        _columns(
            ("community_id", "uuid", "The community."),
            ("member_id", "uuid", "The Member."),
            ("joined_at", "timestamp", "When it joined."),
            ("left_at", "timestamp?", "When it left; NULL while it belongs."),
        ),
        instant="joined_at",
    ),
)
