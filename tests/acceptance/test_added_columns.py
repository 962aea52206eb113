"""A column is added to resources: every way to a stored version uses the columns that the version was made with."""

import csv
import gzip
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import delta_sharing
import pytest
import requests

from daybreak.catalogue.columns import Column
from daybreak.catalogue.models import Model, load_models
from daybreak.catalogue.resources import RESOURCES, resource_named
from daybreak.snapshots.erase import erase_member
from tests.acceptance.browser import Browser, signed_in
from tests.acceptance.daily_builder import Builder
from tests.acceptance.installation import LEADERS, MAYA, NORTH, Installation
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving
from tests.acceptance.test_sharing import SETTINGS, Recipient, recipient_of
from tests.parts import sources
from tests.reference.days import ChangingPlatform

# The Python client leaves the folder of an empty table in delta format to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")
# One column at the end, one that Insight reads, and one before the constants of a resource.
ADDED = {"campaigns": "CAMPAIGN_NAME", "members": "LAST_NAME", "member_term_accepts": "ADDITIONAL_CHECKBOX_LANGUAGE"}
OLD_VERSIONS = (1, 2, 3)


@contextmanager
def without_added_columns() -> Iterator[None]:
    """Let this process be the version of Daybreak before the columns were added."""
    before = {name: resource_named(name).columns for name in ADDED}
    try:
        for name, added in ADDED.items():
            kept = tuple(column for column in before[name] if column.name != added)
            assert len(kept) == len(before[name]) - 1
            set_columns(name, kept)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sources, "load_models", old_models)
            yield
    finally:
        for name, columns in before.items():
            set_columns(name, columns)


def set_columns(name: str, columns: tuple[Column, ...]) -> None:
    resource = resource_named(name)
    object.__setattr__(resource, "columns", columns)
    vars(resource).pop("column_names", None)  # names of the columns before


def old_models() -> Mapping[str, Model]:
    models = dict(load_models())
    for name in ADDED:
        columns = ", ".join(resource_named(name).column_names)
        models[name] = replace(models[name], sql=f"SELECT {columns} FROM ({models[name].sql}\n) AS model")
    return models


def old_columns(name: str) -> list[str]:
    return [column for column in resource_named(name).column_names if column != ADDED.get(name)]


@dataclass(frozen=True)
class Upgraded:
    """A service of today over versions from before."""

    service: Service
    builder: Builder
    recipient: Recipient
    browser: Browser
    folder: Path

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.service.get(path, token=self.recipient.token, **options)

    def snapshots(self) -> dict[int, str]:
        """Return the ids of the kept snapshots by version."""
        served = self.service.installation.read(lambda stores: stores.snapshots.served())
        return {snapshot.version: snapshot.snapshot_id for snapshot in served if snapshot.version is not None}


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    folder = tmp_path_factory.mktemp("columns")
    installation = Installation(
        folder / "installation", f"sqlite:///{folder}/installation/state.db", large_rows=5, parquet=True
    )
    builder = Builder(installation, ChangingPlatform(11, leaders=LEADERS, members=60), folder, sharing=True)
    with without_added_columns():
        installation.create()
        builder.publish()
        builder.publish()
    with serving(installation, workers=1, settings=SETTINGS) as service, signed_in(service, MAYA) as browser:
        yield Upgraded(service, builder, recipient_of(service, MAYA, NORTH), browser, folder)


def check_sharing(upgraded: Upgraded, folder: Path, version: int, names: dict[str, list[str]]) -> None:
    recipient = upgraded.recipient
    for name, columns in names.items():
        lines = recipient.query(name, version=version)
        schema = json.loads(lines[1]["metaData"]["schemaString"])
        assert [field["name"] for field in schema["fields"]] == columns, (name, version)
        for line in lines[2:]:
            assert list(json.loads(line["file"]["stats"])["nullCount"]) == columns
        url = f"{recipient.profile(folder)}#{NORTH}.daybreak.{name}"
        assert list(delta_sharing.load_as_pandas(url, version=version).columns) == columns


def check_current(upgraded: Upgraded, names: dict[str, list[str]]) -> None:
    """Check what answers with the current version."""
    for path in ("", "/deltas"):
        assert upgraded.get(f"/download/v1/files/{NORTH}{path}").status_code == 200, path
    for path in ("/download/v1/schema", "/download/v1/schema?dialect=duckdb", "/openapi.json"):
        assert upgraded.get(path).status_code == 200, path
    for name, columns in names.items():
        metadata = upgraded.recipient.call(upgraded.recipient.table(name) + "/metadata")
        schema = json.loads(json.loads(metadata.text.splitlines()[1])["metaData"]["schemaString"])
        assert [field["name"] for field in schema["fields"]] == columns
        content = gzip.decompress(
            requests.get(
                upgraded.service.link(upgraded.recipient.token, NORTH, resource_named(name).download_path),
                timeout=PATIENCE_SECONDS,
            ).content
        )
        assert next(csv.reader(io.StringIO(content.decode()))) == columns
    account = f"/dashboard/{NORTH}"
    for path in (
        "/files",
        "/insight",
        "/insight/campaigns",
        "/insight/messages.csv",
        "/insight/links.csv",
        "/activity",
    ):
        found = upgraded.browser.get(account + path)
        assert found.status_code in {200, 303}, (path, found.status_code)


def check_dashboard(upgraded: Upgraded, snapshot_id: str, names: dict[str, list[str]]) -> None:
    files, browser = f"/dashboard/{NORTH}/files", upgraded.browser
    for path in ("", "/all.zip"):
        assert browser.get(f"{files}{path}?snapshot={snapshot_id}").status_code == 200, path
    for name, columns in names.items():
        page = browser.get(f"{files}/{name}/preview?snapshot={snapshot_id}")
        assert page.status_code == 200
        assert all(column in page.text for column in columns)
        if name in ADDED:
            assert (ADDED[name] in page.text) == (ADDED[name] in columns), name
        safe = browser.get(f"{files}/{name}/spreadsheet-safe.csv?snapshot={snapshot_id}")
        rows = list(csv.reader(io.StringIO(safe.content.decode("utf-8-sig"))))
        assert rows[0] == columns
        assert {len(row) for row in rows} == {len(columns)}
        assert browser.get(f"{files}/{name}/changes?snapshot={snapshot_id}").status_code in {200, 404}


def check_old_versions(upgraded: Upgraded, folder: Path) -> None:
    names = {resource.name: old_columns(resource.name) for resource in RESOURCES}
    snapshots = upgraded.snapshots()
    assert set(OLD_VERSIONS) <= snapshots.keys()
    for version in OLD_VERSIONS:
        check_sharing(upgraded, folder, version, {name: names[name] for name in ADDED})
        check_dashboard(upgraded, snapshots[version], {name: names[name] for name in (*ADDED, "communities")})


def changes_of(upgraded: Upgraded, name: str, first: int) -> requests.Response:
    return upgraded.recipient.call(f"{upgraded.recipient.table(name)}/changes?startingVersion={first}")


@pytest.mark.release
def test_versions_keep_their_columns_before_and_after_the_next_publication(upgraded: Upgraded, tmp_path: Path) -> None:
    names = {resource.name: list(resource.column_names) for resource in RESOURCES}
    old = {name: old_columns(name) for name in names}
    check_current(upgraded, {name: old[name] for name in ADDED})
    check_old_versions(upgraded, tmp_path)
    for name in names:
        found = changes_of(upgraded, name, OLD_VERSIONS[-1])
        assert found.status_code == 200 or found.json()["errorCode"] == "version_not_kept"
        if found.status_code == 200:
            schema = json.loads(json.loads(found.text.splitlines()[1])["metaData"]["schemaString"])
            assert [field["name"] for field in schema["fields"]] == old[name]

    upgraded.builder.publish()
    version = OLD_VERSIONS[-1] + 1
    check_current(upgraded, {name: names[name] for name in ADDED})
    check_sharing(upgraded, tmp_path, version, names)
    check_dashboard(upgraded, upgraded.snapshots()[version], names)
    check_old_versions(upgraded, tmp_path)
    for first in (OLD_VERSIONS[-1], version):
        refused = changes_of(upgraded, "members", first)
        assert (refused.status_code, refused.json()["errorCode"]) == (400, "version_not_kept")
    feed = upgraded.get(f"/download/v1/files/{NORTH}/deltas").json()["data"]
    assert (feed["version"], feed["entries"]) == (version, [])
    closed = upgraded.get(f"/download/v1/files/{NORTH}/deltas?since={OLD_VERSIONS[-1]}")
    assert (closed.status_code, closed.json()["code"]) == (410, "chain_closed")
    assert "columns" in closed.json()["detail"]
    assert not [line for line in upgraded.service.log_lines() if line.get("status", 0) >= 500]


@pytest.mark.release
def test_member_is_erased_from_versions_with_other_columns(upgraded: Upgraded) -> None:
    """Last in this file. The CSV files of some versions lack a column, which moves the others."""
    old = upgraded.snapshots()[OLD_VERSIONS[-1]]
    with closing(upgraded.service.installation.state()) as state:
        context = upgraded.builder.context(state, upgraded.folder / "platform")

        def rows(name: str) -> tuple[int, list[dict[str, str]]]:
            manifest = state.read(lambda stores: list(stores.snapshots.manifest(old, NORTH)))
            entry = next(each for each in manifest if each.resource == name)
            content = gzip.decompress(b"".join(context.store.read(entry.formats["csv"].key)))
            return entry.rows, list(csv.DictReader(io.StringIO(content.decode(), newline="")))

        member = rows("members")[1][0]["MEMBER_ID"]
        before, _ = rows("members")
        erasure = erase_member(context, member, "ana@host", lambda run: pytest.fail(f"waits for {run}"))
        assert erasure.finished_at is not None
        after, found = rows("members")
        assert (after, len(found)) == (before - 1, before - 1)
        assert list(found[0]) == old_columns("members")
        assert member not in {row["MEMBER_ID"] for row in found}
    check_old_versions(upgraded, upgraded.folder)
