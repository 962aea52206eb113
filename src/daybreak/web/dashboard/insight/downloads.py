"""CSV files of blocks."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from daybreak.web.dashboard.file_names import download_headers
from daybreak.web.dashboard.insight.blocks import Block, block_csv
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.spreadsheets import CSV_MEDIA_TYPE


async def block_response(page: PageRequest, block: Block, file_name: str, details: Mapping[str, object]) -> Response:
    """Return a block as a CSV file, and record the download in the audit trail. Raises RateLimited."""
    if page.request.method == "GET":
        await page.record("file.fetched", {"file": file_name, **details})
    return Response(block_csv(block), headers=download_headers(file_name), media_type=CSV_MEDIA_TYPE)
