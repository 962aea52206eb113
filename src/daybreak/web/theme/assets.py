"""Stylesheets, scripts and icons: read and compressed once, served under a URL with their digest.

Browsers cache them indefinitely; a new version has a new URL.
"""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from daybreak.web.http.negotiation import accepts_gzip

_FOLDER = Path(__file__).parent / "static"
_STYLES = ("colors", "base", "controls", "frame", "files", "tables", "charts", "lists", "freshness", "standalone")
"""Parts of daybreak.css in the order of the cascade: a component each, with its media queries."""

_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_STATE_COLORS = {
    "late": "#f5b301",
    "failed": "#e5372c",
    "held": "#8a5cd6",
    "first_run": "#2d7fd3",
    "unpublished": "#5d6678",
}
"""Badge on the icon of the browser tab by publication state; there is none for fresh files."""


class Asset:
    """A text that is read or generated once, uncompressed and compressed with gzip."""

    def __init__(self, content: bytes, media_type: str) -> None:
        self.content, self.media_type = content, media_type
        self.compressed = gzip.compress(content, 9, mtime=0)
        self.digest = hashlib.sha256(content).hexdigest()[:16]

    def response(self, request: Request, headers: Mapping[str, str] | None = None) -> Response:
        """Return the text, compressed if the client accepts it."""
        sent = {"Vary": "Accept-Encoding", **(headers or {})}
        compressed = accepts_gzip(request.headers.getlist("accept-encoding"))
        if compressed:
            sent["Content-Encoding"] = "gzip"
        return Response(self.compressed if compressed else self.content, headers=sent, media_type=self.media_type)


@dataclass(frozen=True, slots=True)
class Assets:
    """Assets by name. `root` is the path part of `base_url`."""

    by_name: Mapping[str, Asset]
    root: str

    def url(self, name: str) -> str:
        """Return the URL of an asset. It contains the start of the SHA-256 of the content."""
        return f"{self.root}/dashboard/static/{self.by_name[name].digest}/{name}"

    async def response(self, request: Request) -> Response:
        """Return the asset in the path, or 404 if the name is unknown or the digest is another version's."""
        asset = self.by_name.get(request.path_params["name"])
        if asset is None or asset.digest != request.path_params["digest"]:
            return Response("not found\n", 404, media_type="text/plain", headers={"Cache-Control": "no-store"})
        headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
        return asset.response(request, headers)


def load_assets(root: str) -> Assets:
    styles = b"".join((_FOLDER / "daybreak" / f"{part}.css").read_bytes() for part in _STYLES)
    assets = {"daybreak.css": Asset(styles, _MEDIA_TYPES[".css"])}
    for file in _FOLDER.glob("*.*"):
        assets[file.name] = Asset(file.read_bytes(), _MEDIA_TYPES[file.suffix])
    # A gray sun and a badge, so that a browser tab shows the state of the publication.
    gray = assets["favicon.svg"].content.replace(b"#f2913d", b"#9aa3b5")
    for state, color in _STATE_COLORS.items():
        badge = f'<circle cx="23.5" cy="8.5" r="8" fill="{color}" stroke="#fff" stroke-width="1.5"/></svg>'
        icon = gray.replace(b"</svg>", badge.encode())
        assets[f"favicon-{state}.svg"] = Asset(icon, _MEDIA_TYPES[".svg"])
    return Assets(assets, root)
