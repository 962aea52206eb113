"""RFC 6238 codes, encrypted seeds and recovery codes."""

import hashlib
import json
import re
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyotp
import pytest

from daybreak.credentials import keyring as keyrings
from daybreak.credentials import totp

VECTORS = Path(__file__).parents[2] / "vendored" / "rfc6238" / "vectors.json"
NOW = datetime(2026, 11, 20, 4, tzinfo=UTC)
SEAT = "0b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11"
OTHER = "0b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a12"


@pytest.fixture
def ring(tmp_path: Path) -> keyrings.Keyring:
    return keyrings.create(tmp_path / "keyring.json", NOW, secrets.token_bytes)


def test_codes_match_rfc_6238_appendix_b() -> None:
    rows = [row for row in json.loads(VECTORS.read_text()) if row["alg"] == "SHA1"]
    assert len(rows) == 6
    for row in rows:
        seed = row["secret_ascii"].encode()
        assert totp.code_at(seed, row["time"] // 30) == row["digits6"]
        assert totp.matching_step(seed, row["digits6"], row["time"]) == row["time"] // 30


def test_code_is_accepted_one_step_early_and_late() -> None:
    seed = secrets.token_bytes(20)
    now = 1_800_000_015
    step = now // 30
    codes = {at: totp.code_at(seed, step + at) for at in range(-2, 3)}
    if len(set(codes.values())) < 5:
        pytest.skip("two of five adjacent codes are equal (1 in 100,000 runs)")
    assert [totp.matching_step(seed, codes[at], now) for at in range(-2, 3)] == [
        None,
        step - 1,
        step,
        step + 1,
        None,
    ]


@pytest.mark.parametrize(
    "typed", ["287 082", " 287082\n", "287\xa0082", "287-082", "\uff12\uff18\uff17\uff10\uff18\uff12"]
)
def test_code_is_accepted_as_apps_show_it(typed: str) -> None:
    assert totp.matching_step(b"12345678901234567890", typed, 59) == 1


@pytest.mark.parametrize("code", ["", " ", "28708", "2870820", "287.082", "²87082", "abcdef", "\ud800"])
def test_text_other_than_six_digits_is_rejected(code: str) -> None:
    assert totp.matching_step(b"12345678901234567890", code, 59) is None


def test_seed_is_decrypted_for_its_seat_only(ring: keyrings.Keyring) -> None:
    seed = secrets.token_bytes(totp.SEED_BYTES)
    encrypted = totp.encrypt_seed(seed, seat_id=SEAT, keyring=ring, random=secrets.token_bytes)
    assert seed.hex() not in encrypted
    assert totp.manual_key(seed) not in encrypted
    rotated = ring.rotate(NOW, secrets.token_bytes, lifetime=timedelta(days=7))
    assert totp.decrypt_seed(encrypted, seat_id=SEAT, keyring=rotated) == seed
    assert totp.encryption_kid(encrypted) == ring.signing_kid
    with pytest.raises(totp.SeedDecryptionError):
        totp.decrypt_seed(encrypted, seat_id=OTHER, keyring=ring)


def test_seed_encrypted_by_an_earlier_version_is_decrypted() -> None:
    """The seed was encrypted at commit aa7e92d."""
    ring = keyrings.Keyring((keyrings.Key("aa01", "signing", hashlib.sha256(b"first").digest(), NOW),))
    encrypted = (
        "1.aa01.000102030405060708090a0b.32311915cabdc116c7517818a8a877c67d5f368f6f15c0b65b888697b42649afb389f285"
    )
    assert totp.decrypt_seed(encrypted, seat_id=SEAT, keyring=ring) == b"12345678901234567890"


def test_changed_encrypted_seed_is_rejected(ring: keyrings.Keyring) -> None:
    encrypted = totp.encrypt_seed(b"x" * 20, seat_id=SEAT, keyring=ring, random=secrets.token_bytes)
    for at in range(len(encrypted)):
        changed = encrypted[:at] + ("0" if encrypted[at] != "0" else "1") + encrypted[at + 1 :]
        with pytest.raises(totp.SeedDecryptionError):
            totp.decrypt_seed(changed, seat_id=SEAT, keyring=ring)
    for other in ("", "...", "1.2.3", "1.zz.00.00"):
        with pytest.raises(totp.SeedDecryptionError):
            totp.decrypt_seed(other, seat_id=SEAT, keyring=ring)


def test_otpauth_uri_has_the_expected_format() -> None:
    uri = totp.otpauth_uri(b"12345678901234567890", issuer="Day & break", email="a+b@example.org")
    assert uri == (
        "otpauth://totp/Day%20%26%20break:a%2Bb@example.org?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
        "&issuer=Day%20%26%20break&algorithm=SHA1&digits=6&period=30"
    )


def test_authenticator_app_shows_the_same_codes() -> None:
    seed = secrets.token_bytes(totp.SEED_BYTES)
    app = pyotp.parse_uri(totp.otpauth_uri(seed, issuer="Daybreak", email="rosa@example.org"))
    assert isinstance(app, pyotp.TOTP)
    assert (app.name, app.issuer) == ("rosa@example.org", "Daybreak")
    for seconds in (59, 1_800_000_000, 20_000_000_000):
        assert app.at(seconds) == totp.code_at(seed, seconds // 30)


def test_seed_has_160_bits() -> None:
    assert totp.SEED_BYTES == 20  # RFC 4226 §4


def test_recovery_codes_have_no_ambiguous_characters() -> None:
    for code in totp.new_recovery_codes(secrets.token_bytes):
        assert re.fullmatch(r"([2-9a-km-np-z]{4}-){5}[2-9a-km-np-z]{4}", code)


def test_recovery_codes_have_120_random_bits() -> None:
    sizes: list[int] = []

    def constant(byte: int) -> str:
        def random(count: int) -> bytes:
            sizes.append(count)
            return bytes([byte]) * count

        return totp.new_recovery_codes(random)[0]

    # Five bits of each of 24 bytes.
    assert len({constant(byte) for byte in range(32)}) == 32
    assert set(sizes) == {24}


def test_recovery_codes_are_ten_and_match_in_any_case() -> None:
    codes = totp.new_recovery_codes(secrets.token_bytes)
    assert len(set(codes)) == 10
    code = codes[0]
    stored = totp.recovery_digest(code, seat_id=SEAT)
    assert totp.recovery_digest(code.upper().replace("-", " "), seat_id=SEAT) == stored
    assert totp.recovery_digest(codes[1], seat_id=SEAT) != stored
    assert totp.recovery_digest(code, seat_id=OTHER) != stored
    assert code not in stored
