"""The saved login: file mode, atomic writes, location."""

from pathlib import Path

import pytest

from daybreak_client import read
from daybreak_client.command.profile import Profile, load, profile_file, proof_folder, save
from daybreak_client.database_sync import delete_old_downloads
from daybreak_client.errors import WrongUse
from tests.parts.file_sizes import file_size_limit

PROFILE = Profile("https://export.example.org", "secret", "north", plain_http=False)


def test_profile_is_saved_with_mode_0600(tmp_path: Path) -> None:
    path = tmp_path / "new" / "profile.json"
    save(path, Profile("http://localhost", "older"))
    save(path, PROFILE)
    assert load(path) == PROFILE
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["profile.json"]
    path.unlink()
    assert load(path) is None


def test_profile_stays_unchanged_on_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    save(path, PROFILE)
    with file_size_limit(10), pytest.raises(OSError, match="File too large") as caught:
        save(path, Profile("http://localhost", "other"))
    assert caught.value.filename == str(path)
    assert load(path) == PROFILE
    assert list(tmp_path.iterdir()) == [path], "no other file may contain a part of the token"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_profile_readable_by_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "profile.json"
    save(path, PROFILE)
    path.chmod(mode)
    with pytest.raises(WrongUse, match="chmod 600") as caught:
        load(path)
    assert PROFILE.token not in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "7", '{"address": 1}', '{"address": "a", "token": "secret", "other": 2}', "[" * 100_000,
        '{"address": 1, "token": "secret"}', '{"address": "a", "token": null}',
        '{"address": "a", "token": "secret", "client_id": ["a"]}',
    ],
)  # fmt: skip
def test_invalid_profile_is_refused_without_quoting_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.json"
    path.touch(mode=0o600)
    path.write_text(text)
    with pytest.raises(WrongUse, match="is not a profile") as caught:
        load(path)
    assert "secret" not in caught.value.message


def test_profile_location_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ana")
    assert profile_file({}) == Path("/home/ana/.config/daybreak/profile.json")
    assert profile_file({"XDG_CONFIG_HOME": "/etc/ana"}) == Path("/etc/ana/daybreak/profile.json")
    assert profile_file({"XDG_CONFIG_HOME": "/etc/ana", "DAYBREAK_PROFILE": "/p.json"}) == Path("/p.json")


def test_unknown_home_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 1_234_567)  # a user whom the machine does not know, as in a container
    for use in (lambda: profile_file({}), delete_old_downloads, lambda: read("~/members.csv.gz")):
        with pytest.raises(WrongUse, match="Set HOME"):
            use()
    assert profile_file({"XDG_CONFIG_HOME": "/etc/ana"}) == Path("/etc/ana/daybreak/profile.json")


def test_seen_services_are_next_to_a_profile_that_is_a_path(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    shared = tmp_path / "config" / "daybreak" / "proof"
    assert {proof_folder(environ, name) for name in (None, "eu")} == {shared}
    assert proof_folder({**environ, "DAYBREAK_PROFILE": f"{tmp_path}/own/p.json"}) == tmp_path / "own" / "proof"
