"""The count of rows that says whether a peer made the same files."""

import gzip
from pathlib import Path

from benchmarks.verify import rows_in


def test_rows_are_counted_whatever_is_in_the_cells(tmp_path: Path) -> None:
    csv = '"MEMBER_ID","NAME"\n"1","a ""quoted"",\nname"\n"2",\n"3",""\n"4","\n\n"\n'
    records = r'[{"MEMBER_ID":"1","NAME":"\"MEMBER_ID\":"},' + "\n" + '{"MEMBER_ID":"2","NAME":null}]'
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv.gz").write_bytes(gzip.compress(csv.encode()))
    (tmp_path / "csv" / "data_0.gz").write_bytes(gzip.compress(b'"MEMBER_ID","NAME"\n'))
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(records.encode()))
    assert rows_in(tmp_path) == {"csv": 4, "json": 2}
