"""The block of the page on operations as it stands there, in a real nginx before the service."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter

from tests.acceptance.conftest import new_world
from tests.acceptance.service import AUTH, PATIENCE_SECONDS, Service, serving
from tests.acceptance.world import MAYA, NORTH, PASSWORD
from tests.parts.certificates import own_certificate
from tests.parts.presence import absent
from tests.parts.processes import running
from tests.parts.waiting import free_port, wait_until

PAGE = Path(__file__).parents[2] / "docs/operations.md"
# Not the usual address of this machine, which is the proxy's.
CLIENT = "127.0.0.3"


class _FromTheClient(HTTPAdapter):
    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options, source_address=(CLIENT, 0))


@dataclass(frozen=True)
class Front:
    """The service, and a client whose requests all go through nginx."""

    service: Service
    client: requests.Session

    def request(self, method: str, url: str, **options: Any) -> requests.Response:
        """`url` may be a path."""
        url = url if url.startswith("https") else self.service.base_url + url
        return self.client.request(method, url, timeout=PATIENCE_SECONDS, allow_redirects=False, **options)

    def log_in(self) -> str:
        found = self.request("POST", f"{AUTH}/login", json={"email": MAYA, "password": PASSWORD})
        assert found.status_code == 200, found.text
        token: str = found.json()["token"]
        return token


def configuration(folder: Path, port: int, upstream: int) -> str:
    """The server of the page, with this test's ports and certificate."""
    server = PAGE.read_text("utf-8").split("```nginx\n")[1].split("```")[0]
    for theirs, ours in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("127.0.0.1:8400", f"127.0.0.1:{upstream}"),
        ("# ssl_certificate ...", f"ssl_certificate {folder}/own.pem; ssl_certificate_key {folder}/own.pem;"),
    ):
        assert theirs in server
        server = server.replace(theirs, ours)
    bodies = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("proxy", "client_body"))
    return (
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ {bodies} access_log {folder}/access.log;\n{server}}}\n"
    )


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        absent("nginx", "it is in the Debian package nginx-light")
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    own_certificate(folder / "own.pem")
    settings = {
        "base_url": f"https://127.0.0.1:{port}",
        "require_https": True,
        "trusted_proxies": ["127.0.0.1"],
    }
    with serving(new_world(tmp_path_factory.mktemp("fronted")), settings=settings) as service:
        (folder / "nginx.conf").write_text(configuration(folder, port, service.port))
        command: list[str | Path] = [program, "-e", folder / "error.log", "-p", folder, "-c", folder / "nginx.conf"]
        with running(command) as nginx, requests.Session() as client:
            client.mount("https://", _FromTheClient())
            client.verify, client.trust_env = str(folder / "own.pem"), False
            found = Front(service, client)

            def ready() -> bool:
                assert nginx.alive(), nginx.log()
                return found.request("GET", "/readyz").ok

            wait_until(ready, what="an answer through nginx")
            yield found


def test_a_file_comes_through_as_it_is(front: Front) -> None:
    asked = front.request(
        "GET", f"/download/v1/files/{NORTH}/members.csv.gz", headers={"Authorization": f"Bearer {front.log_in()}"}
    )
    assert asked.status_code == 302, asked.text
    link, told = asked.headers["Location"], asked.json()["data"]
    assert link.startswith(front.service.base_url)
    whole = front.request("GET", link)
    assert (len(whole.content), hashlib.sha256(whole.content).hexdigest()) == (told["bytes"], told["sha256"])
    assert whole.headers["Content-Type"] == "application/gzip"
    assert "Content-Encoding" not in whole.headers

    head = front.request("HEAD", link)
    own = {"Date", "X-Request-Id"}
    assert {name: value for name, value in head.headers.items() if name.title() not in own} == {
        name: value for name, value in whole.headers.items() if name.title() not in own
    }
    part = front.request("GET", link, headers={"Range": "bytes=100-", "If-Range": whole.headers["ETag"]})
    assert (part.status_code, part.content) == (206, whole.content[100:])
    assert front.request("GET", link, headers={"If-None-Match": whole.headers["ETag"]}).status_code == 304
    text = front.request("GET", link, headers={"Accept": "text/csv", "Accept-Encoding": "gzip"}, stream=True)
    assert text.headers["Content-Encoding"] == "gzip"
    assert text.raw.read(decode_content=False) == whole.content, "packed once"


def test_the_service_knows_who_asks(front: Front) -> None:
    found = front.request("GET", "/nowhere", headers={"X-Forwarded-For": "203.0.113.5", "X-Request-Id": "made-up-0123"})
    request_id = found.headers["X-Request-Id"]
    assert request_id != "made-up-0123"
    (line,) = wait_until(
        lambda: [line for line in front.service.log_lines() if line.get("request_id") == request_id],
        what="the line of the request",
    )
    assert line["address"] == CLIENT
