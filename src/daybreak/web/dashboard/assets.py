"""Style, scripts and icon: read once, compressed once, served under a name that holds their digest.

So a browser may keep them for ever, and a new version is another address.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from daybreak.web.negotiation import takes_gzip

_FOLDER = Path(__file__).parent / "static"
_FILES = {
    "daybreak.css": ("daybreak.css", "text/css; charset=utf-8"),
    "daybreak.js": ("daybreak.js", "text/javascript; charset=utf-8"),
    "favicon.svg": ("favicon.svg", "image/svg+xml"),
    "htmx.js": ("vendor/htmx-4.0.1.min.js", "text/javascript; charset=utf-8"),
    "uplot.js": ("vendor/uplot-1.6.32.iife.min.js", "text/javascript; charset=utf-8"),
    "uplot.css": ("vendor/uplot-1.6.32.min.css", "text/css; charset=utf-8"),
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, plain and compressed, with its media type and the digest in its address."""

    name: str
    media_type: str
    content: bytes
    compressed: bytes
    digest: str


def load_assets() -> dict[str, Asset]:
    """Every asset by its name."""
    assets = {}
    for name, (path, media_type) in _FILES.items():
        content = (_FOLDER / path).read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:16]
        assets[name] = Asset(name, media_type, content, gzip.compress(content, 9, mtime=0), digest)
    return assets


def asset_response(assets: Mapping[str, Asset], request: Request) -> Response:
    """The asset of the path; 404 for an unknown name or another version's digest."""
    asset = assets.get(request.path_params["name"])
    if asset is None or asset.digest != request.path_params["digest"]:
        return Response("not found\n", 404, media_type="text/plain", headers={"Cache-Control": "no-store"})
    packed = takes_gzip(request.headers.getlist("accept-encoding"))
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable",
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
    }
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(asset.compressed if packed else asset.content, headers=headers, media_type=asset.media_type)
