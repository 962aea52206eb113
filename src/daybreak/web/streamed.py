"""Answers whose content is made while it is sent, so that nobody knows its length before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse


def streamed(
    request: Request,
    pieces: Iterator[bytes] | AsyncIterator[bytes],
    *,
    media_type: str,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The pieces one after the other to GET; to HEAD the same headers, and none of the pieces is made."""
    if request.method != "HEAD":
        return StreamingResponse(pieces, media_type=media_type, headers=headers)
    answer = Response(media_type=media_type, headers=headers)
    # The framework's, of no octets at all: the content has hardly that length.
    del answer.headers["Content-Length"]
    return answer
