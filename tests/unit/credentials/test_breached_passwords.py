"""Lookup in a sorted file of digests."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.credentials import passwords
from daybreak.domain.errors import Unavailable

KNOWN = "harvest moon 88 boat"
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def write_list(file: Path, texts: list[str], *, end: str = "\n") -> Path:
    digests = sorted(hashlib.sha1(text.encode()).hexdigest().upper() for text in texts)
    file.write_bytes("".join(f"{digest}:{len(digest) + at}{end}" for at, digest in enumerate(digests)).encode())
    return file


@given(
    listed=st.lists(_TEXTS, unique=True, max_size=40),
    others=st.lists(_TEXTS, max_size=5),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_listed_passwords_are_found_and_no_others(
    tmp_path_factory: pytest.TempPathFactory, listed: list[str], others: list[str], end: str
) -> None:
    file = write_list(tmp_path_factory.mktemp("lists") / "list", listed, end=end)
    assert all(passwords.is_breached(text, file) for text in listed)
    assert [text for text in others if passwords.is_breached(text, file)] == [text for text in others if text in listed]


def test_breached_password_is_weak(tmp_path: Path) -> None:
    file = write_list(tmp_path / "list", [KNOWN, "b", "c"])
    assert passwords.weakness(KNOWN, email="ana@example.org") is None
    refused = passwords.weakness(KNOWN, email="ana@example.org", breached=file)
    assert refused == "This password was published in a data breach. Choose another one."
    assert passwords.weakness(f"{KNOWN}!", email="ana@example.org", breached=file) is None


def test_unreadable_list_refuses_the_password(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        passwords.weakness(KNOWN, email="ana@example.org", breached=tmp_path / "absent")
