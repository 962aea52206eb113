"""Every format over HTTP, read with common tools."""

import csv
import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow.parquet
import pytest
import requests

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.formats import FORMATS, Format, format_named
from daybreak.catalogue.resources import RESOURCES, Resource, resource_named
from daybreak.cli.main import run
from daybreak.demo.emails import OWNER_EMAIL
from tests.acceptance.service import PATIENCE_SECONDS
from tests.parts.demo_service import AS_OF, make_demo_service
from tests.parts.ports import free_port
from tests.parts.variants import one_of
from tests.parts.warm import printed_by, running_warm


@dataclass(frozen=True)
class Consumer:
    """API token, and URLs of its account's files: served as gzip files, and as gzip-encoded text."""

    token: str
    files: str
    texts: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def get(self, url: str, **headers: str) -> requests.Response:
        """Send a request and follow its redirect."""
        found = requests.get(url, headers={**self.headers, **headers}, timeout=PATIENCE_SECONDS)
        assert found.ok, found.text
        return found

    def url(self, resource: Resource, name: str) -> str:
        return f"{self.files}/{resource.path_for(format_named(name))}"


@pytest.fixture(scope="module")
def consumer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consumer]:
    """Publish a demo platform in all formats and serve it twice: as gzip files, and as gzip-encoded text."""
    folder = tmp_path_factory.mktemp("formats")
    directory = make_demo_service(folder, leaders=6, members=400, messages=1_000)
    config = ["-c", str(folder / "daybreak.toml")]
    formats = ",".join(format.name for format in FORMATS)
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("DAYBREAK_SNAPSHOT__FORMATS", formats)
        # This would lower the priority of the test process.
        environ.setattr("daybreak.snapshots.builder.take_low_priority", lambda: None)
        assert run(["snapshot", "run", "--as-of", f"{AS_OF:%Y-%m-%dT%H:%M:%SZ}", *config]) == 0
    owner = directory.seat(OWNER_EMAIL)
    token = printed_by(folder, "token", "create", "--seat", owner.email, "--account", owner.client_ids[0])

    def serve(serve_gzip_as: str) -> Any:
        address = f"127.0.0.1:{free_port()}"
        environment = {
            "DAYBREAK_LISTEN": address,
            "DAYBREAK_BASE_URL": f"http://{address}",
            "DAYBREAK_WORKERS": "1",
            "DAYBREAK_SNAPSHOT__FORMATS": formats,
            "DAYBREAK_FILES__SERVE_GZIP_AS": serve_gzip_as,
        }
        return address, running_warm(["web", *config], environment=environment)

    (files, first), (texts, second) = serve("file"), serve("encoding")
    path = f"/download/v1/files/{owner.client_ids[0]}"
    with first as file_service, second as text_service:
        file_service.wait_for_log('"ready"', PATIENCE_SECONDS)
        text_service.wait_for_log('"ready"', PATIENCE_SECONDS)
        yield Consumer(token, f"http://{files}{path}", f"http://{texts}{path}")


@pytest.mark.release
@pytest.mark.parametrize("resource", one_of(*RESOURCES), ids=lambda resource: str(resource.name))
def test_all_formats_have_the_same_rows(consumer: Consumer, resource: Resource) -> None:
    got = {format.name: consumer.get(consumer.url(resource, format.name)) for format in FORMATS}
    for format in FORMATS:
        found = got[format.name]
        assert found.headers["Content-Type"] == format.media_type
        assert "Content-Encoding" not in found.headers
        assert found.headers["Content-Disposition"] == f'attachment; filename="{resource.file_name(format)}"'
    records = json.loads(gzip.decompress(got["json"].content))
    assert records
    lines = gzip.decompress(got["ndjson"].content).decode("utf-8").removesuffix("\n").split("\n")
    assert [json.loads(line) for line in lines] == records
    table = pyarrow.parquet.read_table(io.BytesIO(got["parquet"].content))
    assert table.column_names == list(resource.column_names)
    assert [{name: _as_json(value) for name, value in row.items()} for row in table.to_pylist()] == records
    assert _csv_records(resource, got["csv"].content) == records
    assert {int(found.headers["X-Row-Count"]) for found in got.values()} == {len(records)}


def test_pandas_polars_and_duckdb_read_the_files(consumer: Consumer, tmp_path: Path) -> None:
    """The same calls as in the documentation."""
    members = resource_named("members")
    count = len(json.loads(gzip.decompress(consumer.get(consumer.url(members, "json")).content)))
    url = consumer.url(members, "csv")
    frame = pd.read_csv(url, storage_options=consumer.headers, dtype={"PHONE_NUMBER": str})
    assert list(frame.columns) == list(members.column_names)
    assert len(frame) == count
    assert frame["PHONE_NUMBER"].dropna().str.startswith("+").all()
    file = tmp_path / "members.csv.gz"
    file.write_bytes(consumer.get(url).content)
    assert pl.read_csv(file, schema_overrides={"PHONE_NUMBER": pl.String}).height == count
    assert _duckdb_count(file) == count
    file = tmp_path / "members.ndjson.gz"
    file.write_bytes(consumer.get(consumer.url(members, "ndjson")).content)
    assert _duckdb_count(file) == count
    typed = pl.read_parquet(io.BytesIO(consumer.get(consumer.url(members, "parquet")).content))
    assert typed.schema["FIRST_ACTIVATED_AT"] == pl.Datetime("us", "UTC")
    assert typed.schema["DATE_OF_BIRTH"] == pl.Date


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: str(format.name))
def test_each_format_supports_head_and_ranges(consumer: Consumer, format: Format) -> None:
    link = requests.get(
        consumer.url(resource_named("members"), format.name),
        headers=consumer.headers,
        allow_redirects=False,
        timeout=PATIENCE_SECONDS,
    ).headers["Location"]
    whole = requests.get(link, timeout=PATIENCE_SECONDS)
    head = requests.head(link, timeout=PATIENCE_SECONDS)
    changing = {"date", "x-request-id"}
    assert {name: value for name, value in head.headers.items() if name.lower() not in changing} == {
        name: value for name, value in whole.headers.items() if name.lower() not in changing
    }
    assert head.headers["Content-Length"] == str(len(whole.content))
    end = requests.get(link, headers={"Range": "bytes=-8", "If-Range": head.headers["ETag"]}, timeout=PATIENCE_SECONDS)
    assert (end.status_code, end.content) == (206, whole.content[-8:])
    again = requests.get(link, headers={"If-None-Match": head.headers["ETag"]}, timeout=PATIENCE_SECONDS)
    assert (again.status_code, again.content) == (304, b"")


def test_gzip_is_served_as_content_encoding(consumer: Consumer) -> None:
    """`files.serve_gzip_as = "encoding"`: HTTP clients decompress the content; ranges select compressed bytes."""
    name = resource_named("custom_member_data").file_name
    compressed = consumer.get(f"{consumer.files}/{name(format_named('csv'))}")
    for kind, content_type in (
        ("csv", "text/csv; charset=utf-8; header=present"),
        ("json", "application/json"),
        ("ndjson", "application/x-ndjson"),
    ):
        found = consumer.get(f"{consumer.texts}/{name(format_named(kind))}", **{"Accept-Encoding": "gzip"})
        assert found.headers["Content-Encoding"] == "gzip"
        assert found.headers["Content-Type"] == content_type
        assert found.headers["Content-Disposition"] == f'attachment; filename="custom_member_data.{kind}"'
    text = consumer.get(f"{consumer.texts}/{name(format_named('csv'))}")
    assert text.content == gzip.decompress(compressed.content)
    assert text.headers["Content-Length"] == str(len(compressed.content))
    assert text.headers["ETag"] != compressed.headers["ETag"]
    part = consumer.get(text.url, Range="bytes=0-9", **{"If-Range": text.headers["ETag"]})
    assert (part.status_code, part.raw.headers["Content-Range"]) == (206, f"bytes 0-9/{len(compressed.content)}")
    plain = consumer.get(f"{consumer.texts}/{name(format_named('csv'))}", **{"Accept-Encoding": "identity"})
    assert plain.content == compressed.content
    assert plain.headers["Content-Type"] == "application/gzip"
    parquet = consumer.get(f"{consumer.texts}/{name(format_named('parquet'))}")
    assert "Content-Encoding" not in parquet.headers
    assert parquet.content[-4:] == b"PAR1"


def _duckdb_count(file: Path) -> int:
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT count(*) FROM '{file}'").fetchone()
    assert found is not None
    return int(found[0])


def _as_json(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value.isoformat() if isinstance(value, date) else value


def _csv_records(resource: Resource, stored: bytes) -> list[dict[str, object]]:
    """Parse the records of a CSV file with their types. An unquoted empty cell is NULL."""
    text = gzip.decompress(stored).decode("utf-8")
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert tuple(header) == resource.column_names
    quoted = _quoted_empties(text, len(header))
    return [
        {
            column.name: _typed(cell, column.type, empty=(number, place) in quoted)
            for place, (column, cell) in enumerate(zip(resource.columns, row, strict=True))
        }
        for number, row in enumerate(rows)
    ]


def _typed(cell: str, kind: ColumnType, *, empty: bool) -> object:
    if cell == "":
        return "" if empty else None
    if kind is ColumnType.BIGINT:
        return int(cell)
    return {"true": True, "false": False}[cell] if kind is ColumnType.BOOLEAN else cell


def _quoted_empties(text: str, width: int) -> set[tuple[int, int]]:
    """Return the positions of quoted empty cells as (record without header, column): `csv` does not report them."""
    found, position, start, inside = set(), 0, 0, False
    for index, character in enumerate(text):
        if character == '"':
            inside = not inside
        elif character in ",\n" and not inside:
            if text[start:index] == '""':
                found.add((position // width - 1, position % width))
            position, start = position + 1, index + 1
    return found
