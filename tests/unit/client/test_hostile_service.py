"""A service that sends hostile values: nothing is written outside of the target, and every error is a sentence."""

import copy
import gzip
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from daybreak.catalogue import formats, resources, table_ddl
from daybreak_client import connection, wire
from daybreak_client.command.application import run
from daybreak_client.database_sync.csv_files import chunks
from daybreak_client.errors import Damaged, Unreachable, WrongUse
from daybreak_client.service import Daybreak
from daybreak_client.wire import InvalidValue
from tests.parts.delta_publisher import NORTH, Publisher, community, schema
from tests.parts.scripted_service import RAW, Reply, Request, ScriptedService, scripted_service

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
INSTANTS = ["today", "0001-01-01T00:00:00+14:00", "2026-11-20", "2026-11-20T04:00:00", "", None, 0, "9" * 100]
LISTS: list[object] = [None, "x", {}, [None], [[]], [{"resource": "members"}]]
HOSTILE: list[tuple[str, object]] = [
    *(("client_id", value) for value in IDS), *(("snapshot_id", value) for value in IDS),
    *(("version", value) for value in NUMBERS), *(("as_of", value) for value in INSTANTS),
    *(("late", value) for value in ("false", 0, None)), *(("reason", value) for value in (5, ["x"], "x" * 5000)),
    *(("resources/0/resource", value) for value in PATHS), *(("resources/0/rows", value) for value in NUMBERS),
    *(("resources/0/files/0/format", value) for value in (*PATHS[:-3], "csv.gz", None)),
    *(("resources/0/files/0/bytes", value) for value in (*NUMBERS, 0, 10**14)),
    *(("resources/0/files/0/sha256", value) for value in DIGESTS),
    *(("resources", value) for value in LISTS),
    ("resources/0/files", [FILE, FILE]), ("resources/0/files", []), ("resources", []),
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


@pytest.mark.parametrize("link", ["/');COPY(SELECT(1))TO'x", '/"', "/`x`", "/<x>"])
def test_link_can_be_put_into_sql(service: ScriptedService, capsys: pytest.CaptureFixture[str], link: str) -> None:
    service.script = serving(link=link)
    assert run(["link", "members", "--account", ACCOUNT]) == 2
    assert capsys.readouterr().out == ""


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
        (b'{"data": 1e999}', {}, "not finite"),
        (b"\xef\xbb\xbf{}", {}, "did not return a Daybreak response"),
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


@pytest.mark.parametrize("charset", ["zlib", "bz2", "utf-16", "no-such"])
def test_text_is_utf8_whatever_its_charset(service: ScriptedService, charset: str) -> None:
    statements = b'CREATE TABLE a (\n  "B" INT\n);\n'
    service.script = lambda _: Reply(200, statements, {"Content-Type": f"text/plain; charset={charset}"})
    with Daybreak(service.url) as client:
        assert client.create_tables("postgresql") == statements.decode()


@pytest.mark.parametrize("sent", [b"x" * 50_000, b"HTTP/1.1 200 OK\r\n\x1b[2J" + b"x" * 50_000])
def test_content_instead_of_http_is_not_repeated(
    service: ScriptedService, capsys: pytest.CaptureFixture[str], sent: bytes
) -> None:
    service.script = lambda _: Reply(RAW, iter([sent + b"\r\n\r\n"]))
    assert run(["accounts"]) == 5
    printed = capsys.readouterr().err
    assert "does not answer: illegal" in printed
    assert "xx" not in printed


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


def test_file_with_a_second_name_is_not_changed(service: ScriptedService, tmp_path: Path) -> None:
    outside, target = tmp_path / "outside", tmp_path / "exports"
    outside.write_bytes(b"k")
    outside.chmod(0o644)
    target.mkdir()
    (target / f".members.csv.gz.{DIGEST[:16]}.part").hardlink_to(outside)
    assert run(["fetch", str(target), "--account", ACCOUNT]) == 0
    assert (outside.read_bytes(), outside.stat().st_mode & 0o777) == (b"k", 0o644)


def test_format_of_a_newer_service_is_left_out(service: ScriptedService, tmp_path: Path) -> None:
    service.script = serving(changed("resources/0/files", [FILE, {"format": "vortex"}]))
    assert run(["fetch", str(tmp_path / "exports"), "--account", ACCOUNT]) == 0
    assert written(tmp_path / "exports") == {"members.csv.gz", "daybreak.json"}


def test_cookies_are_not_kept(service: ScriptedService, tmp_path: Path) -> None:
    honest = serving()
    service.script = lambda request: replace(honest(request), headers={"Set-Cookie": "id=1; Path=/"})
    assert run(["fetch", str(tmp_path / "exports"), "--account", ACCOUNT]) == 0
    assert not any("cookie" in request.headers for request in service.requests)


def test_compressed_error_page_is_transient(service: ScriptedService, capsys: pytest.CaptureFixture[str]) -> None:
    service.script = lambda _: Reply(502, b"\x1f\x8b", {"Content-Encoding": "gzip"})
    assert run(["accounts"]) == 5
    assert "returned 502. Try again later" in capsys.readouterr().err


def with_column(name: object) -> dict[str, Any]:
    found = schema()
    found["resources"][3]["schema"]["fields"][2]["name"] = name
    return found


def with_resource(**members: object) -> dict[str, Any]:
    found = schema()
    found["resources"][3] |= members
    return found


@pytest.mark.parametrize(
    "described",
    [
        *map(with_column, ('A" text); DROP TABLE x; --', "", "_OP", "\u00c4", "A" * 64, "MEMBER_ID", "member_id", 7)),
        *(with_resource(name=name) for name in ("members; --", "_daybreak_sync", "pg_authid", "communities", None)),
        *(with_resource(order=key) for key in ([], ["NO"], ["MEMBER_ID"] * 2, ['MEMBER_ID" OR 1 --'], None)),
        with_resource(schema=None),
        with_resource(schema={"fields": []}),
        with_resource(schema={"fields": [{"name": "LEADER_ID", "type": "string"}]}),
        with_resource(schema={"fields": [{"name": "LEADER_ID", "type": "text); DROP TABLE x"}]}),
        with_resource(schema={"fields": [{"name": "LEADER_ID", "type": []}]}),
        {"resources": None},
    ],
)
def test_hostile_schema_is_refused(
    service: ScriptedService, capsys: pytest.CaptureFixture[str], described: dict[str, Any]
) -> None:
    service.script = lambda _: Reply(200, described)
    assert run(["schema"]) == 2
    assert "Check the URL of the service" in capsys.readouterr().err


@pytest.mark.release
@pytest.mark.parametrize("constants", [{"LEADER_ID": SNAPSHOT}, {"NO_COLUMN": "x"}, {"X": 1}])
def test_hostile_constants_change_nothing(
    north: Publisher, target: str, tmp_path: Path, constants: dict[str, Any]
) -> None:
    north.publish({})
    assert run(["sync", target, "--quiet"]) == 0
    north.publish({"communities": [community(1, "Fans")]}).changes["communities"]["constants"] = constants
    assert run(["sync", target, "--quiet", "--verify"]) in {0, 2}
    with duckdb.connect(str(tmp_path / "exports.duckdb")) as database:
        assert database.execute("SELECT LEADER_ID::VARCHAR FROM communities").fetchall() in ([], [(NORTH,)])


def test_damaged_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "members.csv.gz"
    path.write_bytes(gzip.compress(b"rows" * 1_000, mtime=0)[:-9])
    with pytest.raises(Damaged, match=r"members\.csv\.gz is not a gzip file"):
        list(chunks(path))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("62", 62), ("Fri, 27 Nov 2026 12:01:00 GMT", 60), ("Fri, 27 Nov 2026 11:00:00 GMT", 0), ("", None),
        ("-1", None), ("1e9", None), ("\u0663", None), ("9" * 50, None), ("soon", None),
        ("Fri, 27 Nov 99999 12:00:00 GMT", None),
    ],
)  # fmt: skip
def test_retry_after_is_a_number_or_a_date(text: str, seconds: float | None) -> None:
    assert wire.retry_after(text, datetime(2026, 11, 27, 12, tzinfo=UTC)) == seconds


def test_half_of_a_character_is_refused() -> None:
    with pytest.raises(InvalidValue):
        wire.cell("a\ud800")


def test_names_are_those_of_the_service() -> None:
    assert tuple(each.name for each in resources.RESOURCES) == wire.RESOURCES
    assert {name: formats.format_named(name).ending for name in wire.ENDINGS} == wire.ENDINGS
    for dialect in table_ddl.DIALECTS:
        wire.create_tables(table_ddl.create_tables(dialect))
