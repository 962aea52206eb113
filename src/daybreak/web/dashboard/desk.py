"""What every page works with, made once per worker, and how a template becomes an answer."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from daybreak.web.dashboard import presentation
from daybreak.web.dashboard.assets import Asset, load_assets
from daybreak.web.negotiation import takes_gzip
from daybreak.web.services import Services

T = TypeVar("T")
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_TEMPLATES = Path(__file__).parent / "templates"
_PACK_FROM_BYTES = 1400


@dataclass(frozen=True, slots=True)
class Desk:
    """`file_work` bounds how many files are read for people at once in this worker: two. `figures` are those that were
    drawn last, by resource and the digest of its content.
    """

    services: Services
    templates: Environment
    assets: Mapping[str, Asset]
    file_work: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    figures: dict[tuple[str, str], object] = field(default_factory=dict)

    @property
    def root(self) -> str:
        """The path part of `base_url`: what stands before every own path."""
        return self.services.settings.base_path

    @property
    def secure(self) -> bool:
        return self.services.settings.secure

    @property
    def publish_clock(self) -> str:
        """The hour of publication: `04:00 UTC`."""
        return f"{self.services.downloads.settings.publish_at:%H:%M} UTC"

    def asset_url(self, name: str) -> str:
        """The address of a style, script or picture, with its digest."""
        return f"{self.root}/dashboard/static/{self.assets[name].digest}/{name}"

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Runs file work in a thread, two at once."""
        async with self.file_work:
            return await asyncio.to_thread(work)


def open_desk(services: Services) -> Desk:
    """Loads templates and assets."""
    templates = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    for name in (
        "number", "size", "instant", "clock", "day", "span", "ago", "visible", "one_line", "initials", "share", "width",
    ):  # fmt: skip
        templates.filters[name] = getattr(presentation, name)
    templates.filters["merge"] = lambda first, second: {**first, **second}
    return Desk(services, templates, load_assets())


def render(
    desk: Desk,
    request: Request,
    template: str,
    context: Mapping[str, object],
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A page: never stored, strict policy, compressed when the browser takes it."""
    text = desk.templates.get_template(template).render(
        {
            "asset": desk.asset_url,
            "root": desk.root,
            "now": desk.services.clock(),
            # What answered a post becomes an ordinary entry of the browser's history: going back to it or
            # reloading it opens that address and sends nothing again.
            "leave": desk.root + request.url.path.removeprefix(desk.root) if request.method == "POST" else "",
            **context,
        }
    )
    body = text.encode()
    all_headers = {
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Cache-Control": "no-store",
        "Vary": "Accept-Encoding, Cookie, HX-Request",
        **(headers or {}),
    }
    if len(body) >= _PACK_FROM_BYTES and takes_gzip(request.headers.getlist("accept-encoding")):
        body = gzip.compress(body, 6, mtime=0)
        all_headers["Content-Encoding"] = "gzip"
    return HTMLResponse(body, status, all_headers)


def go_to(desk: Desk, path: str, request: Request | None = None) -> Response:
    """See other: after a post, or to another page. Within a page part, htmx is told to go there."""
    address = desk.root + path
    if request is not None and is_part(request):
        return Response(status_code=200, headers={"HX-Redirect": address, "Cache-Control": "no-store"})
    return RedirectResponse(address, 303, {"Cache-Control": "no-store"})


def is_part(request: Request) -> bool:
    """Whether htmx asks for a part of a page."""
    return request.headers.get("hx-request") == "true"
