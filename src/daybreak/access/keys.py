"""The values that keys of the keyring protect: re-encryption after a rotation, and revocation of a key.

A revocation is a row of the state database, which every process reads before it verifies or signs anything. It applies
to the next request on every node, also on those that still have the key in their file.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from daybreak.access.end_credentials import EndReason
from daybreak.access.operators import sign_out_all
from daybreak.credentials import totp, webhook_secret
from daybreak.credentials.keyring import Keyring
from daybreak.credentials.sealed_text import sealing_kid
from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import OperatorError
from daybreak.state.stores import Stores


@dataclass(frozen=True, slots=True)
class Reencrypted:
    """Numbers of the values that were encrypted with another key."""

    seeds: int
    webhook_secrets: int


@dataclass(frozen=True, slots=True)
class KeyRevocation:
    """Result of a revocation: the sessions that ended by seat, and the values that were re-encrypted."""

    sessions: dict[str, int]
    reencrypted: Reencrypted


def require_no_revoked_key(keyring: Keyring, stores: Stores) -> None:
    """Raise OperatorError if the file contains the secret of a revoked key."""
    found = keyring.usable(stores.revoked_keys.kids()) or [
        key.kid for key in keyring.keys if key.state == "decrypt_only"
    ]
    if found:
        raise OperatorError(
            f"keys.file contains the revoked key {found[0]}, whose secret must be destroyed. Copy the keyring from the "
            f"node where the key was revoked. If there is none, run `daybreakd keys revoke {found[0]}` here."
        )


def reencrypt(stores: Stores, keyring: Keyring, random: Callable[[int], bytes]) -> Reencrypted:
    """Encrypt every stored seed and secret of a webhook with the current signing key."""

    def reseal_seed(seat_id: str, sealed: str) -> str | None:
        if totp.encryption_kid(sealed) == keyring.signing_kid:
            return None
        try:
            seed = totp.decrypt_seed(sealed, seat_id=seat_id, keyring=keyring)
        except totp.SeedDecryptionError:
            # Encrypted with another keyring. It is unusable, and must not block the others.
            return None
        return totp.encrypt_seed(seed, seat_id=seat_id, keyring=keyring, random=random)

    def reseal_secret(endpoint_id: str, sealed: str) -> str | None:
        return webhook_secret.encrypt_again(sealed, endpoint_id=endpoint_id, keyring=keyring, random=random)

    return Reencrypted(stores.seats.reseal_seeds(reseal_seed), stores.webhooks.reseal(reseal_secret))


def record_rotation(stores: Stores, rotated: Keyring, random: Callable[[int], bytes], now: datetime) -> Reencrypted:
    """Encrypt every stored value with the key that signs since a rotation, and record the rotation."""
    done = reencrypt(stores, rotated, random)
    details = {"key": rotated.signing_kid, **asdict(done)}
    stores.audit.append(AuditEvent(at=now, action="key.rotated", result="ok", actor="operator", details=details))
    return done


def kids_in_use(stores: Stores) -> frozenset[str]:
    """Return the keys that encrypt stored second-factor seeds and secrets of webhooks."""
    of_seeds = {totp.encryption_kid(seed) for seed in stores.seats.sealed_seeds()}
    return frozenset(of_seeds | {sealing_kid(secret) for secret in stores.webhooks.sealed_secrets()})


def kids_of_s3_keys(stores: Stores, keyring: Keyring, now: datetime, tolerance: timedelta) -> frozenset[str]:
    """Return the keys from which the S3 secrets of API tokens may be derived that have not ended.

    A secret is derived when its token is created, with the key that signs. Another node may have signed with an earlier
    key for the `tolerance` after a rotation.
    """
    created = [token.created_at for token in stores.api_tokens.list_for() if token.state_at(now) == "live"]
    found, since = set(), datetime.min.replace(tzinfo=UTC)
    for key in keyring.keys:
        if key.retired_at is not None:
            if any(since <= each <= key.retired_at + tolerance for each in created):
                found.add(key.kid)
            since = key.retired_at
    return frozenset(found)


def revoke_key(
    stores: Stores, kid: str, keyring: Keyring, random: Callable[[int], bytes], now: datetime
) -> KeyRevocation:
    """Revoke a key on all nodes: re-encrypt what it encrypts, and end all sessions.

    `keyring` is the new one, in which the key only decrypts. A session does not name the keys that signed its tokens
    and cookies, so all sessions end. Repeating it ends nothing and re-encrypts what was written in the meantime.
    """
    reencrypted = reencrypt(stores, keyring, random)
    if not stores.revoked_keys.add(kid, now):
        return KeyRevocation({}, reencrypted)
    sessions = sign_out_all(stores, now, actor="operator", reason=EndReason.KEY_REVOKED)
    details = {"key": kid, "sessions": sum(sessions.values()), **asdict(reencrypted)}
    stores.audit.append(AuditEvent(at=now, action="key.revoked", result="ok", actor="operator", details=details))
    return KeyRevocation(sessions, reencrypted)
