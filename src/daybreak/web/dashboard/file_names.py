"""Files that the dashboard sends. Names carry the account and the day: `acme-members-2026-11-27.csv.gz`."""

import re
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import date

from starlette.responses import Response

from daybreak.catalogue.download_paths import saved_name
from daybreak.downloads import IssuedLink
from daybreak.web.dashboard.page_request import PageRequest

_MAXIMUM_ACCOUNT_LENGTH = 40


def download_name(page: PageRequest, name: str, day: date, ending: str) -> str:
    """Return the name of a file of the account in the path. A time stands for its day."""
    return saved_name(_account_slug(page), day, name + ending)


def download_headers(name: str) -> dict[str, str]:
    """Return the headers of a file that browsers save under this name."""
    return {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}


async def stream_file(
    page: PageRequest,
    pieces: AsyncIterator[bytes],
    name: str,
    media_type: str,
    record: Callable[[], Awaitable[None]] | None = None,
) -> Response:
    """Return a response with the pieces of a file, the first of which an error page may still replace."""
    headers = {**download_headers(name), "Content-Type": media_type}
    return await page.dashboard.streams.respond(page.request, page.client_id, pieces, headers, record=record)


def named_link(page: PageRequest, issued: IssuedLink) -> str:
    """Return the URL of a link whose file browsers save with the name of the account and the day."""
    name = saved_name(_account_slug(page), issued.file.as_of, issued.named.name)
    return issued.url.removesuffix(issued.named.name) + name


def _account_slug(page: PageRequest) -> str:
    """Return the name of the account in ASCII letters and digits, or the start of its id if the name has none."""
    assert page.granted is not None, "the account in the path is one of the seat"
    ascii_name = unicodedata.normalize("NFKD", page.granted.account.name).encode("ascii", "ignore").decode()
    slug = re.sub("[^a-z0-9]+", "-", ascii_name.lower())[:_MAXIMUM_ACCOUNT_LENGTH].strip("-")
    return slug or page.client_id[:8]
