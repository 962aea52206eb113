"""Changed rows of deltas: additions, removals and changes."""

import csv
import gzip
import io
import json
from collections.abc import Iterator
from typing import cast

from daybreak.catalogue.resources import resource_named
from daybreak.domain.delta import ResourceDelta
from daybreak.domain.snapshot import StoredFormat
from daybreak.filestore.file_store import FileStore
from daybreak.web.dashboard.files.readers import ADDED, CHANGED, REMOVED, changed_rows, changes_csv
from daybreak.web.dashboard.files.view import changed_parts, changes_summary

RESOURCE = resource_named("custom_member_data")
LINES = (
    {"_OP": "D", **dict.fromkeys(RESOURCE.key, "1")},
    {"_OP": "D", **dict.fromkeys(RESOURCE.key, "2")},
    {"_OP": "I", **dict.fromkeys(RESOURCE.column_names, "2")},
    {"_OP": "I", **dict.fromkeys(RESOURCE.column_names, "3")},
    {"_OP": "I", **dict.fromkeys(RESOURCE.column_names, "=4")},
)
DELTA = ResourceDelta(3, 4, inserted=3, deleted=2, lines=5, formats={"json": StoredFormat(1, "", 1, "", "key")})


class _Store:
    def read(self, key: str) -> Iterator[bytes]:
        yield gzip.compress(("[" + ",\n".join(map(json.dumps, LINES)) + "]\n").encode())


STORE = cast("FileStore", _Store())


def test_rows_of_a_key_are_one_change() -> None:
    rows = list(changed_rows(STORE, RESOURCE, DELTA))
    assert [row.kind for row in rows] == [REMOVED, CHANGED, ADDED, ADDED]
    assert changes_summary(DELTA, rows, may_be_all=True) == "All 4 changes."
    assert [part.heading for part in changed_parts(RESOURCE, rows)] == [
        "Added: 2 rows",
        "Removed: 1 row",
        "Changed: 1 row",
    ]
    removed = changed_parts(RESOURCE, rows)[1].table
    assert [column.name for column in removed.columns] == list(RESOURCE.key)


def test_limit_shows_no_change_as_a_removal() -> None:
    after_two_lines = len(json.dumps(LINES[0])) + len(json.dumps(LINES[1])) + len("[,\n,\n")
    rows = list(changed_rows(STORE, RESOURCE, DELTA, maximum_bytes=after_two_lines + 20))
    assert [row.kind for row in rows] == [REMOVED]
    assert changes_summary(DELTA, rows, may_be_all=True).startswith("The first change. ")


def test_file_of_changes_is_safe_for_spreadsheets() -> None:
    content = b"".join(changes_csv(STORE, RESOURCE, DELTA)).decode("utf-8-sig")
    heading, *rows = csv.reader(io.StringIO(content, newline=""))
    assert heading == ["CHANGE", *RESOURCE.column_names]
    assert [row[0] for row in rows] == [REMOVED, CHANGED, ADDED, ADDED]
    assert rows[-1][-1] == "'=4"
