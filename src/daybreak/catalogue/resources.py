"""The nine resources: names, paths, columns in order, types, keys and allowed values.

Columns are in the order of the files. The key orders the rows of a file: UUIDs by their lower-case text, texts by their
UTF-8 bytes, times by instant.
"""

from dataclasses import dataclass
from functools import cached_property

from daybreak.catalogue.columns import Column, columns
from daybreak.catalogue.formats import Format
from daybreak.domain.errors import NotFound

SUBSCRIPTION_STATES = ("live", "opted_out", "blocked", "deleted")
CHANNELS = ("sms", "whatsapp")
USAGE_CHANNELS = ("sms", "mms", "whatsapp")
OUTBOUND_MESSAGE_TYPES = (
    "dm",
    "campaign",
    "fan_onboarding",
    "opt_in",
    "opt_out",
    "keyword_response",
    "seat_onboarding",
    "help_response",
    "automated",
    "external",
    "external_customer_support",
)
LINK_TYPES = ("link", "media")
GENDERS = ("male", "female", "non_binary", "no_answer")


@dataclass(frozen=True, slots=True)
class Reference:
    """Each value of `column` occurs in the column of that name of `resource`, among the rows of the same Leader."""

    column: str
    resource: str


@dataclass(frozen=True, slots=True)
class RowCount:
    """`column` is the number of rows of `resource` whose value of `match` is the same."""

    column: str
    resource: str
    match: str


@dataclass(frozen=True)
class Resource:
    """One downloadable resource.

    `name` is the short name used in links, manifests and object keys; `download_path` is the last part of the
    documented download path, for CSV. `key` orders the rows. `tie_break` has the columns that order rows with equal
    keys, if the source may contain such rows, so that the same rows always have the same order.
    `constants` are the last columns, if their value is the same in every row of a snapshot. Deltas do not compare them.
    `key_is_unique`, `references` and `row_count` are relations that the referential checks verify.
    """

    name: str
    title: str
    description: str
    download_path: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    tie_break: tuple[str, ...] = ()
    key_is_unique: bool = False
    references: tuple[Reference, ...] = ()
    row_count: RowCount | None = None
    constants: tuple[str, ...] = ()

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """Return the column of that name. Raises KeyError."""
        return {column.name: column for column in self.columns}[name]

    def file_name(self, format: Format) -> str:
        """Return the name in links and on a consumer's disk, such as `members.csv.gz`."""
        return self.name + format.ending

    def path_for(self, format: Format) -> str:
        """Return the last part of the download path in that format."""
        return self.download_path.replace(".csv.gz", format.ending)


_OF_MEMBER = Reference("MEMBER_ID", "members")

RESOURCES: tuple[Resource, ...] = (
    Resource(
        "campaigns",
        "Campaign Performance",
        "One row per campaign sent by the Leader, with its totals.",
        "campaigns.csv.gz",
        columns(
            ("CAMPAIGN_ID", "uuid", "The campaign."),
            ("LEADER_ID", "uuid", "The Leader that sent it."),
            ("BILLING_ENTITY_LEADER_ID", "uuid", "The Leader that is billed for it."),
            ("CHANNEL", "text", "The channel it was sent on.", CHANNELS),
            ("SENT_AT", "timestamp", "When it was sent."),
            ("TEST_CAMPAIGN", "boolean", "Whether it was sent as a test."),
            ("TEXT", "text?", "The text that was sent."),
            ("USAGE_CHANNEL", "text", "The channel it is billed as.", USAGE_CHANNELS),
            ("MEDIA_URL", "text?", "Image or video that was sent with it."),
            ("IS_SCHEDULED", "boolean", "Whether it was scheduled."),
            ("IS_FILTERED", "boolean", "Whether it was sent to part of the audience."),
            ("RECIPIENT_COUNT", "bigint", "Distinct Members who received it."),
            ("RESPONSE_COUNT", "bigint", "Replies to it."),
            ("REPLIED_COUNT", "bigint", "Distinct Members who replied."),
            ("STOP_COUNT", "bigint", "Distinct Members who replied with a stop."),
            ("UNIT_COUNT", "bigint", "Units billed for its messages."),
            ("SEGMENT_COUNT", "bigint", "Segments of its messages."),
            ("CAMPAIGN_NAME", "text?", "Its name."),
        ),
        ("CAMPAIGN_ID",),
        key_is_unique=True,
    ),
    Resource(
        "outbound_message_type_usage",
        "Message Segment Usage",
        "Messages, segments and units per UTC day, channel and type of message.",
        "outbound_message_type_usage.csv.gz/segment-based-subscription",
        columns(
            ("LEADER_ID", "uuid", "The Leader that sent the messages."),
            ("BILLING_ENTITY_LEADER_ID", "uuid", "The Leader that is billed for them."),
            ("DATE_DAY", "date", "UTC day of sending."),
            ("USAGE_CHANNEL", "text", "The channel they are billed as.", USAGE_CHANNELS),
            ("OUTBOUND_MESSAGE_TYPE", "text", "Reason for sending them.", OUTBOUND_MESSAGE_TYPES),
            ("MESSAGE_COUNT", "bigint", "Messages."),
            ("SEGMENT_COUNT", "bigint", "Segments of the messages."),
            ("UNIT_COUNT", "bigint", "Units billed for the messages."),
        ),
        ("DATE_DAY", "USAGE_CHANNEL", "OUTBOUND_MESSAGE_TYPE"),
        key_is_unique=True,
    ),
    Resource(
        "campaign_links",
        "Campaign Link Performance",
        "One row per link of a campaign, only for campaigns that contain links.",
        "campaign_links.csv.gz",
        columns(
            ("CAMPAIGN_ID", "uuid", "The campaign that contains the link."),
            ("LEADER_ID", "uuid", "The Leader that sent it."),
            ("LINK_TYPE", "text", "Type of the link's target.", LINK_TYPES),
            ("LINK_URL", "text", "Target of the link."),
            ("RECIPIENT_COUNT", "bigint", "Distinct Members who received the campaign."),
            ("HIT_COUNT", "bigint", "Number of times the link was opened."),
        ),
        ("CAMPAIGN_ID", "LINK_TYPE", "LINK_URL"),
        key_is_unique=True,
        references=(Reference("CAMPAIGN_ID", "campaigns"),),
    ),
    Resource(
        "members",
        "Member Details",
        "One row per Member. A deleted Member's personal columns are NULL.",
        "members.csv.gz",
        columns(
            ("MEMBER_ID", "uuid", "The Member."),
            ("LEADER_ID", "uuid", "The Leader it belongs to."),
            ("PHONE_NUMBER", "text?", "E.164, with the plus sign. NULL when deleted."),
            ("SUBSCRIPTION_STATE", "text", "Subscription state.", SUBSCRIPTION_STATES),
            ("FIRST_NAME", "text?", "First name."),
            ("LAST_NAME", "text?", "Last name."),
            ("EMAIL", "text?", "Email address."),
            ("DATE_OF_BIRTH", "date?", "Date of birth."),
            ("GENDER", "text?", "Gender.", GENDERS),
            ("CITY", "text?", "City."),
            ("STATE", "text?", "State or region."),
            ("STATE_CODE", "text?", "Code of the state or region."),
            ("COUNTRY", "text?", "Country."),
            ("COUNTRY_CODE", "text?", "ISO 3166-1 alpha-2."),
            ("DEVICE_TYPE", "text?", "Type of phone."),
            ("FIRST_ACTIVATED_AT", "timestamp?", "When the Member first became live."),
        ),
        ("MEMBER_ID",),
        key_is_unique=True,
    ),
    Resource(
        "member_state_changes",
        "Member Subscription Status",
        "One row per change of a Member's subscription state.",
        "member_state_changes.csv.gz",
        columns(
            ("MEMBER_ID", "uuid", "The Member."),
            ("LEADER_ID", "uuid", "The Leader it belongs to."),
            ("SUBSCRIPTION_STATE", "text", "The state it changed to.", SUBSCRIPTION_STATES),
            ("STATE_CHANGED_AT", "timestamp", "When it changed."),
        ),
        ("MEMBER_ID", "STATE_CHANGED_AT", "SUBSCRIPTION_STATE"),
        references=(_OF_MEMBER,),
    ),
    Resource(
        "member_term_accepts",
        "Member Term Accepts",
        "One row per acceptance of terms in the 90 days that end with the snapshot.",
        "member_term_accepts.csv.gz",
        columns(
            ("MEMBER_ID", "uuid", "The Member."),
            ("LEADER_ID", "uuid", "The Leader it belongs to."),
            ("TERM_ID", "uuid", "The terms."),
            ("MEMBER_EMAIL", "text?", "Email address at that time. NULL when deleted."),
            ("MEMBER_COUNTRY_CODE", "text?", "ISO 3166-1 alpha-2. NULL when deleted."),
            ("WAS_CHECKED", "boolean", "Whether the box was checked when the form was sent."),
            ("WAS_PRE_CHECKED", "boolean", "Whether the box was checked when the form was shown."),
            ("ACCEPTED_AT", "timestamp", "When the terms were accepted."),
            ("LEADER_NAME", "text?", "Name of the Leader."),
            ("PARENT_LEADER_NAME", "text?", "Name of the parent Leader. NULL at the top."),
            ("ULTIMATE_PARENT_LEADER_NAME", "text?", "Name of the topmost Leader. Its own name at the top."),
            ("TERM_LANGUAGE", "text?", "Text of the terms."),
            ("CUSTOM_SIGNUP_LANGUAGE", "text?", "The Leader's own text on the sign-up page."),
            ("ADDITIONAL_CHECKBOX_LANGUAGE", "text?", "Text of the additional checkbox."),
            ("ETL_LOADED_AT", "timestamp", "Instant of the snapshot."),
        ),
        ("MEMBER_ID", "TERM_ID", "ACCEPTED_AT"),
        ("MEMBER_EMAIL", "MEMBER_COUNTRY_CODE", "WAS_CHECKED", "WAS_PRE_CHECKED"),
        references=(_OF_MEMBER,),
        constants=("ETL_LOADED_AT",),
    ),
    Resource(
        "custom_member_data",
        "Custom Member Data",
        "One row per Member and custom field. A deleted Member's values are NULL.",
        "custom_member_data.csv.gz",
        columns(
            ("MEMBER_ID", "uuid", "The Member."),
            ("LEADER_ID", "uuid", "The Leader it belongs to."),
            ("CUSTOM_FIELD_NAME", "text", "The field."),
            ("CUSTOM_FIELD_VALUE", "text?", "The value."),
        ),
        ("MEMBER_ID", "CUSTOM_FIELD_NAME"),
        ("CUSTOM_FIELD_VALUE",),
        key_is_unique=True,
        references=(_OF_MEMBER,),
    ),
    Resource(
        "communities",
        "Communities",
        "One row per community, with its current number of members.",
        "communities.csv.gz",
        columns(
            ("COMMUNITY_ID", "uuid", "The community."),
            ("COMMUNITY_NAME", "text", "Its name."),
            ("LEADER_ID", "uuid", "The Leader it belongs to."),
            ("MEMBER_COUNT", "bigint", "Current members."),
        ),
        ("COMMUNITY_ID",),
        key_is_unique=True,
        row_count=RowCount("MEMBER_COUNT", "member_communities", "COMMUNITY_ID"),
    ),
    Resource(
        "member_communities",
        "Member Communities",
        "One row per current membership.",
        "member_communities.csv.gz",
        columns(
            ("COMMUNITY_ID", "uuid", "The community."),
            ("COMMUNITY_NAME", "text", "Its name."),
            ("LEADER_ID", "uuid", "The Leader it belongs to."),
            ("MEMBER_ID", "uuid", "The Member."),
            ("JOINED_AT", "timestamp", "When the Member first joined."),
        ),
        ("COMMUNITY_ID", "MEMBER_ID"),
        key_is_unique=True,
        references=(_OF_MEMBER, Reference("COMMUNITY_ID", "communities")),
    ),
)

RESOURCE_NAMES: tuple[str, ...] = tuple(resource.name for resource in RESOURCES)

_BY_NAME = {resource.name: resource for resource in RESOURCES}


def resource_named(name: str) -> Resource:
    """Return the resource of that name. Raises KeyError."""
    return _BY_NAME[name]


def require_table(name: str) -> Resource:
    """Return the resource that is a table with that name. Raises NotFound."""
    if name not in RESOURCE_NAMES:
        raise NotFound(f"There is no such table. Use one of {', '.join(RESOURCE_NAMES)}.")
    return resource_named(name)
