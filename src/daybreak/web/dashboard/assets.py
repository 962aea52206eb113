"""Style, scripts and icon: read once, compressed once, served under a name that holds their digest.

So a browser may keep them for ever, and a new version is another address.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

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


def asset_response(assets: dict[str, Asset], request: Request) -> Response:
    """The asset of the path; 404 for an unknown name or another version's digest."""
    asset = assets.get(request.path_params["name"])
    if asset is None or asset.digest != request.path_params["digest"]:
        return Response("not found\n", 404, media_type="text/plain", headers={"Cache-Control": "no-store"})
    packed = accepts_gzip(request)
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable",
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
    }
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(asset.compressed if packed else asset.content, headers=headers, media_type=asset.media_type)


def accepts_gzip(request: Request) -> bool:
    """Whether the client takes gzip (RFC 9110 §12.5.3), a refusal by `q=0` honoured."""
    for part in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
