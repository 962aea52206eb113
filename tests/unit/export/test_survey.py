"""What the first look at the rows counts."""

from datetime import datetime
from pathlib import Path

from daybreak.catalogue.resources import resource_named
from daybreak.export.resource_export import shaped_relation
from daybreak.export.survey import leader_sums
from tests.parts.export_rows import made_up_reading

LEADER = "0000000a-0000-4000-8000-000000000000"
CAMPAIGN = "00000001-1111-4111-8111-111111111111"


def test_texts_are_measured_without_the_identifiers_beside_them(tmp_path: Path) -> None:
    instant = datetime(2026, 2, 28, 23, 59, 59)
    full = (
        CAMPAIGN,
        LEADER,
        LEADER,
        "sms",
        instant,
        True,
        "Ære 'n' \"ê\"",
        "mms",
        "",
        False,
        True,
        1,
        2,
        3,
        4,
        5,
        6,
        "x",
    )
    bare = (CAMPAIGN, LEADER, *([None] * 16))
    resource = resource_named("campaigns")
    with made_up_reading(tmp_path, {"campaigns": [full, bare]}, [LEADER]) as reading, reading.cursor() as cursor:
        [sums] = leader_sums(cursor, shaped_relation(cursor, reading, resource), resource)
    assert sums.text_bytes == sum(len(text.encode()) for text in ("sms", "Ære 'n' \"ê\"", "mms", "", "x"))
    assert sums.present == (2, 2, *([1] * 16))
