"""Files that operators name: every read ends."""

import os
from pathlib import Path

import pytest

from daybreak.credentials import keyring
from daybreak.domain.errors import OperatorError
from daybreak.domain.operator_file import read_bounded
from daybreak.settings import load_settings


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
