"""Responses that are generated while they are sent, so that their length is unknown."""

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
    """Return a response with these pieces. For HEAD it has the same headers, and the pieces are not generated."""
    if request.method != "HEAD":
        return StreamingResponse(pieces, media_type=media_type, headers=headers)
    response = Response(media_type=media_type, headers=headers)
    # Starlette has set the length of the empty body.
    del response.headers["Content-Length"]
    return response
