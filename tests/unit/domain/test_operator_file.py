"""Files that operators name: every read ends, and every private file is complete."""

import os
from pathlib import Path

import pytest

from daybreak.cli.init import make_folder
from daybreak.credentials import keyring
from daybreak.domain import operator_file
from daybreak.domain.errors import OperatorError
from daybreak.domain.operator_file import read_bounded, write_private
from daybreak.settings import load_settings
from tests.parts.replaced import with_functions


def test_content_and_mode_are_returned(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1234")
    path.chmod(0o640)
    assert read_bounded(path, 4) == (b"1234", 0o640)
    with pytest.raises(OSError, match="File too large"):
        read_bounded(path, 3)


def test_settings_and_keys_are_not_read_for_ever(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path, reason in ((pipe, "source.location: is missing"), (Path("/dev/zero"), "File too large")):
        with pytest.raises(OperatorError, match=reason):
            load_settings(path, {})
    with pytest.raises(OperatorError, match="is not a keyring"):
        keyring.load(pipe)


def test_full_disk_leaves_no_file_and_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(operator_file, "os", with_functions(os, fsync=refuse))
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/new'"):
        write_private(tmp_path / "new", b"secret")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("failing", ["keyring.create", "signing_folder.write_private", "signing_folder._openssh"])
def test_init_can_be_repeated_after_an_error(failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    values = {"source.location": "platform"}
    with monkeypatch.context() as patched:
        patched.setattr(f"daybreak.credentials.{failing}", fail)
        with pytest.raises(OSError, match="No space"):
            make_folder(tmp_path, values)
    assert not list(tmp_path.glob("daybreak.toml*"))
    assert make_folder(tmp_path, values).exists()
    assert (tmp_path / "signing/ca").exists()


def test_init_keeps_a_configuration_made_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "daybreak.toml"
    monkeypatch.setattr("daybreak.state.migrate.migrate", lambda _url: path.write_text("other"))
    with pytest.raises(OperatorError, match="already exists"):
        make_folder(tmp_path, {"source.location": "platform"})
    assert path.read_text() == "other"
    assert not list(tmp_path.glob("daybreak.toml.new"))
