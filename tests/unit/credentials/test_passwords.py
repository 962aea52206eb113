"""Password hashes and the rules for new passwords."""

import gzip
import hashlib
import subprocess
import sys
import unicodedata
from importlib.resources import files

import pytest
from argon2 import PasswordHasher

from daybreak.credentials import passwords
from tests.parts.replaced import with_functions


def test_hash_is_argon2id_with_a_random_salt() -> None:
    first, second = (passwords.hash_password("correct horse 7 battery") for _ in range(2))
    assert first.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert first != second
    assert passwords.verify(first, "correct horse 7 battery")
    assert not passwords.verify(first, "correct horse 7 batterz")
    assert not passwords.needs_rehash(first)


def test_dummy_hash_is_current_and_matches_no_password() -> None:
    assert not passwords.needs_rehash(passwords.DUMMY_HASH)
    assert not passwords.verify(passwords.DUMMY_HASH, "")


def test_composed_and_decomposed_characters_are_equal() -> None:
    stored = passwords.hash_password("Zürich-Straße-é")
    assert passwords.verify(stored, "Zu\u0308rich-Straße-e\u0301")


@pytest.mark.parametrize("stored", ["", "nonsense", "$argon2id$v=19$m=1", "\x00"])
def test_malformed_hash_matches_no_password(stored: str) -> None:
    assert not passwords.verify(stored, "anything at all")


def test_lack_of_memory_raises_memory_error() -> None:
    code = (
        "import resource; from daybreak.credentials import passwords; "
        "stored = passwords.hash_password('correct horse 7'); "
        "held = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize(); "
        "resource.setrlimit(resource.RLIMIT_AS, (held + (4 << 20), resource.RLIM_INFINITY)); "
        "passwords.verify(stored, 'correct horse 7')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.splitlines()[-1] == "MemoryError: Memory allocation error"


def test_lone_surrogate_is_a_wrong_password() -> None:
    assert not passwords.verify(passwords.DUMMY_HASH, "\ud800")


def test_hash_with_outdated_parameters_needs_rehash() -> None:
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
        " Password123! ",
        "realmadrid",
        "basketball",
        "Christopher",
        " administrator ",
        "CALIFORNIA",
        "violet ladder\0 19 rain",
        "violet ladder\n19 rain",
        "violet ladder\x85 19 rain",
        "violet ladder\ud800 19 rain",
    ],
)
def test_weak_password_is_rejected(password: str) -> None:
    assert passwords.weakness(password, email="Rosa.Lind@example.org")


@pytest.mark.parametrize("password", ["violet ladder 19 rain", "ключ от старой дачи", "🦊🐢🌲🌵🍂🎈🧭🪁🛶🏔"])
def test_long_password_in_any_script_is_accepted(password: str) -> None:
    assert passwords.weakness(password, email="rosa.lind@example.org") is None


def test_text_beyond_the_maximum_length_is_not_normalized(monkeypatch: pytest.MonkeyPatch) -> None:
    decomposed = unicodedata.normalize("NFD", "\u1f82" * 256)
    assert passwords.verify(passwords.hash_password("\u1f82" * 256), decomposed)
    lengths: list[int] = []

    def normalize(form: str, text: str) -> str:
        lengths.append(len(text))
        return text

    monkeypatch.setattr(passwords, "unicodedata", with_functions(unicodedata, normalize=normalize))
    for length in (len(decomposed), len(decomposed) + 1, 8000):
        assert not passwords.verify(passwords.DUMMY_HASH, "a" * length)
        assert passwords.weakness("a" * length, email="rosa@example.org") == "Use at most 256 characters."
    assert lengths == [1024, 1024]


@pytest.mark.parametrize(
    ("name", "digest", "license_name"),
    [
        ("django.txt.gz", "3c1baed62596de36860824eb3f436d5932d37ca8b06e59df78f5a44ec175afe4", "django.LICENSE"),
        ("zxcvbn.txt", "88593953eaad16c6d9988be8026705f96d04103383cae0f5ed5300fa144a86da", "zxcvbn.LICENSE"),
    ],
)
def test_common_password_lists_are_the_reviewed_ones(name: str, digest: str, license_name: str) -> None:
    folder = files("daybreak.credentials").joinpath("common_passwords")
    assert hashlib.sha256(folder.joinpath(name).read_bytes()).hexdigest() == digest
    assert "Permission is hereby granted" in (text := folder.joinpath(license_name).read_text("utf-8")) or (
        "Redistribution and use" in text
    )


def test_3000_listed_passwords_have_the_minimum_length() -> None:
    """ASVS 5.0, 6.2.4, counts only passwords that the other rules accept."""
    folder = files("daybreak.credentials").joinpath("common_passwords")
    lists = gzip.decompress(folder.joinpath("django.txt.gz").read_bytes()), folder.joinpath("zxcvbn.txt").read_bytes()
    listed = {line for line in b"\n".join(lists).decode().splitlines() if not line.startswith("#")}
    long_ones = [text for text in listed if len(text) >= passwords.MINIMUM_LENGTH and len(set(text)) >= 5]
    assert len(long_ones) > 3000
    assert {passwords.weakness(text, email="ana@example.org") for text in long_ones} == {
        "This password is too common. Choose another one."
    }
