"""Signed statements of an account's files, for principals that may download the files."""

import re
from functools import partial

from daybreak.access.authorization import require_in_context
from daybreak.access.services import Services
from daybreak.domain.audit import EventOrigin
from daybreak.domain.errors import Forbidden, NotFound
from daybreak.domain.identity import Caller, Principal
from daybreak.downloads import manifest, record_download
from daybreak.proof.statement_pack import SignedStatement
from daybreak.snapshots.signed_statements import read_stored, statement_key
from daybreak.state.stores import Stores

_EDITION = re.compile(r"([1-9][0-9]{0,17})\.([1-9][0-9]{0,17})")


async def account_statement(
    services: Services, principal: Principal, client_id: str, caller: Caller, name: str, edition: str | None = None
) -> bytes:
    """Return the current statement of an account, or that of a kept `edition` such as `48.1` (version and revision), or
    its signature if the `name` of the file ends with `.sig`.

    Each call counts as a download and is recorded. Raises RateLimited, Forbidden, NotFound (`no_statement`, and
    `snapshot_not_ready` for an account without files), FileStoreError, Unavailable.
    """
    origin = EventOrigin.of(principal, services.clock(), caller)
    try:
        await require_in_context(services.state, principal, "download", client_id)
        found = await _requested(services, principal, client_id, edition)
    except (Forbidden, NotFound) as refusal:
        await record_download(services, origin, "statement.fetched", refusal.code, {"file": name})
        raise
    content = found.signature if name.endswith(".sig") else found.content
    await record_download(services, origin, "statement.fetched", "ok", {"file": name}, sent=len(content))
    return content


async def stored_statement(
    services: Services, client_id: str, version: int | None = None, revision: int | None = None
) -> SignedStatement | None:
    """Return the statement of an account, None if it is not stored. The latest revision of the published version by
    default. Raises FileStoreError, Unavailable.
    """

    def read(stores: Stores) -> str | None:
        signed = stores.signatures.of_publication(version)
        return None if signed is None else statement_key(stores, signed, client_id, revision)

    key = await services.state.aread(read)
    if key is None:
        return None
    return await services.threads.run(client_id, partial(read_stored, services.files, key, client_id))


async def _requested(services: Services, principal: Principal, client_id: str, edition: str | None) -> SignedStatement:
    version = revision = None
    if edition is not None:
        parts = _EDITION.fullmatch(edition)
        if parts is None:
            raise NotFound("Unknown statement. Use a version and a revision, such as 48.1.json.", code="no_statement")
        version, revision = int(parts[1]), int(parts[2])
    found = await stored_statement(services, client_id, version, revision)
    if found is not None:
        return found
    if edition is not None:
        raise NotFound("This statement is not kept.", code="no_statement")
    await manifest(services, principal, client_id)
    raise NotFound("The current files have no signed statement.", code="no_statement")
