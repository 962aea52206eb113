"""The thirteen tables of the operator's messaging platform that the models read.

Identifiers are UUID (native or text), times are UTC instants, counts are BIGINT from 0 to MAX_COUNT.
"""

from dataclasses import dataclass

from daybreak.catalogue.columns import Column, columns

MAX_COUNT = 1_000_000_000
"""Maximum of every integer column. The sum over nine billion rows is still a BIGINT."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One source table. `primary_key` names the columns that identify a row, () if the table has no key.

    `instant` is the column that dates a row: the models ignore rows after `as_of`. None for a table of current state.
    """

    name: str
    description: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    instant: str | None = None


SOURCE_TABLES: tuple[SourceTable, ...] = (
    SourceTable(
        "leaders",
        "Accounts. Every Leader in this table gets files.",
        columns(
            ("leader_id", "uuid", "The Leader. Its client_id in the service."),
            ("leader_name", "text", "Its name."),
            ("parent_leader_id", "uuid?", "Its parent Leader. NULL at the top."),
            ("billing_entity_leader_id", "uuid?", "The Leader that is billed. NULL means the Leader itself."),
        ),
        ("leader_id",),
    ),
    SourceTable(
        "members",
        "People in a Leader's audience, in their current state.",
        columns(
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
            ("state_code", "text?", "Code of the state or region."),
            ("country", "text?", "Country."),
            ("country_code", "text?", "ISO 3166-1 alpha-2."),
            ("device_type", "text?", "Type of phone."),
            ("first_activated_at", "timestamp?", "When the Member first became live."),
        ),
        ("member_id",),
    ),
    SourceTable(
        "member_state_changes",
        "Changes of Members' subscription states.",
        columns(
            ("member_id", "uuid", "The Member."),
            ("leader_id", "uuid", "Its Leader."),
            ("subscription_state", "text", "The state it changed to."),
            ("state_changed_at", "timestamp", "When it changed."),
        ),
        instant="state_changed_at",
    ),
    SourceTable(
        "campaigns",
        "Messages sent to many Members.",
        columns(
            ("campaign_id", "uuid", "The campaign."),
            ("leader_id", "uuid", "The Leader that sent it."),
            ("campaign_name", "text?", "Its name."),
            ("channel", "text", "sms or whatsapp."),
            ("usage_channel", "text", "sms, mms or whatsapp."),
            ("text", "text?", "The text that was sent."),
            ("media_url", "text?", "Image or video that was sent."),
            ("is_test", "boolean", "Whether it was sent as a test."),
            ("is_scheduled", "boolean", "Whether it was scheduled."),
            ("is_filtered", "boolean", "Whether it was sent to part of the audience."),
            ("sent_at", "timestamp", "When it was sent."),
        ),
        ("campaign_id",),
        "sent_at",
    ),
    SourceTable(
        "outbound_messages",
        "Messages from Leaders to Members.",
        columns(
            ("message_id", "uuid", "The message."),
            ("leader_id", "uuid", "The Leader that sent it."),
            ("member_id", "uuid", "The Member who received it."),
            ("campaign_id", "uuid?", "The campaign it is part of."),
            ("outbound_message_type", "text", "Reason for sending it."),
            ("usage_channel", "text", "sms, mms or whatsapp."),
            ("segment_count", "bigint", "Segments of the message."),
            ("unit_count", "bigint", "Units billed for it."),
            ("sent_at", "timestamp", "When it was sent."),
        ),
        ("message_id",),
        "sent_at",
    ),
    SourceTable(
        "inbound_messages",
        "Messages from Members to Leaders.",
        columns(
            ("message_id", "uuid", "The message."),
            ("leader_id", "uuid", "The Leader that received it."),
            ("member_id", "uuid", "The Member who sent it."),
            ("campaign_id", "uuid?", "The campaign it answers."),
            ("is_stop", "boolean", "Whether it is a stop request."),
            ("received_at", "timestamp", "When it was received."),
        ),
        ("message_id",),
        "received_at",
    ),
    SourceTable(
        "campaign_links",
        "Links in campaigns.",
        columns(
            ("link_id", "uuid", "The link."),
            ("campaign_id", "uuid", "The campaign that contains it."),
            ("link_type", "text", "link or media."),
            ("link_url", "text", "Target of the link."),
        ),
        ("link_id",),
    ),
    SourceTable(
        "link_hits",
        "Link opens.",
        columns(
            ("link_id", "uuid", "The link."),
            ("member_id", "uuid?", "The Member who opened it. NULL if unknown."),
            ("hit_at", "timestamp", "When it was opened."),
        ),
        instant="hit_at",
    ),
    SourceTable(
        "terms",
        "Terms that Members accept.",
        columns(
            ("term_id", "uuid", "The terms."),
            ("term_language", "text?", "Text of the terms."),
            ("custom_signup_language", "text?", "The Leader's own text on the sign-up page."),
            ("additional_checkbox_language", "text?", "Text of the additional checkbox."),
        ),
        ("term_id",),
    ),
    SourceTable(
        "member_term_accepts",
        "Acceptances of terms by Members.",
        columns(
            ("member_id", "uuid", "The Member."),
            ("leader_id", "uuid", "Its Leader."),
            ("term_id", "uuid", "The terms."),
            ("member_email", "text?", "Email address at that time."),
            ("member_country_code", "text?", "ISO 3166-1 alpha-2."),
            ("was_checked", "boolean", "Whether the box was checked when the form was sent."),
            ("was_pre_checked", "boolean", "Whether the box was checked when the form was shown."),
            ("accepted_at", "timestamp", "When the terms were accepted."),
        ),
        instant="accepted_at",
    ),
    SourceTable(
        "custom_field_values",
        "Values of custom fields that Leaders define.",
        columns(
            ("member_id", "uuid", "The Member."),
            ("leader_id", "uuid", "Its Leader."),
            ("custom_field_name", "text", "The field."),
            ("custom_field_value", "text?", "The value."),
        ),
        ("member_id", "custom_field_name"),
    ),
    SourceTable(
        "communities",
        "Groups of a Leader's Members.",
        columns(
            ("community_id", "uuid", "The community."),
            ("leader_id", "uuid", "Its Leader."),
            ("community_name", "text", "Its name."),
        ),
        ("community_id",),
    ),
    SourceTable(
        "community_memberships",
        "Memberships in communities. A Member who leaves and joins again has several rows.",
        columns(
            ("community_id", "uuid", "The community."),
            ("member_id", "uuid", "The Member."),
            ("joined_at", "timestamp", "When the Member joined."),
            ("left_at", "timestamp?", "When the Member left. NULL for a current membership."),
        ),
        instant="joined_at",
    ),
)
