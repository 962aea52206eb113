"""Fixtures for cookies and form tokens."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.requests import Request

from daybreak.credentials import keyring
from daybreak.credentials.keyring import Keyring


@pytest.fixture(scope="session")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    """A keyring with one generation of keys."""
    path: Path = tmp_path_factory.mktemp("keys") / "keyring.json"
    return keyring.create(path, datetime(2026, 11, 22, tzinfo=UTC), os.urandom)


@pytest.fixture
def post_with() -> Callable[..., Request]:
    """A function that returns a POST request with the given headers."""

    def build(**headers: str) -> Request:
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        return Request({"type": "http", "method": "POST", "path": "/", "headers": raw, "query_string": b""})

    return build
