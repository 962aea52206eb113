"""Changes of the trust file, which the recovery key signs, and revoked keys."""

from datetime import datetime
from pathlib import Path

from daybreak.credentials.signing_folder import activate_next_ca, create_next_ca, load_recovery
from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import OperatorError
from daybreak.domain.signing import Trust
from daybreak.settings import Settings
from daybreak.snapshots.signing import listed_ca, sign_trust
from daybreak.state.stores import State, Stores

_LISTED_CAS = 2
"""CAs in the trust file after a rotation: what the one before signed stays valid."""


def current_trust(state: State) -> Trust:
    """Return the trust file. Raises OperatorError for a service that has not signed anything."""
    trust = state.read(lambda stores: stores.signatures.trust())
    if trust is None:
        raise OperatorError("This service has not signed anything. The first publication creates the trust file.")
    return trust


def rotate_ca(
    state: State,
    settings: Settings,
    recovery_file: Path,
    now: datetime,
    *,
    token: str | None = None,
    revoke: bool = False,
    replace_recovery_key: bool = False,
) -> Trust:
    """Replace the CA, and return the new trust file. It lists the CA before too, unless `revoke` is set: then all
    earlier CAs are revoked. `token` is the PKCS#11 URI of the token for the new CA. With `replace_recovery_key`, the
    recovery key may be another one than before. Raises OperatorError, Conflict.
    """
    trust, recovery, folder = current_trust(state), load_recovery(recovery_file), settings.signing.folder
    if recovery.public != trust.recovery and not replace_recovery_key:
        raise OperatorError(
            f"{recovery_file} is not the recovery key of this service. Name the original file. If that is lost, see "
            "`daybreakd trust rotate --help`."
        )
    public = create_next_ca(folder, token)
    kept = () if revoke else trust.cas[: _LISTED_CAS - 1]
    changed = sign_trust(Trust(trust.service, trust.version + 1, (public, *kept), recovery.public), recovery)

    def write(stores: Stores) -> None:
        stores.signatures.add_trust(changed, now)
        if revoke:
            stores.signatures.revoke(trust.cas, now)
        action = "trust.ca_revoked" if revoke else "trust.rotated"
        details: dict[str, object] = {
            "version": changed.version,
            "recovery_key_replaced": changed.recovery != trust.recovery,
        }
        stores.audit.append(_event(now, action, details))

    # The file is replaced afterwards: until then, the CA before is listed, or the next run reports that it is not.
    state.write(write)
    activate_next_ca(folder)
    return changed


def revoke_publication(state: State, version: int, now: datetime) -> int:
    """Revoke the keys that signed a version, and return their number. Raises OperatorError."""

    def write(stores: Stores) -> int:
        signed = stores.signatures.of_publication(version)
        if signed is None:
            raise OperatorError(f"Version {version} is not kept, or not signed. See `daybreakd snapshot list`.")
        revisions = stores.signatures.revisions(signed.snapshot_id)
        keys = sorted({signed.public_key, *(each.public_key for each in revisions)})
        stores.signatures.revoke(keys, now)
        stores.audit.append(_event(now, "trust.revoked", {"version": version}))
        return len(keys)

    return state.write(write)


def resume_above(state: State, version: int, now: datetime) -> int:
    """Let the next publication have a version greater than `version`. Return the version after which it continues.

    That version never directly follows the published one, which consumers may have seen with other content. Its
    statements therefore name no previous version.
    """

    def write(stores: Stores) -> int:
        stores.audit.append(_event(now, "trust.resumed_above", {"version": version}))
        stores.deltas.raise_version(max(version, stores.deltas.last_version() + 1))
        return stores.deltas.last_version()

    return state.write(write)


def signing_state(state: State, settings: Settings) -> str:
    """Describe the keys for operators. Changes nothing. Raises OperatorError for a CA that cannot sign."""
    trust = state.read(lambda stores: stores.signatures.trust())
    ca = listed_ca(settings, trust)
    if trust is not None:
        return f"{trust.service}, trust file {trust.version}"
    if ca is not None:
        return "ready for the first publication"
    return (
        "files are not signed, because there is no CA. To sign them, run `daybreakd init FOLDER`, and move "
        f"FOLDER/signing to {settings.signing.folder}"
    )


def _event(now: datetime, action: str, details: dict[str, object]) -> AuditEvent:
    return AuditEvent(at=now, action=action, result="ok", actor="operator", details=details)
