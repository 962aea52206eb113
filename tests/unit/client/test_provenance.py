"""The record of the origin of fetched files, and the refusal to mix accounts."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daybreak_client.errors import WrongUse
from daybreak_client.provenance import FILE_NAME, Provenance
from daybreak_client.published import PublishedFile, PublishedSnapshot

SERVICE = "https://export.example.org"
MEMBERS, CAMPAIGNS = (
    PublishedFile(name, name, "csv", f"{name}.csv.gz", f"/{name}", 7, 9, "ab" * 32, "cd" * 32)
    for name in ("members", "campaigns")
)
INSTANT = datetime(2026, 11, 20, 4, tzinfo=UTC)
TODAY = PublishedSnapshot("north", "s1", 41, INSTANT, INSTANT, INSTANT, late=False, reason=None, files=())


def saved(folder: Path, provenance: Provenance, *files: PublishedFile) -> dict[str, object]:
    for file in files:
        (folder / file.name).touch()
    provenance.save(folder, files)
    found: dict[str, object] = json.loads((folder / FILE_NAME).read_text())
    return found


def test_record_names_account_snapshot_and_digests(tmp_path: Path) -> None:
    record = saved(tmp_path, Provenance(SERVICE, TODAY), MEMBERS)
    assert (record["service"], record["client_id"], record["snapshot_id"], record["version"]) == (
        SERVICE, "north", "s1", 41,
    )  # fmt: skip
    assert record["files"] == {
        "members.csv.gz": {
            "snapshot_id": "s1", "version": 41, "rows": 7, "bytes": 9, "sha256": "ab" * 32, "content_sha256": "cd" * 32,
        }
    }  # fmt: skip
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_files_of_another_fetch_keep_their_snapshot(tmp_path: Path) -> None:
    saved(tmp_path, Provenance(SERVICE, TODAY), MEMBERS, CAMPAIGNS)
    tomorrow = replace(TODAY, snapshot_id="s2", version=42)
    record = saved(tmp_path, Provenance(SERVICE, tomorrow), CAMPAIGNS)
    assert record["files"]["campaigns.csv.gz"]["version"] == 42  # type: ignore[index]
    assert record["files"]["members.csv.gz"]["version"] == 41  # type: ignore[index]
    (tmp_path / MEMBERS.name).unlink()
    assert set(saved(tmp_path, Provenance(SERVICE, tomorrow), CAMPAIGNS)["files"]) == {CAMPAIGNS.name}  # type: ignore[call-overload]


def test_folder_of_another_account_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, Provenance(SERVICE, TODAY), MEMBERS, CAMPAIGNS)
    Provenance(SERVICE, TODAY).check(tmp_path, force=False)
    others = (
        Provenance(SERVICE, replace(TODAY, client_id="south")),
        Provenance("https://eu.example.org", TODAY),
    )
    for other in others:
        with pytest.raises(WrongUse, match=r"contains files of account north.*--force"):
            other.check(tmp_path, force=False)
        other.check(tmp_path, force=True)
    assert set(saved(tmp_path, others[0], MEMBERS)["files"]) == {MEMBERS.name}  # type: ignore[call-overload]


def test_files_of_another_account_are_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    record = saved(folder, Provenance(SERVICE, TODAY), MEMBERS, CAMPAIGNS)
    others = (tmp_path / "outside.csv.gz", folder / "notes.csv.gz")
    for other in others:
        other.touch()
    record["files"] = {**dict.fromkeys(("../outside.csv.gz", str(others[0]))), **record["files"]}  # type: ignore[dict-item]
    (folder / FILE_NAME).write_text(json.dumps(record))
    after = saved(folder, Provenance(SERVICE, replace(TODAY, client_id="south")), MEMBERS)
    assert set(after["files"]) == {MEMBERS.name}  # type: ignore[call-overload]
    assert {path.name for path in folder.iterdir()} == {FILE_NAME, MEMBERS.name, "notes.csv.gz"}
    assert others[0].exists()


def test_record_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(WrongUse, match="is not a regular file"):
        Provenance(SERVICE, TODAY).check(tmp_path, force=False)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"files": 1}'])
def test_damaged_record_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(WrongUse, match="Remove it"):
        Provenance(SERVICE, TODAY).check(tmp_path, force=False)
