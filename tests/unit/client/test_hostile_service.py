"""A service that sends hostile values: nothing is written outside of the target, and every error is a sentence."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from daybreak_client import connection, wire
from daybreak_client.command.application import run
from daybreak_client.errors import Damaged, Unreachable, WrongUse
from daybreak_client.service import Daybreak
from daybreak_client.wire import InvalidValue
from tests.parts.scripted_service import Reply, Request, ScriptedService, scripted_service

ACCOUNT = "a0000000-0000-4000-8000-000000000001"
SNAPSHOT = "c0000000-0000-4000-8000-000000000003"
CONTENT = b"rows"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
INSTANT = "2026-11-20T04:00:00Z"
FILE = {"format": "csv", "path": "/x", "bytes": len(CONTENT), "sha256": DIGEST, "content_sha256": DIGEST}
MANIFEST: dict[str, Any] = {
    "client_id": ACCOUNT, "snapshot_id": SNAPSHOT, "version": 1, "as_of": INSTANT, "published_at": INSTANT,
    "next_expected_at": INSTANT, "late": False, "reason": None,
    "resources": [{"resource": "members", "title": "Members", "rows": 1, "files": [FILE]}],
}  # fmt: skip
CONTEXT = {"client_id": ACCOUNT, "first_name": "An", "last_name": "Account", "current_context": True, "roles": []}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_FIRST_WAIT_SECONDS", 0.001)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedService]:
    with scripted_service() as found:
        monkeypatch.setenv("DAYBREAK_SERVICE", found.url)
        monkeypatch.setenv("DAYBREAK_TOKEN", "session")
        monkeypatch.delenv("DAYBREAK_ACCOUNT", raising=False)
        found.script = serving()
        yield found


def serving(
    manifest: Any = MANIFEST, contexts: Any = (CONTEXT,), link: Any = "/link", content: bytes = CONTENT
) -> Callable[[Request], Reply]:
    """Return a script that answers with these values."""

    def script(request: Request) -> Reply:
        if request.path.endswith("/context"):
            return Reply(200, {"data": {"token": "session"} if request.method == "PUT" else list(contexts)})
        if request.path == "/link":
            return Reply(200, content)
        if request.path.endswith("/members.csv.gz"):
            return Reply(302, {"data": {"url": link, "sha256": DIGEST}})
        return Reply(200, {"data": manifest})

    return script


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the manifest with another value at a path such as `resources/0/resource`."""
    manifest = copy.deepcopy(MANIFEST)
    *parents, last = path.split("/")
    place: Any = manifest
    for name in parents:
        place = place[int(name)] if name.isdecimal() else place[name]
    place[last] = value
    return manifest


def written(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


PATHS = [
    "..", "../../x", "/etc/x", "a/../b", "x\0y", "..\\x", "C:\\x", "CON", "", "usercustomize", "members/../x",
    "\u202emembers",
]  # fmt: skip
IDS: list[object] = [
    *PATHS, ACCOUNT.upper(), "{" + ACCOUNT + "}", f"urn:uuid:{ACCOUNT}", ACCOUNT + "\n", ACCOUNT.replace("-", ""),
    ACCOUNT.replace("0", "\uff10"), None, 7, [ACCOUNT], {"a": 1},
]  # fmt: skip
NUMBERS: list[object] = [-1, 1.5, True, None, "1", 2**63, 10**400, [], {}]
DIGESTS = ["", "ab", DIGEST.upper(), DIGEST + "0", "../" + DIGEST[3:], DIGEST[:-1] + "g", None, 5]
INSTANTS = ["today", "2026-11-20", "2026-11-20T04:00:00", "", None, 0, "9" * 100]
LISTS: list[object] = [None, "x", {}, [None], [[]], [{"resource": "members"}]]
HOSTILE: list[tuple[str, object]] = [
    *(("client_id", value) for value in IDS), *(("snapshot_id", value) for value in IDS),
    *(("version", value) for value in NUMBERS), *(("as_of", value) for value in INSTANTS),
    *(("late", value) for value in ("false", 0, None)), *(("reason", value) for value in (5, ["x"], "x" * 5000)),
    *(("resources/0/resource", value) for value in PATHS), *(("resources/0/rows", value) for value in NUMBERS),
    *(("resources/0/files/0/format", value) for value in (*PATHS, "py", "csv.gz", None)),
    *(("resources/0/files/0/bytes", value) for value in NUMBERS),
    *(("resources/0/files/0/sha256", value) for value in DIGESTS),
    *(("resources", value) for value in LISTS),
    ("resources/0/files", [FILE, FILE]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value"), HOSTILE)
def test_hostile_manifest_writes_nothing(
    service: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, value: object
) -> None:
    service.script = serving(changed(path, value))
    target = tmp_path / "exports"
    target.mkdir()
    assert run(["fetch", str(target), "--all-accounts"]) == 2
    assert written(tmp_path) == set()
    printed = capsys.readouterr().err
    assert "Check the URL of the service" in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize("client_id", IDS)
def test_hostile_account_makes_no_folder(
    service: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str], client_id: object
) -> None:
    service.script = serving(contexts=({**CONTEXT, "client_id": client_id},))
    assert run(["fetch", str(tmp_path / "exports"), "--all-accounts"]) == 2
    assert list(tmp_path.iterdir()) == []
    assert "Check the URL of the service" in capsys.readouterr().err


def test_another_account_than_requested_is_refused(service: ScriptedService, tmp_path: Path) -> None:
    service.script = serving({**MANIFEST, "client_id": "b" + ACCOUNT[1:]})
    with Daybreak(service.url, "session") as client, pytest.raises(WrongUse, match="another account"):
        client.account(ACCOUNT).fetch(tmp_path / "exports")
    assert list(tmp_path.iterdir()) == []


def test_names_on_a_terminal_are_plain(service: ScriptedService, capsys: pytest.CaptureFixture[str]) -> None:
    service.script = serving(contexts=({**CONTEXT, "first_name": "\x1b]0;x\x07\u202e", "last_name": "a\rb\x9b31m"},))
    assert run(["accounts"]) == 0
    printed = capsys.readouterr().out
    assert not [each for each in printed if each in "\x1b\x07\r\x9b\u202e"]


@pytest.mark.parametrize(
    "link",
    ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://user@127.0.0.1/x", "http://[::1", "//:x", "x y", 5, None,
     "http://a\\b/",     "http://127.0.0.1/" + "x" * 9000, "http://127.0.0.1/\x1b[0m", "javascript:alert(1)"],
)  # fmt: skip
def test_hostile_link_is_not_followed(service: ScriptedService, tmp_path: Path, link: object) -> None:
    service.script = serving(link=link)
    with Daybreak(service.url, "session") as client, pytest.raises((WrongUse, Unreachable)):
        client.account(ACCOUNT).fetch(tmp_path)
    assert written(tmp_path) == set()


def test_endless_redirects_end(service: ScriptedService) -> None:
    service.script = lambda _: Reply(302, headers={"Location": "/again"})
    client = connection.Connection(service.url)
    with pytest.raises(Unreachable, match="redirects too often"), client.download("/link", 0):
        pass
    client.close()
    assert len(service.requests) == 6


@pytest.mark.parametrize("location", ["http://store.example/x", "HTTP://store.example/x", "//store.example:99999/x"])
def test_https_is_not_downgraded_at_any_redirect(location: str) -> None:
    with pytest.raises(InvalidValue):
        wire.link(location, "https://export.example.org/a")
    assert wire.link("//store.example/x", "https://export.example.org/a") == "https://store.example/x"


def test_server_cannot_fill_the_disk(service: ScriptedService, tmp_path: Path) -> None:
    service.script = serving(content=CONTENT + bytes(50_000_000))
    with Daybreak(service.url, "session") as client, pytest.raises(Damaged, match="differs from the published file"):
        client.account(ACCOUNT).fetch(tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) < 1_000


@pytest.mark.parametrize(
    ("body", "headers", "reason"),
    [
        (b"[" * 100_000 + b"]" * 100_000, {}, "nested too deeply"),
        (b'{"data":' + b"[" * 40 + b"]" * 40 + b"}", {}, "nested too deeply"),
        (b'{"data": NaN}', {}, "not finite"),
        (b'{"data": 1, "data": 2}', {}, "repeated"),
        (b'{"data": "\xff"}', {}, "UTF-8"),
        (b" " * (17 << 20), {}, "more than 16 MB"),
        (b"x", {"Content-Encoding": "gzip"}, "compressed"),
        (b"1" * 5_000, {}, "did not return a Daybreak response"),
    ],
)  # fmt: skip
def test_bodies_are_bounded(
    service: ScriptedService, body: bytes, headers: dict[str, str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    service.script = lambda _: Reply(200, body, headers)
    assert run(["accounts"]) in {2, 6}
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("detail", ["\x1b[2J", "x" * 100_000, 7, None, {"a": "b"}])
def test_problem_texts_are_plain(service: ScriptedService, detail: object, capsys: pytest.CaptureFixture[str]) -> None:
    service.script = lambda _: Reply(403, {"code": "refused", "detail": detail, "request_id": "\x1b"})
    assert run(["accounts"]) == 2
    printed = capsys.readouterr().err
    assert "\x1b" not in printed
    assert len(printed) < 300


@pytest.mark.parametrize(
    "statements",
    ["DROP TABLE members;\n", "\\! touch x\n", "CREATE TABLE a (\n  b INT DEFAULT (pg_sleep(9))\n);\n", "-- x\n\\! x\n",
     "CREATE TABLE a (\n  b INT\n); DROP TABLE c;\n", '{"a": 1}'],
)  # fmt: skip
def test_statements_other_than_create_table_are_refused(service: ScriptedService, statements: str) -> None:
    service.script = lambda _: Reply(200, statements.encode(), {"Content-Type": "text/plain"})
    with Daybreak(service.url) as client, pytest.raises(WrongUse, match="CREATE TABLE statements are invalid"):
        client.create_tables("postgresql")


def test_links_inside_the_target_are_not_followed(service: ScriptedService, tmp_path: Path) -> None:
    outside, target = tmp_path / "outside", tmp_path / "exports"
    outside.mkdir()
    target.mkdir()
    victim = outside / "victim"
    victim.write_bytes(b"keep")
    for name in ("members.csv.gz", f".members.csv.gz.{DIGEST[:16]}.part", f".daybreak.json.{os.getpid()}.new"):
        (target / name).symlink_to(victim)
    assert run(["fetch", str(target), "--account", ACCOUNT]) == 0
    assert (victim.read_bytes(), (target / "members.csv.gz").read_bytes()) == (b"keep", CONTENT)
    assert not (target / "members.csv.gz").is_symlink()

    (tmp_path / "many").mkdir()
    (tmp_path / "many" / ACCOUNT).symlink_to(outside)
    assert run(["fetch", str(tmp_path / "many"), "--all-accounts"]) == 2
    assert written(outside) == {"victim"}


def test_same_content_behind_a_link_is_downloaded(service: ScriptedService, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(CONTENT)
    outside.chmod(0o644)
    target = tmp_path / "exports"
    target.mkdir()
    (target / "members.csv.gz").symlink_to(outside)
    assert run(["fetch", str(target), "--account", ACCOUNT]) == 0
    assert outside.stat().st_mode & 0o777 == 0o644
    assert json.loads((target / "daybreak.json").read_text())["files"].keys() == {"members.csv.gz"}
