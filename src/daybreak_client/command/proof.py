"""Options of the commands that verify signatures, and the verifier that they select."""

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from daybreak_client.command.options import Credential, Flag
from daybreak_client.command.output import print_note
from daybreak_client.command.profile import proof_folder
from daybreak_client.errors import NotProved, WrongUse
from daybreak_client.folder import expanded
from daybreak_client.proof.memory import Memory
from daybreak_client.proof.trust import Trust, parse_trust
from daybreak_client.proof.verifier import Verifier

_MAX_TRUST_BYTES = 1 << 20
TrustFile = Annotated[
    Path | None,
    Parameter(help="Trust file of the service, received over another channel. It replaces the one that was seen."),
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Proof:
    """Options of commands that verify signatures of what they receive."""

    require_signed: Annotated[Flag, Parameter(help="Refuse files without a valid signature of the service.")] = False
    trust: TrustFile = None

    def verifier(self, address: str, credential: Credential) -> Verifier:
        """Return the verifier for the service at an address. Raises WrongUse."""
        return make_verifier(address, credential, self.trust, require_signed=self.require_signed)


def make_verifier(
    address: str, credential: Credential, trust: Path | None, *, require_signed: bool, at: datetime | None = None
) -> Verifier:
    """Return a verifier with the memory of the profile. Raises WrongUse for an invalid trust file."""
    return Verifier(
        memory=Memory(proof_folder(os.environ, credential.profile)),
        address=address,
        at=at,
        pinned=None if trust is None else _read_trust(expanded(trust)),
        require_signed=require_signed,
        announce=print_note,
    )


def _read_trust(path: Path) -> Trust:
    with path.open("rb") as file:
        content = file.read(_MAX_TRUST_BYTES)
    try:
        return parse_trust(content)
    except NotProved as fault:
        raise WrongUse(f"{path}: {fault.message}") from None
