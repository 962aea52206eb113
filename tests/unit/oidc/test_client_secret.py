"""The client secret of the configuration or of a file."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from daybreak.domain.errors import OperatorError
from daybreak.oidc.provider import read_client_secret
from daybreak.settings import OidcSettings


def settings(**values: object) -> OidcSettings:
    return OidcSettings.model_validate({"issuer": "https://login.example.org", "client_id": "daybreak", **values})


def written(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    path = folder / "secret"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_secret_is_read_without_the_line_end(tmp_path: Path) -> None:
    assert read_client_secret(settings(client_secret=SecretStr("of the settings"))) == "of the settings"
    assert read_client_secret(settings(client_secret_file=written(tmp_path, b"of the file\n"))) == "of the file"


@pytest.mark.parametrize(
    ("content", "mode", "advice"),
    [
        (b"secret", 0o640, "Run `chmod 600"),
        (b"secret", 0o604, "Run `chmod 600"),
        (b"", 0o600, "must contain the client secret on one line"),
        (b"\n", 0o600, "must contain the client secret on one line"),
        (b"two\nlines", 0o600, "must contain the client secret on one line"),
        (b"\xff\xfe", 0o600, "must contain the client secret on one line"),
        (b"x" * 5000, 0o600, "File too large"),
    ],
)
def test_unusable_file_is_refused(content: bytes, mode: int, advice: str, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"oidc\.client_secret_file: ") as refused:
        read_client_secret(settings(client_secret_file=written(tmp_path, content, mode)))
    assert advice in refused.value.message


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="cannot be read: No such file or directory"):
        read_client_secret(settings(client_secret_file=tmp_path / "missing"))
