"""Signed texts, such as the tokens of forms."""

import os
from datetime import UTC, datetime
from pathlib import Path

from daybreak.credentials import keyring, signed_text

SID = "0c7f1c3e-8c39-4a4e-9c1d-6a4f0c1d2e3f"
PAYLOAD = "0b305579"


def test_text_is_valid_for_its_purpose_and_context_only(tmp_path: Path) -> None:
    ring = keyring.create(tmp_path / "keyring.json", datetime(2026, 11, 22, tzinfo=UTC), os.urandom)
    text = signed_text.sign(PAYLOAD, SID, purpose="csrf", keyring=ring)
    assert signed_text.verify(text, SID, purpose="csrf", keyring=ring) == PAYLOAD
    assert signed_text.verify(text, "another", purpose="csrf", keyring=ring) is None
    assert signed_text.verify(text, SID, purpose="dashboard-cookie", keyring=ring) is None
    assert signed_text.verify("", SID, purpose="csrf", keyring=ring) is None
    for index in range(len(text)):
        altered = text[:index] + ("0" if text[index] != "0" else "1") + text[index + 1 :]
        assert signed_text.verify(altered, SID, purpose="csrf", keyring=ring) is None
