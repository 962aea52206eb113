"""Password hashes and the rules for new passwords."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import unicodedata
from importlib.resources import files

import pytest
from argon2 import PasswordHasher

from daybreak.credentials import passwords


def test_a_hash_is_argon2id_with_the_promised_parameters_and_a_salt_of_its_own() -> None:
    first, second = (passwords.hash_password("correct horse 7 battery") for _ in range(2))
    assert first.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert first != second
    assert passwords.verify(first, "correct horse 7 battery")
    assert not passwords.verify(first, "correct horse 7 batterz")
    assert not passwords.needs_rehash(first)


def test_the_dummy_costs_the_same_and_opens_to_nobody() -> None:
    assert not passwords.needs_rehash(passwords.DUMMY_HASH)
    assert not passwords.verify(passwords.DUMMY_HASH, "")


def test_composed_and_decomposed_letters_are_one_password() -> None:
    stored = passwords.hash_password("Zürich-Straße-é")
    assert passwords.verify(stored, "Zu\u0308rich-Straße-e\u0301")


@pytest.mark.parametrize("stored", ["", "nonsense", "$argon2id$v=19$m=1", "\x00"])
def test_a_malformed_hash_opens_to_nobody(stored: str) -> None:
    assert not passwords.verify(stored, "anything at all")


def test_a_machine_without_memory_does_not_call_a_password_wrong() -> None:
    """Neither the right one nor another: it cannot know."""
    code = (
        "import resource; from daybreak.credentials import passwords; "
        "stored = passwords.hash_password('correct horse 7'); "
        "held = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize(); "
        "resource.setrlimit(resource.RLIMIT_AS, (held + (4 << 20), resource.RLIM_INFINITY)); "
        "passwords.verify(stored, 'correct horse 7')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.splitlines()[-1] == "MemoryError: Memory allocation error"


def test_a_lone_surrogate_is_a_wrong_password_not_a_fault() -> None:
    assert not passwords.verify(passwords.DUMMY_HASH, "\ud800")


def test_a_hash_of_weaker_parameters_asks_for_another() -> None:
    old = PasswordHasher(time_cost=1, memory_cost=8192, parallelism=1).hash("some old password")
    assert passwords.verify(old, "some old password")
    assert passwords.needs_rehash(old)


@pytest.mark.parametrize(
    "password",
    [
        "short-pwd",
        "x" * 257,
        "qwertyuiop",
        "QwertyUIOP",
        "Password123!",
        "ababababababab",
        "rosa.lind@example.org",
        "rosa.lind2026",
        "daybreak2026",
    ],
)
def test_bad_new_passwords_are_refused_with_a_reason(password: str) -> None:
    assert passwords.weakness(password, email="Rosa.Lind@example.org")


@pytest.mark.parametrize("password", ["violet ladder 19 rain", "ключ от старой дачи", "🦊🐢🌲🌵🍂🎈🧭🪁🛶🏔"])
def test_long_and_foreign_passwords_are_welcome(password: str) -> None:
    assert passwords.weakness(password, email="rosa.lind@example.org") is None


def test_what_is_too_long_in_any_form_is_not_normalised(monkeypatch: pytest.MonkeyPatch) -> None:
    decomposed = unicodedata.normalize("NFD", "\u1f82" * 256)
    assert passwords.verify(passwords.hash_password("\u1f82" * 256), decomposed), "the longest there is"
    lengths: list[int] = []

    def normalize(form: str, text: str) -> str:
        lengths.append(len(text))
        return text

    monkeypatch.setattr(unicodedata, "normalize", normalize)
    for length in (len(decomposed), len(decomposed) + 1, 8000):
        assert not passwords.verify(passwords.DUMMY_HASH, "a" * length)
        assert passwords.weakness("a" * length, email="rosa@example.org") == "Use at most 256 characters."
    assert lengths == [1024, 1024]


def test_the_list_of_common_passwords_is_the_one_that_was_reviewed() -> None:
    folder = files("daybreak.credentials")
    content = folder.joinpath("common_passwords.txt").read_bytes()
    assert hashlib.sha256(content).hexdigest() == ("5fbad929c918ff2e9de7fd426cbddab9f2752d93b92da3429eba63aade37df7c")
    assert folder.joinpath("common_passwords.LICENSE").read_text("utf-8").startswith("MIT License")
