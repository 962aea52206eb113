"""The survey of a resource: rows, bytes of text and NULLs per Leader."""

from datetime import datetime
from pathlib import Path

from daybreak.catalogue.resources import resource_named
from daybreak.export.survey import leader_totals
from daybreak.export.work_tables import open_work_tables
from tests.parts.export_rows import sample_rows

LEADER = "0000000a-0000-4000-8000-000000000000"
CAMPAIGN = "00000001-1111-4111-8111-111111111111"


def test_text_bytes_exclude_other_columns(tmp_path: Path) -> None:
    instant = datetime(2026, 2, 28, 23, 59, 59)
    full = (
        CAMPAIGN, LEADER, LEADER, "sms", instant, True, "Ære 'n' \"ê\"", "mms", "", False, True, 1, 2, 3, 4, 5, 6, "x",
    )  # fmt: skip
    bare = (CAMPAIGN, LEADER, *([None] * 16))
    resource = resource_named("campaigns")
    with (
        sample_rows(tmp_path, {"campaigns": [full, bare]}, [LEADER]) as rows,
        open_work_tables(rows, resource) as tables,
    ):
        [totals] = leader_totals(tables)
    assert totals.text_bytes == sum(len(text.encode()) for text in ("sms", "Ære 'n' \"ê\"", "mms", "", "x"))
    assert totals.present == (2, 2, *([1] * 16))
