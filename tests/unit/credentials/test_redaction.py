"""Redaction of secrets in texts."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.access import api_tokens
from daybreak.credentials import keyring, mail_tokens, session_jwt, signed_link, totp
from daybreak.credentials.redaction import MARK, contains_secret, redact, redact_values
from daybreak.credentials.signed_link import LinkTarget
from daybreak.domain.identity import Caller

NOW = datetime(2026, 11, 24, 4, tzinfo=UTC)
ID = "4f3a1f0e-6f0b-4c55-8f6a-0d7f8f3b2a11"


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Return texts with a secret of each kind, as the service issues them, and the secret part of each."""
    ring = keyring.create(tmp_path_factory.mktemp("keys") / "keyring.json", NOW, os.urandom)
    token = api_tokens.generate(os.urandom)
    expires = int((NOW + timedelta(minutes=15)).timestamp())
    claims = session_jwt.Claims(
        seat_id=ID, sid=ID, jti=ID, amr=("pwd",), auth_time=1, issued_at=1, expires_at=expires, client_id=ID,
        device_id=ID,
    )  # fmt: skip
    jwt = session_jwt.encode(claims, typ="session+jwt", keyring=ring, issuer="https://example.org")
    link = signed_link.sign(LinkTarget(ID, ID, "members", f"token:{ID}", expires), keyring=ring, random=os.urandom)
    sealed = totp.encrypt_seed(os.urandom(20), seat_id=ID, keyring=ring, random=os.urandom)
    reset = mail_tokens.new_reset_token(os.urandom)
    unsubscribe = mail_tokens.unsubscribe_token(ID, "snapshot.published", keyring=ring)
    recovery = totp.new_recovery_codes(os.urandom)[0]
    return {
        "API token": (token, token),
        "cut API token": (token[:30], token[:30]),
        "session token": (jwt, jwt),
        "link": (f"/download/v1/links/{ID}/{ID}/members.csv.gz?{link}", link.rpartition("=")[2]),
        "link that sets a password": (f"/dashboard/reset-password?token={reset}", reset),
        "unsubscribe link": (f"/dashboard/unsubscribe/{unsubscribe}", unsubscribe.rpartition("~")[2]),
        "encrypted key": (sealed, sealed.rpartition(".")[2]),
        "recovery code": (recovery, recovery[5:]),
        "cookie": (f"daybreak-session=5f3a9c10.{ID}.{'0a' * 32}", "0a" * 32),
        "key of an app": ("otpauth://totp/Daybreak:x?secret=ABCDEFGHIJKLMNOPQRSTUVWX234567AB&issuer=x", "ABCDEFGHIJ"),
        "URL with a password": ("postgresql://daybreak:hunter2@db.internal/exports", "hunter2"),
    }


@pytest.mark.parametrize("encodings", [0, 1, 2, 3])
@pytest.mark.parametrize("every_character", [False, True])
def test_issued_secrets_are_redacted(
    secrets: dict[str, tuple[str, str]], encodings: int, *, every_character: bool
) -> None:
    for kind, (text, secret) in secrets.items():
        encoded = text
        for _ in range(encodings):
            encoded = "".join(f"%{ord(each):02X}" for each in encoded) if every_character else quote(encoded, safe="")
        redacted = redact(f"client {encoded} end")
        assert MARK in redacted, kind
        assert secret not in redacted, kind
        assert redacted.startswith("client "), kind
        assert redacted.endswith(" end"), kind
        assert redact(redacted) == redacted, kind


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"/download/v1/files/{ID}/members.csv.gz",
        f"session:{ID}",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
        "sha-256 " + "0a" * 32,
        "100 % of 4%3F, %00 and %0a",
        "https://example.org/a:b@c",
        "the signature is invalid",
        "keyJson = 3",
    ],
)
def test_other_texts_are_unchanged(text: str) -> None:
    assert redact(text) == text
    assert not contains_secret(text)


def test_nested_values_are_redacted() -> None:
    token = api_tokens.generate(os.urandom)
    values = {
        "a": token,
        "b": [1, None, {"c": (token, True)}],
        "d": Caller("::1", token),
        "at": NOW,
        "path": Path("/x"),
    }
    redacted = redact_values(values)
    assert token not in str(redacted)
    assert redacted["b"] == [1, None, {"c": [MARK, True]}]
    assert redacted["at"] == NOW
    assert redacted["path"] == repr(Path("/x"))


@given(st.text(alphabet=st.sampled_from("service_api_eyJ.%25-=:/@aA2 \n"), max_size=200))
def test_redaction_never_adds_control_characters(text: str) -> None:
    redacted = redact(text)
    assert redacted.count("\n") <= text.count("\n")
    assert redacted.isprintable() or "\n" in text
