"""Signed download links.

`{base_url}/download/v1/links/{client_id}/{snapshot_id}/{file}?expires&nonce&subject&kid&signature&name={file}`

This module creates and verifies the parameters before `name`. The signature does not cover the format, so a client may
replace `csv` by `json` to get the JSON file. Generated values are hex or decimal digits, which such a replacement
cannot change.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import msgspec

from daybreak.credentials.keyring import Keyring, is_mac, mac_of
from daybreak.domain.identity import is_id

LINK_FILE_NAME = "name"
"""Last parameter of a link. It repeats the file name, may add account and day, may be left out, and is not signed."""
LINK_MARKER = ("sp", "r")
"""Parameter that may precede the file name. It is not signed. Readers of Delta tables that find none such as those of
presigned URLs open the path of the link as a local file:
https://github.com/delta-io/delta-kernel-rs/blob/main/kernel/src/engine/default/filesystem.rs
"""
LINK_PART = "part"
"""Parameter that may precede them: the number of a part of a large Parquet file. It is not signed, as the link is for
the whole file.
"""
PARAMETERS = ("expires", "nonce", "subject", "kid", "signature")
_VERSION = "1"
_NONCE_BYTES = 8
_NAMES = frozenset(PARAMETERS)
# The values in the order of PARAMETERS, joined by a character that none of them contains.
_VALUES = re.compile(r"[1-9][0-9]{8,11}&[0-9a-f]{16}&[12][0-9a-f]{32}&[0-9a-f]{4,32}&[0-9a-f]{64}", re.ASCII)
_CODES = {"session": "1", "token": "2"}
_KINDS = {code: kind for kind, code in _CODES.items()}


@dataclass(frozen=True, slots=True)
class LinkRequest:
    """The parts of a link's URL."""

    client_id: str
    snapshot_id: str
    file_name: str
    parameters: Sequence[tuple[str, str]]


def marked_link(url: str) -> str:
    """Return a link with the marker of presigned URLs."""
    return url.replace(f"&{LINK_FILE_NAME}=", f"&{'='.join(LINK_MARKER)}&{LINK_FILE_NAME}=")


class LinkTarget(msgspec.Struct, frozen=True):
    """File that a link opens.

    `resource` is a resource name without format. `subject` is the credential that the link was issued for:
    `session:<uuid>` or `token:<uuid>`. `expires` is in epoch seconds.
    """

    client_id: str
    snapshot_id: str
    resource: str
    subject: str
    expires: int


@dataclass(frozen=True, slots=True)
class InvalidLink:
    """Result of verifying a link that does not open a file."""

    reason: Literal["malformed", "unknown_key", "signature", "expired"]


def sign(target: LinkTarget, *, keyring: Keyring, random: Callable[[int], bytes]) -> str:
    """Return the query string of a new link."""
    kid, key = keyring.signing_key("signed-link")
    nonce = random(_NONCE_BYTES).hex()
    kind, _, uuid = target.subject.partition(":")
    subject = _CODES[kind] + UUID(uuid).hex
    signature = mac_of(key, *_signed_fields(target, nonce, subject, kid))
    return f"expires={target.expires}&nonce={nonce}&subject={subject}&kid={kid}&signature={signature}"


def verify(request: LinkRequest, resource: str, *, keyring: Keyring, now_seconds: float) -> LinkTarget | InvalidLink:
    """Return the target of a valid link, which has exactly one of each of `PARAMETERS`, in any order. Never raises.

    Checks the signature before the expiry. `resource` is the resource name that the file name of the request contains.
    """
    signed = [each for each in request.parameters if each[0] not in (LINK_FILE_NAME, LINK_PART)]
    if LINK_MARKER in signed:
        signed.remove(LINK_MARKER)
    values = dict(signed)
    if len(values) != len(signed) or values.keys() != _NAMES:
        return InvalidLink("malformed")
    if not _VALUES.fullmatch("&".join([values[name] for name in PARAMETERS])):
        return InvalidLink("malformed")
    if not (is_id(request.client_id) and is_id(request.snapshot_id)):
        return InvalidLink("malformed")
    key = keyring.derive(values["kid"], "signed-link")
    if key is None:
        return InvalidLink("unknown_key")
    target = LinkTarget(
        client_id=request.client_id,
        snapshot_id=request.snapshot_id,
        resource=resource,
        subject=f"{_KINDS[values['subject'][0]]}:{UUID(values['subject'][1:])}",
        expires=int(values["expires"]),
    )
    fields = _signed_fields(target, values["nonce"], values["subject"], values["kid"])
    if not is_mac(values["signature"], key, *fields):
        return InvalidLink("signature")
    if target.expires <= now_seconds:
        return InvalidLink("expired")
    return target


def _signed_fields(target: LinkTarget, nonce: str, subject: str, kid: str) -> tuple[str, ...]:
    expires = str(target.expires)
    return (_VERSION, target.client_id, target.snapshot_id, target.resource, expires, nonce, subject, kid)
