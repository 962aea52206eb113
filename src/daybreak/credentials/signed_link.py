"""Signed links: a file for whoever holds the link, for a quarter of an hour.

`{base_url}/download/v1/links/{client_id}/{snapshot_id}/{file}?expires&nonce&subject&kid&signature`

The signature is HMAC-SHA256 over length-prefixed fields, so no two sets of fields give the same
octets. The format is not among them: replacing `csv` by `json` in a link gives the JSON version.
Everything generated is hex or digits, so that such a replacement cannot hit anything else.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from daybreak.credentials.keyring import Keyring
from daybreak.domain.identity import is_id

PARAMETERS = ("expires", "nonce", "subject", "kid", "signature")
Refusal = Literal["malformed", "unknown_key", "signature", "expired"]
_VERSION = "1"
_NONCE_BYTES = 8
_NAMES = frozenset(PARAMETERS)
# The values in the order of PARAMETERS, with a sign between them that is in none.
_SHAPE = re.compile(r"[1-9][0-9]{8,11}&[0-9a-f]{16}&[12][0-9a-f]{32}&[0-9a-f]{4,32}&[0-9a-f]{64}", re.ASCII)
_KINDS = {"session": "1", "token": "2"}
_KIND_OF = {digit: kind for kind, digit in _KINDS.items()}
# The length of a field before it, as four octets; a longer one is in no link.
_LENGTHS = tuple(length.to_bytes(4, "big").decode("ascii") for length in range(128))


class LinkTarget(msgspec.Struct, frozen=True):
    """What a link opens. `resource` is its name without any format; `subject` is the credential it
    came from, `session:<uuid>` or `token:<uuid>`.
    """

    client_id: str
    snapshot_id: str
    resource: str
    subject: str
    expires: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A link that is not good, and why."""

    reason: Refusal


def sign(target: LinkTarget, *, keyring: Keyring, random: Callable[[int], bytes]) -> str:
    """The query string of a new link. `expires` is in epoch seconds."""
    kid, key = keyring.signing_key("signed-link")
    nonce = random(_NONCE_BYTES).hex()
    subject = _subject_code(target.subject)
    signature = _signature(key, target, nonce=nonce, subject=subject, kid=kid)
    return f"expires={target.expires}&nonce={nonce}&subject={subject}&kid={kid}&signature={signature}"


def verify(
    *,
    client_id: str,
    snapshot_id: str,
    resource: str,
    parameters: Sequence[tuple[str, str]],
    keyring: Keyring,
    now_seconds: float,
) -> LinkTarget | Refused:
    """The target of a good link. The signature is judged before the expiry; parameters must be the
    five of a link, each once, in canonical form (their order does not matter). `resource` is a name of
    the catalogue. Never raises.
    """
    sent = dict(parameters)
    if len(sent) != len(parameters) or sent.keys() != _NAMES:
        return Refused("malformed")
    if not _SHAPE.fullmatch("&".join([sent[name] for name in PARAMETERS])):
        return Refused("malformed")
    if not (is_id(client_id) and is_id(snapshot_id)):
        return Refused("malformed")
    key = keyring.derive(sent["kid"], "signed-link")
    if key is None:
        return Refused("unknown_key")
    target = LinkTarget(
        client_id=client_id,
        snapshot_id=snapshot_id,
        resource=resource,
        subject=_subject_text(sent["subject"]),
        expires=int(sent["expires"]),
    )
    expected = _signature(key, target, nonce=sent["nonce"], subject=sent["subject"], kid=sent["kid"])
    if not hmac.compare_digest(expected, sent["signature"]):
        return Refused("signature")
    if target.expires <= now_seconds:
        return Refused("expired")
    return target


def _signature(key: bytes, target: LinkTarget, *, nonce: str, subject: str, kid: str) -> str:
    fields = (
        _VERSION,
        target.client_id,
        target.snapshot_id,
        target.resource,
        str(target.expires),
        nonce,
        subject,
        kid,
    )
    message = "".join([_LENGTHS[len(field)] + field for field in fields])
    return hmac.digest(key, message.encode(), "sha256").hex()


def _subject_code(subject: str) -> str:
    kind, _, uuid = subject.partition(":")
    return _KINDS[kind] + uuid.replace("-", "")


def _subject_text(code: str) -> str:
    digits = code[1:]
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return f"{_KIND_OF[code[0]]}:{uuid}"
