"""Signed receipts of erasures, for the account."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from functools import partial
from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from daybreak.access.authorization import require_in_context
from daybreak.access.services import Services
from daybreak.domain.audit import EventOrigin
from daybreak.domain.erasure import SignedReceipt
from daybreak.downloads import record_download
from daybreak.state.stores import Stores
from daybreak.web.api import examples
from daybreak.web.api.examples import field, uuid
from daybreak.web.api.files import CLIENT_ID
from daybreak.web.api.operation import (
    FILES,
    SESSION_OR_API_TOKEN,
    ApiRoute,
    Operation,
    ResponseType,
    principal_of,
    view_of,
)
from daybreak.web.request_state import caller_of
from daybreak.web.streams import Streams

_PAGE_SIZE = 20
_STATEMENT = '{"_type":"https://in-toto.io/Statement/v1","predicateType":"https://daybreak.example/erasure/v1",...}'


class ReceiptLine(msgspec.Struct, frozen=True):
    """Receipt of an erasure."""

    erasure_id: Annotated[str, uuid("The erasure.", examples.SNAPSHOT_ID)]
    finished_at: Annotated[datetime, field("When the erasure finished.", "2026-11-24T08:30:12Z")]
    statement: Annotated[str, field("The receipt, in-toto Statement v1. Its bytes are signed.", _STATEMENT)]
    signature: Annotated[
        str, field("The signature, as `ssh-keygen -Y verify` reads it.", "-----BEGIN SSH SIGNATURE-----\n...\n")
    ]


LIST_RECEIPTS = Operation(
    operation_id="listErasureReceipts",
    summary="List receipts of erasures",
    description="Returns the signed receipts of erasures in files of the account, oldest first. A receipt lists the "
    "replaced files with their digests before and after. Each call counts as a download.",
    tag=FILES,
    credential=SESSION_OR_API_TOKEN,
    parameters=(CLIENT_ID,),
    response=ResponseType("One receipt per line.", ReceiptLine, ("application/x-ndjson",)),
    problems=("rate_limited",),
)


def erasure_routes(services: Services, streams: Streams) -> list[ApiRoute]:
    """Return the route of receipts. It precedes those of files."""

    async def receipts(request: Request) -> Response:
        principal = await principal_of(request, services)
        client_id = request.path_params["client_id"].lower()
        await require_in_context(services.state, principal, "download", client_id)
        origin = EventOrigin.of(principal, services.clock(), caller_of(request))
        details = {"file": "receipts"}
        record = partial(record_download, services, origin, "statement.fetched", "ok", details)
        headers = {"Content-Type": LIST_RECEIPTS.response.media_types[0]}
        return await streams.respond(request, client_id, _pages(services, client_id), headers, record=record)

    return [ApiRoute("/download/v1/files/{client_id}/receipts", receipts, LIST_RECEIPTS)]


async def _pages(services: Services, client_id: str) -> AsyncIterator[bytes]:
    offset = 0
    while True:

        def read(stores: Stores, offset: int = offset) -> list[SignedReceipt]:
            return stores.erasures.account_receipts(client_id, offset, _PAGE_SIZE)

        found = await services.state.aread(read)
        if found:
            yield msgspec.json.Encoder().encode_lines([view_of(ReceiptLine, each) for each in found])
        if len(found) < _PAGE_SIZE:
            return
        offset += _PAGE_SIZE
