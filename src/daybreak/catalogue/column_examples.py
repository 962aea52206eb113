"""An example value of each column, as text. One row of examples is consistent across the nine resources."""

from collections.abc import Mapping

from daybreak.catalogue.columns import Column, ColumnType

_BY_NAME: Mapping[str, str] = {
    "ACCEPTED_AT": "2026-11-02T17:21:09.482310Z",
    "ADDITIONAL_CHECKBOX_LANGUAGE": "Also send me news about tours.",
    "BILLING_ENTITY_LEADER_ID": "7d909222-adf5-4547-93e0-e8f60c50f980",
    "CAMPAIGN_ID": "00907d35-4fb5-4464-87c3-90978c18e04d",
    "CAMPAIGN_NAME": "Opening night",
    "CITY": "Oslo",
    "COMMUNITY_ID": "3f2d9c11-8b07-4c5e-a2d4-6e1f90b7c835",
    "COMMUNITY_NAME": "Front row",
    "COUNTRY": "Norway",
    "COUNTRY_CODE": "NO",
    "CUSTOM_FIELD_NAME": "favorite_play",
    "CUSTOM_FIELD_VALUE": "Peer Gynt",
    "CUSTOM_SIGNUP_LANGUAGE": "Join us for news from the theatre.",
    "DATE_DAY": "2026-11-23",
    "DATE_OF_BIRTH": "1991-05-14",
    "DEVICE_TYPE": "iphone",
    "EMAIL": "ana@example.org",
    "ETL_LOADED_AT": "2026-11-24T03:12:07.000000Z",
    "FIRST_ACTIVATED_AT": "2025-06-03T00:10:40.491754Z",
    "FIRST_NAME": "Ana",
    "HIT_COUNT": "311",
    "JOINED_AT": "2025-06-03T00:12:02.118406Z",
    "LAST_NAME": "Berg",
    "LEADER_ID": "7d909222-adf5-4547-93e0-e8f60c50f980",
    "LEADER_NAME": "Northlight Theatre",
    "LINK_URL": "https://tickets.example.org/opening",
    "MEDIA_URL": "https://media.example.org/opening.jpg",
    "MEMBER_COUNT": "640",
    "MEMBER_COUNTRY_CODE": "NO",
    "MEMBER_EMAIL": "ana@example.org",
    "MEMBER_ID": "0021dc60-a19a-409a-a3bb-a3f832f665c4",
    "MESSAGE_COUNT": "1204",
    "PARENT_LEADER_NAME": "Northlight Group",
    "PHONE_NUMBER": "+4791234567",
    "RECIPIENT_COUNT": "1204",
    "REPLIED_COUNT": "57",
    "RESPONSE_COUNT": "61",
    "SEGMENT_COUNT": "2408",
    "SENT_AT": "2026-11-23T18:45:18.714068Z",
    "STATE": "Oslo",
    "STATE_CODE": "03",
    "STATE_CHANGED_AT": "2025-06-03T00:10:40.491754Z",
    "STOP_COUNT": "4",
    "TERM_ID": "b1e0a7c2-94d6-4f38-8a51-2c7d06e9f413",
    "TERM_LANGUAGE": "I agree to receive messages.",
    "TEXT": "Doors open at seven. See you tonight!",
    "ULTIMATE_PARENT_LEADER_NAME": "Northlight Group",
    "UNIT_COUNT": "2408",
    "WAS_CHECKED": "true",
}


def example_of(column: Column) -> str:
    """Return the example value of a column of a resource: the first expected value if it has a list of them.

    Raises KeyError for a column without an example.
    """
    if column.allowed:
        return column.allowed[0]
    if column.type is ColumnType.BOOLEAN:
        return _BY_NAME.get(column.name, "false")
    return _BY_NAME[column.name]
