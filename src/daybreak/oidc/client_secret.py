"""The client secret: from the configuration, or from a private file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from daybreak.domain.errors import OperatorError
from daybreak.settings import OidcSettings

_MAXIMUM_BYTES = 4096


def read_client_secret(settings: OidcSettings) -> str:
    """Return the client secret. Raises OperatorError that names the setting and the fix."""
    if settings.client_secret_file is None:
        return settings.client_secret.get_secret_value()
    return _read_file(settings.client_secret_file)


def _read_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(_MAXIMUM_BYTES + 1)
    except OSError as error:
        raise OperatorError(f"oidc.client_secret_file: {path} cannot be read: {error.strerror}.") from None
    if mode & 0o077:
        raise OperatorError(
            f"oidc.client_secret_file: {path} is readable by other users (mode {mode:04o}). Run `chmod 600 {path}`."
        )
    try:
        secret = content.decode("ascii").strip()
    except UnicodeDecodeError:
        secret = ""
    if not secret.isprintable() or not secret or len(content) > _MAXIMUM_BYTES:
        raise OperatorError(
            f"oidc.client_secret_file: {path} must contain the client secret on one line, and nothing else."
        )
    return secret
