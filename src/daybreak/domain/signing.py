"""Values of signed statements: editions, the trust file, and what is stored about the statements of a snapshot."""

from dataclasses import dataclass
from datetime import datetime

import msgspec

TRUST_NAMESPACE = "daybreak-trust"


class Edition(msgspec.Struct, frozen=True, order=True):
    """A version of the files, a revision of its statement, and the digest of that."""

    version: int
    revision: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Trust:
    """CAs of a service, newest first, and the public recovery key, which signs later versions of the trust file. Keys
    are as in files of OpenSSH. `signature` is that of the trust file, empty for a first version without one.
    """

    service: str
    version: int
    cas: tuple[str, ...]
    recovery: str
    signature: str = ""

    def text(self) -> str:
        """Return the trust file, `allowed_signers` of OpenSSH with a version."""
        lines = [f"# daybreak trust {self.version} {self.service}"]
        lines += [f'{self.service} cert-authority,namespaces="daybreak/*" {ca}' for ca in self.cas]
        lines.append(f'trust@{self.service} namespaces="{TRUST_NAMESPACE}" {self.recovery}')
        return "\n".join([*lines, ""])


class StatementPack(msgspec.Struct, frozen=True):
    """A stored file of statements: its first account, its key, and length and SHA-256 (hex) of its bytes."""

    first: str
    key: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SignedSnapshot:
    """The statements of one run: those of all accounts, in packs that are sorted by account.

    They are valid for `version` and `chain_id`, and while the signing epoch is `epoch`: erasures and revocations begin
    another one. `public_key` signed them.
    """

    snapshot_id: str
    version: int
    chain_id: str
    epoch: int
    signed_at: datetime
    expires_at: datetime
    public_key: str
    packs: tuple[StatementPack, ...]


@dataclass(frozen=True, slots=True)
class Revision:
    """A later revision of an account's statement, which an erasure made. It is alone in its pack."""

    client_id: str
    edition: Edition
    pack: StatementPack
    erasure_id: str
    public_key: str


def account_namespace(client_id: str) -> str:
    """Return the namespace of the signatures for an account."""
    return f"daybreak/{client_id}"
