"""Secrets of webhooks: form, signatures, encryption; tokens in the links of mails."""

import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from daybreak.credentials import keyring, mail_tokens, webhook_secret
from daybreak.credentials.redaction import redact

ENDPOINT, OTHER = "0c7b2f5e-92c1-4f7e-8a51-3f6b1d2e4c90", "0c7b2f5e-92c1-4f7e-8a51-3f6b1d2e4c91"
NOW = datetime(2026, 11, 25, 4, tzinfo=UTC)


@pytest.fixture
def ring(tmp_path: Path) -> keyring.Keyring:
    return keyring.create(tmp_path / "keyring.json", NOW, secrets.token_bytes)


def test_signature_equals_that_of_the_reference_library() -> None:
    secret = webhook_secret.generate(secrets.token_bytes)
    body = '{"name": "Zoë"}'
    signed = webhook_secret.sign(secret, message_id="msg_1", timestamp=int(NOW.timestamp()), body=body.encode())
    assert signed == Verifier(secret).sign("msg_1", NOW, body)


def test_secret_of_another_webhook_is_not_decrypted(ring: keyring.Keyring) -> None:
    secret = webhook_secret.generate(secrets.token_bytes)
    sealed = webhook_secret.encrypt(secret, endpoint_id=ENDPOINT, keyring=ring, random=secrets.token_bytes)
    assert secret not in sealed
    assert webhook_secret.decrypt(sealed, endpoint_id=ENDPOINT, keyring=ring) == secret
    assert webhook_secret.decrypt(sealed, endpoint_id=OTHER, keyring=ring) is None


def test_secret_is_encrypted_again_after_a_rotation(ring: keyring.Keyring) -> None:
    secret = webhook_secret.generate(secrets.token_bytes)
    sealed = webhook_secret.encrypt(secret, endpoint_id=ENDPOINT, keyring=ring, random=secrets.token_bytes)
    options = {"endpoint_id": ENDPOINT, "random": secrets.token_bytes}
    assert webhook_secret.encrypt_again(sealed, keyring=ring, **options) is None  # type: ignore[arg-type]
    rotated = ring.rotate(NOW, secrets.token_bytes, lifetime=timedelta(days=1))
    again = webhook_secret.encrypt_again(sealed, keyring=rotated, **options)  # type: ignore[arg-type]
    assert again is not None
    assert again.startswith(rotated.signing_kid)
    assert webhook_secret.decrypt(again, endpoint_id=ENDPOINT, keyring=rotated) == secret


def test_secrets_and_reset_tokens_are_redacted() -> None:
    secret, token = webhook_secret.generate(secrets.token_bytes), mail_tokens.new_reset_token(secrets.token_bytes)
    assert redact(f"x {secret} y {token} z") == "x [redacted] y [redacted] z"


def test_changed_unsubscribe_tokens_are_refused(ring: keyring.Keyring) -> None:
    token = mail_tokens.unsubscribe_token(ENDPOINT, "snapshot.late", keyring=ring)
    assert mail_tokens.verify_unsubscribe_token(token, keyring=ring) == (ENDPOINT, "snapshot.late")
    for changed in (token[:-1], token + "0", token.replace(ENDPOINT, OTHER), token.replace("late", "held"), "", "~~~"):
        assert mail_tokens.verify_unsubscribe_token(changed, keyring=ring) is None


def test_only_reset_tokens_have_a_digest() -> None:
    token = mail_tokens.new_reset_token(secrets.token_bytes)
    assert mail_tokens.reset_digest(token) != mail_tokens.reset_digest(mail_tokens.new_reset_token(secrets.token_bytes))
    for text in ("", "reset_", token + "x", token[:-1], token.replace("reset_", "Reset_"), f"{token}\n"):
        assert mail_tokens.reset_digest(text) is None
