"""Refresh tokens of Delta Sharing: a signed version of a table. A client gets new links to the same files with it."""

import re

from daybreak.credentials.keyring import Keyring, is_mac, mac_of

_TOKEN = re.compile(r"([0-9a-f]{4,32})\.([1-9][0-9]{0,18})\.([0-9a-f]{64})", re.ASCII)


def sign(client_id: str, table: str, version: int, *, keyring: Keyring) -> str:
    """Return the token of a version of an account's table."""
    kid, key = keyring.signing_key("table-version")
    return f"{kid}.{version}.{mac_of(key, client_id, table, str(version))}"


def verify(token: str, client_id: str, table: str, *, keyring: Keyring) -> int | None:
    """Return the version in a token of this table, None for any other text."""
    found = _TOKEN.fullmatch(token)
    if found is None:
        return None
    kid, version, sent = found.groups()
    key = keyring.derive(kid, "table-version")
    return int(version) if key is not None and is_mac(sent, key, client_id, table, version) else None
