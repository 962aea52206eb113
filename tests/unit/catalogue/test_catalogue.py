"""The catalogue: the nine resources of the specification and the thirteen source tables."""

import msgspec

from daybreak.catalogue.columns import field_id
from daybreak.catalogue.formats import FORMATS, format_named
from daybreak.catalogue.resources import RESOURCES, resource_named
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.catalogue.table_schema import SCHEMA_VERSION, data_package

SPECIFIED = {
    "campaigns": (
        "CAMPAIGN_ID, LEADER_ID, BILLING_ENTITY_LEADER_ID, CHANNEL, SENT_AT, TEST_CAMPAIGN, TEXT, USAGE_CHANNEL, "
        "MEDIA_URL, IS_SCHEDULED, IS_FILTERED, RECIPIENT_COUNT, RESPONSE_COUNT, REPLIED_COUNT, STOP_COUNT, "
        "UNIT_COUNT, SEGMENT_COUNT, CAMPAIGN_NAME"
    ),
    "outbound_message_type_usage": (
        "LEADER_ID, BILLING_ENTITY_LEADER_ID, DATE_DAY, USAGE_CHANNEL, OUTBOUND_MESSAGE_TYPE, MESSAGE_COUNT, "
        "SEGMENT_COUNT, UNIT_COUNT"
    ),
    "campaign_links": "CAMPAIGN_ID, LEADER_ID, LINK_TYPE, LINK_URL, RECIPIENT_COUNT, HIT_COUNT",
    "members": (
        "MEMBER_ID, LEADER_ID, PHONE_NUMBER, SUBSCRIPTION_STATE, FIRST_NAME, LAST_NAME, EMAIL, DATE_OF_BIRTH, "
        "GENDER, CITY, STATE, STATE_CODE, COUNTRY, COUNTRY_CODE, DEVICE_TYPE, FIRST_ACTIVATED_AT"
    ),
    "member_state_changes": "MEMBER_ID, LEADER_ID, SUBSCRIPTION_STATE, STATE_CHANGED_AT",
    "member_term_accepts": (
        "MEMBER_ID, LEADER_ID, TERM_ID, MEMBER_EMAIL, MEMBER_COUNTRY_CODE, WAS_CHECKED, WAS_PRE_CHECKED, "
        "ACCEPTED_AT, LEADER_NAME, PARENT_LEADER_NAME, ULTIMATE_PARENT_LEADER_NAME, TERM_LANGUAGE, "
        "CUSTOM_SIGNUP_LANGUAGE, ADDITIONAL_CHECKBOX_LANGUAGE, ETL_LOADED_AT"
    ),
    "custom_member_data": "MEMBER_ID, LEADER_ID, CUSTOM_FIELD_NAME, CUSTOM_FIELD_VALUE",
    "communities": "COMMUNITY_ID, COMMUNITY_NAME, LEADER_ID, MEMBER_COUNT",
    "member_communities": "COMMUNITY_ID, COMMUNITY_NAME, LEADER_ID, MEMBER_ID, JOINED_AT",
}


def test_columns_match_the_specification() -> None:
    assert {r.name: ", ".join(r.column_names) for r in RESOURCES} == SPECIFIED


def test_keys_are_required_columns() -> None:
    for resource in RESOURCES:
        assert resource.column("LEADER_ID").nullable is False
        assert {*resource.key, *resource.tie_break} <= set(resource.column_names)
        assert all(not resource.column(name).nullable for name in resource.key)
        assert all(column.description for column in resource.columns)


def test_paths_follow_the_replacement_rule() -> None:
    usage = resource_named("outbound_message_type_usage")
    assert usage.path_for(format_named("csv")) == "outbound_message_type_usage.csv.gz/segment-based-subscription"
    assert usage.path_for(format_named("json")) == "outbound_message_type_usage.json.gz/segment-based-subscription"
    assert usage.file_name(format_named("csv")) == "outbound_message_type_usage.csv.gz"
    assert resource_named("members").path_for(format_named("parquet")) == "members.parquet"
    assert [format.ending for format in FORMATS] == [".csv.gz", ".json.gz", ".ndjson.gz", ".parquet"]


def test_there_are_thirteen_source_tables() -> None:
    assert len(SOURCE_TABLES) == 13
    for table in SOURCE_TABLES:
        nullable = {column.name: column.nullable for column in table.columns}
        assert len(nullable) == len(table.columns)
        if table.instant is not None:
            assert not nullable[table.instant]
        if table.name == "community_memberships":
            assert nullable["left_at"]


def test_schema_is_plain_json() -> None:
    package = msgspec.json.decode(msgspec.json.encode(data_package()))
    assert package["version"] == SCHEMA_VERSION
    for described, resource in zip(package["resources"], RESOURCES, strict=True):
        fields = described["schema"]["fields"]
        assert [field["name"] for field in fields] == list(resource.column_names)
        required = [field["name"] for field in fields if field.get("constraints", {}).get("required")]
        assert required == [c.name for c in resource.columns if not c.nullable]


def test_schema_has_unique_keys_and_references() -> None:
    described = {resource.name: msgspec.to_builtins(resource.schema) for resource in data_package().resources}
    assert {name: list(schema["primaryKey"]) for name, schema in described.items() if "primaryKey" in schema} == {
        "campaigns": ["CAMPAIGN_ID"],
        "outbound_message_type_usage": ["DATE_DAY", "USAGE_CHANNEL", "OUTBOUND_MESSAGE_TYPE"],
        "campaign_links": ["CAMPAIGN_ID", "LINK_TYPE", "LINK_URL"],
        "members": ["MEMBER_ID"],
        "custom_member_data": ["MEMBER_ID", "CUSTOM_FIELD_NAME"],
        "communities": ["COMMUNITY_ID"],
        "member_communities": ["COMMUNITY_ID", "MEMBER_ID"],
    }
    unique = {
        name: [field["name"] for field in schema["fields"] if field.get("constraints", {}).get("unique")]
        for name, schema in described.items()
    }
    assert {name: names for name, names in unique.items() if names} == {
        "campaigns": ["CAMPAIGN_ID"],
        "members": ["MEMBER_ID"],
        "communities": ["COMMUNITY_ID"],
    }
    assert described["member_communities"]["foreignKeys"] == (
        {"fields": ("MEMBER_ID",), "reference": {"resource": "members", "fields": ("MEMBER_ID",)}},
        {"fields": ("COMMUNITY_ID",), "reference": {"resource": "communities", "fields": ("COMMUNITY_ID",)}},
    )
    assert [name for name, schema in described.items() if "foreignKeys" in schema] == [
        "campaign_links",
        "member_state_changes",
        "member_term_accepts",
        "custom_member_data",
        "member_communities",
    ]


def test_field_ids_of_a_resource_are_distinct() -> None:
    for resource in RESOURCES:
        ids = {field_id(name) for name in resource.column_names}
        assert len(ids) == len(resource.columns)
        assert all(0 < each < 2**30 for each in ids)
