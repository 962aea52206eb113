"""The service, token and account of a command: options, environment, saved profiles, the keyring."""

import json
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as UnavailableKeyring

from daybreak_client import Daybreak
from daybreak_client.command import run
from daybreak_client.command.options import Access, names_of
from daybreak_client.command.profile import (
    Profile,
    current_profile,
    load,
    profile_file,
    save,
    save_token,
    saved_profiles,
    selected_account,
)
from daybreak_client.errors import WrongUse
from tests.parts.scripted_service import Reply, Request, ScriptedService, scripted_service

NORTH = "7d909222-adf5-4547-93e0-e8f60c50f980"


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SERVICE", "TOKEN", "TOKEN_FILE", "ACCOUNT", "PLAIN_HTTP", "PROFILE"):
        monkeypatch.delenv(f"DAYBREAK_{name}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


class DictKeyring(KeyringBackend):
    """Keyring in memory, in place of that of a desktop."""

    priority = 1.0

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.entries[service, username]


@pytest.fixture
def memory_keyring() -> Iterator[DictKeyring]:
    previous, found = keyring.get_keyring(), DictKeyring()
    keyring.set_keyring(found)
    yield found
    keyring.set_keyring(previous)


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    """A service with one account and no files yet."""
    account = {
        "client_id": NORTH, "first_name": "North Inc.", "last_name": "", "current_context": True, "roles": ["owner"],
    }  # fmt: skip

    def script(request: Request) -> Reply:
        codes = {b"123456"}
        if request.path.endswith("/login"):
            return Reply(200, {"token": "pending"})
        if request.path.endswith("/mfa"):
            if json.loads(request.body)["totp"].encode() in codes:
                return Reply(200, {"token": "session", "client_id": NORTH})
            return Reply(401, {"code": "invalid_code", "detail": "The code is wrong or was used before."})
        if request.path.endswith("/logout"):
            return Reply(204)
        if request.method == "PUT":
            return Reply(200, {"data": {"token": "session"}})
        if request.path.endswith("/context"):
            return Reply(200, {"data": [account]})
        return Reply(404, {"code": "snapshot_not_ready", "detail": "No files yet."})

    with scripted_service() as found:
        found.script = script
        yield found


def type_lines(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    typed = iter(lines)
    monkeypatch.setattr("sys.stdin.readline", lambda: next(typed, ""))
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)


@pytest.mark.parametrize("from_variable", [True, False])
def test_token_is_read_from_a_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, from_variable: bool
) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text("service_api_secret\n")
    monkeypatch.setenv("DAYBREAK_SERVICE", "https://export.example.org")
    monkeypatch.setenv("DAYBREAK_TOKEN", "another")
    if from_variable:
        monkeypatch.setenv("DAYBREAK_TOKEN_FILE", str(file))
    access = Access() if from_variable else Access(token_file=file)
    assert current_profile(access).token == "service_api_secret"
    file.chmod(0o640)
    with pytest.raises(WrongUse, match="chmod 600"):
        current_profile(access)


@pytest.mark.parametrize("content", [b"", b"\n", b"export DAYBREAK_TOKEN=x y", "t\u00f6k".encode(), b"t\xf6k"])
def test_file_without_a_token_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_bytes(content)
    with pytest.raises(WrongUse, match="does not contain a token"):
        current_profile(Access(token_file=file))


def test_white_space_around_the_token_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYBREAK_SERVICE", "https://export.example.org")
    monkeypatch.setenv("DAYBREAK_TOKEN", " service_api_secret\r\n")
    assert current_profile(Access()).token == "service_api_secret"


@pytest.mark.parametrize("token", ["service_api_secret\nsecret", "secret secret", "secret\u00f6", "secret\x07"])
def test_invalid_token_is_refused_without_printing_it(
    service: ScriptedService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], token: str
) -> None:
    monkeypatch.setenv("DAYBREAK_SERVICE", service.url)
    monkeypatch.setenv("DAYBREAK_TOKEN", token)
    assert run(["files", "--account", NORTH]) == 2
    printed = capsys.readouterr().err
    assert "DAYBREAK_TOKEN contains" in printed
    assert "secret" not in printed
    assert service.requests == []


def test_profile_option_is_stronger_than_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    save(profile_file({"XDG_CONFIG_HOME": str(tmp_path / "config")}, "eu"), Profile("https://eu", "eu token", NORTH))
    monkeypatch.setenv("DAYBREAK_SERVICE", "https://export.example.org")
    monkeypatch.setenv("DAYBREAK_TOKEN", "secret")
    monkeypatch.setenv("DAYBREAK_ACCOUNT", "south")
    access = Access(profile="eu")
    profile = current_profile(access)
    assert (profile.address, profile.token, selected_account(access, profile)) == ("https://eu", "eu token", NORTH)
    assert selected_account(Access(account="east"), profile) == "east"
    with pytest.raises(WrongUse, match="not both"):
        current_profile(Access(profile="eu", token_file=tmp_path / "token"))


def test_profiles_are_listed_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert saved_profiles(environ) == {}
    for name in ("us", "default", "eu"):
        save(profile_file(environ, name), Profile(f"https://{name}", "secret", NORTH))
    assert run(["profiles"]) == 0
    printed = capsys.readouterr().out
    assert [line.split("\t")[0] for line in printed.splitlines()] == ["profile", "default", "eu", "us"]
    assert "secret" not in printed
    assert run(["profiles", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1] == {"profile": "eu", "service": "https://eu", "client_id": NORTH}


def test_damaged_profile_does_not_prevent_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    for name in ("eu", "us"):
        save(profile_file(environ, name), Profile(f"https://{name}", "secret", NORTH))
    profile_file(environ, "eu").write_text("{")
    assert run(["profiles"]) == 2
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1:] == [f"us\thttps://us\t{NORTH}"]
    assert printed.err == f"daybreak: {profile_file(environ, 'eu')} is not a profile. Remove it and sign in again.\n"


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a b", "-x"])
def test_invalid_profile_name_is_refused(name: str) -> None:
    with pytest.raises(WrongUse, match="is not the name of a profile"):
        profile_file({}, name)


def test_account_in_upper_case_is_marked(
    service: ScriptedService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"SERVICE": service.url, "TOKEN": "session", "ACCOUNT": NORTH.upper()}.items():
        monkeypatch.setenv(f"DAYBREAK_{name}", value)
    assert run(["accounts"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(f"*\t{NORTH}\t")
    assert run(["accounts", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["current"] is True


def test_wrong_code_can_be_typed_again(
    service: ScriptedService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_lines(monkeypatch, "a password\n", "000000\n", "123456\n")
    assert run(["login", service.url, "--email", "ana@example.org"]) == 0
    assert sum(request.path.endswith("/mfa") for request in service.requests) == 2
    # The name of the account ends with a full stop, and so does the sentence.
    assert capsys.readouterr().err.endswith("Selected account: North Inc.\n")


@pytest.mark.parametrize(("codes", "sent"), [(("1\n", "2\n", "3\n", "123456\n"), 3), (("1\n",), 1)])
def test_wrong_codes_end_the_login(
    service: ScriptedService,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    codes: tuple[str, ...],
    sent: int,
) -> None:
    type_lines(monkeypatch, "a password\n", *codes)
    assert run(["login", service.url, "--email", "ana@example.org"]) == 3
    assert sum(request.path.endswith("/mfa") for request in service.requests) == sent
    assert "The code is wrong" in capsys.readouterr().err


def test_empty_first_code_ends_the_login(
    service: ScriptedService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_lines(monkeypatch, "a password\n", "\n", "123456\n")
    assert run(["login", service.url, "--email", "ana@example.org"]) == 2
    assert [request.path.rpartition("/")[2] for request in service.requests] == ["login"]
    assert "The login needs a code." in capsys.readouterr().err


def test_login_without_an_account_is_wrong_use(
    service: ScriptedService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = service.script
    service.script = lambda request: Reply(200, {"data": []}) if request.path.endswith("/context") else script(request)
    type_lines(monkeypatch, "secret", "123456")
    assert run(["login", service.url, "--email", "an@example.org"]) == 2
    assert "lists no account of yours" in capsys.readouterr().err


def test_requests_after_log_out_are_wrong_use(service: ScriptedService) -> None:
    with Daybreak(service.url, "session") as client:
        client.log_out()
        for request in (client.accounts, client.log_out):
            with pytest.raises(WrongUse, match="Sign in first"):
                request()


def test_keyring_contains_the_token(
    service: ScriptedService, memory_keyring: DictKeyring, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    type_lines(monkeypatch, "a password\n", "123456\n")
    assert run(["login", service.url, "--email", "ana@example.org", "--keyring", "--profile", "eu"]) == 0
    path = tmp_path / "config" / "daybreak" / "profiles" / "eu.json"
    assert "session" not in path.read_text()
    assert list(memory_keyring.entries.values()) == ["session"]
    assert run(["accounts", "--profile", "eu"]) == 0
    assert service.requests[-1].headers["authorization"] == "Bearer session"
    assert run(["use", "north", "--profile", "eu"]) == 0
    assert "session" not in path.read_text()
    assert run(["logout", "--profile", "eu"]) == 0
    assert memory_keyring.entries == {}
    assert load(path) is None


def test_login_without_keyring_ends_the_session_of_the_keyring(
    service: ScriptedService,
    memory_keyring: DictKeyring,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for options in (["--keyring"], []):
        type_lines(monkeypatch, "a password\n", "123456\n")
        for entry in memory_keyring.entries:
            memory_keyring.entries[entry] = "older"
        assert run(["login", service.url, "--email", "ana@example.org", *options]) == 0
    assert memory_keyring.entries == {}
    ended = [request for request in service.requests if request.path.endswith("/logout")]
    assert [request.headers["authorization"] for request in ended] == ["Bearer older"]
    assert "not ended" not in capsys.readouterr().err


def test_login_succeeds_without_the_earlier_keyring(
    service: ScriptedService,
    memory_keyring: DictKeyring,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    type_lines(monkeypatch, "a password\n", "123456\n", "a password\n", "123456\n")
    assert run(["login", service.url, "--email", "ana@example.org", "--keyring"]) == 0
    keyring.set_keyring(UnavailableKeyring())  # type: ignore[no-untyped-call]
    assert run(["login", service.url, "--email", "ana@example.org"]) == 0
    assert "The earlier sign-in was not ended: The keyring" in capsys.readouterr().err
    keyring.set_keyring(memory_keyring)
    assert run(["accounts"]) == 0


def test_logout_without_the_keyring_entry_removes_the_profile(
    service: ScriptedService,
    memory_keyring: DictKeyring,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    type_lines(monkeypatch, "a password\n", "123456\n")
    assert run(["login", service.url, "--email", "ana@example.org", "--keyring"]) == 0
    memory_keyring.entries.clear()
    assert run(["logout"]) == 0
    assert "Only the profile is removed." in capsys.readouterr().err
    assert load(tmp_path / "config" / "daybreak" / "profile.json") is None


def test_schema_needs_no_token(
    service: ScriptedService, memory_keyring: DictKeyring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service.script = lambda _: Reply(200, {"resources": []})
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    save(profile_file(environ, "eu"), Profile(service.url, "", NORTH, keyring=True))
    assert run(["schema", "--profile", "eu"]) == 0
    assert run(["schema"]) == 2
    assert "Set DAYBREAK_SERVICE to the URL of the service, or run" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["files"], ["schema"], ["use", "north"]])
@pytest.mark.parametrize("variable", [False, True])
def test_missing_profile_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: list[str], variable: bool
) -> None:
    options = [] if variable else ["--profile", "nosuch"]
    if variable:
        monkeypatch.setenv("DAYBREAK_PROFILE", "nosuch")
    assert run([*verb, *options]) == 2
    assert "There is no profile 'nosuch'. Run `daybreak login URL --profile nosuch`" in capsys.readouterr().err
    assert run(["logout", *options]) == 0
    assert capsys.readouterr().err == "There is no profile 'nosuch'.\n"


def test_empty_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["files", "--profile", ""]) == 2
    assert "An argument is empty" in capsys.readouterr().err
    with pytest.raises(WrongUse, match="Specify the account with --account"):
        selected_account(Access(account=""), Profile("https://eu", "eu token", NORTH))


def test_missing_keyring_is_reported(tmp_path: Path, memory_keyring: DictKeyring) -> None:
    save(tmp_path / "profile.json", Profile("https://eu", "", NORTH, keyring=True))
    with pytest.raises(WrongUse, match="Sign in again"):
        current_profile(Access(profile=str(tmp_path / "profile.json")))
    keyring.set_keyring(UnavailableKeyring())  # type: ignore[no-untyped-call]
    with pytest.raises(WrongUse, match="Sign in without --keyring"):
        save_token(tmp_path / "profile.json", "secret")


def test_lists_may_be_separated_by_commas() -> None:
    assert names_of("--only", ["members, campaigns", "communities", ","]) == ("members", "campaigns", "communities")
    assert names_of("--only", None) == ()
