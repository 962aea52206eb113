"""The trust file, which tells consumers whose signatures to accept: `allowed_signers` of OpenSSH with a version."""

from __future__ import annotations

import msgspec

TRUST_NAMESPACE = "daybreak-trust"


class Trust(msgspec.Struct, frozen=True):
    """CAs of a service, newest first, and the public recovery key, which signs later versions of the trust file. Keys
    are as in files of OpenSSH.
    """

    service: str
    version: int
    cas: tuple[str, ...]
    recovery: str

    def text(self) -> str:
        """Return the trust file."""
        lines = [f"# daybreak trust {self.version} {self.service}"]
        lines += [f'{self.service} cert-authority,namespaces="daybreak/*" {ca}' for ca in self.cas]
        lines.append(f'trust@{self.service} namespaces="{TRUST_NAMESPACE}" {self.recovery}')
        return "\n".join([*lines, ""])


def account_namespace(client_id: str) -> str:
    """Return the namespace of the signatures for an account."""
    return f"daybreak/{client_id}"


def revoked_text(keys: tuple[str, ...]) -> str:
    """Return a list of revoked keys for `ssh-keygen -Y verify -r`."""
    return "".join(f"{key}\n" for key in keys)
