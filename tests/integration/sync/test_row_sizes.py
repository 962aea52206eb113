"""Rows that DuckDB cannot read: the sync names them before it changes anything."""

import gzip
import random
from pathlib import Path

import pytest

from daybreak_client import AccountFiles, DatabaseFailed, sync
from daybreak_client.database_sync import csv_files
from daybreak_client.published import PublishedFile
from tests.integration.sync.conftest import Target
from tests.parts.delta_publisher import Publisher, community

LARGE = ("secret of 1234, " * 63 + 'a "quote"\n') * (17 << 10)


@pytest.mark.release
@pytest.mark.parametrize("full", [False, True])
def test_large_rows_are_named_or_loaded(target: Target, north: Publisher, account: AccountFiles, *, full: bool) -> None:
    north.publish({"communities": [community(1, "a\nb")]})
    sync(account, target.url)
    north.publish({"communities": [community(1, "a\nb"), community(2, LARGE), community(3, LARGE)]})
    if target.is_postgresql:
        assert sync(account, target.url, full=full, verify=True).different == ()
        return
    line = "line 4 of communities.csv.gz" if full else "line 2 of 2.communities.delta.csv.gz"
    with pytest.raises(DatabaseFailed, match=rf"communities: 2 rows .*16 MiB.*{line}; .*COMMUNITY_NAME\.") as caught:
        sync(account, target.url, full=full)
    assert "secret" not in caught.value.message
    assert target.query("SELECT count(*) FROM communities") == [(1,)]


def test_sizes_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of any size find the rows that a reader of CSV finds."""
    choose = random.Random(5)
    path = tmp_path / "members.csv.gz"
    for size in range(3, 40):
        monkeypatch.setattr("daybreak_client.database_sync.csv_files._CHUNK_BYTES", size)
        rows = [b'"A","B"\n']
        for _ in range(60):
            text = "".join(choose.choice('ab\n,"') for _ in range(choose.randrange(80))).replace('"', '""')
            rows.append(f'"{text}",{choose.randrange(99)}\n'.encode())
        path.write_bytes(gzip.compress(b"".join(rows)))
        lines = [1 + b"".join(rows[:number]).count(b"\n") for number in range(len(rows))]
        expected = [line for line, row in zip(lines, rows, strict=True) if len(row) > 60]
        assert [each.line for each in csv_files._large_rows(path, 60)] == expected
        file = PublishedFile("members", "", "csv", path.name, "", 0, 1000, "", "")
        with pytest.raises(DatabaseFailed, match=rf"{len(expected)} rows .* line {expected[0]} .*column is A\."):
            csv_files.check_row_sizes(file, path, 60)
