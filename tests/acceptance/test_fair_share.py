"""Requests that take long: 320 of one account do not keep another account waiting."""

import re
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from daybreak.web.streams import MAX_STREAMS
from tests.acceptance.browser import signed_in
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import FOREIGN, FREYA, MAYA, NORTH
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving

REQUESTS = 320
# North's members are too large for the buffers of a connection, so these responses wait for their readers.
STREAMS = ("files/all.zip?format=csv", "files/all.zip?format=excel", "files/members/spreadsheet-safe.csv")
PATHS = (
    *STREAMS,
    "activity.csv",
    "files/communities/workbook.xlsx",
    "files/members/preview",
    "activity?actor=a{number}",
    "insight/campaigns?search={number}",
)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with one worker, and files of North that are larger than the buffers of a connection."""
    installation = new_installation(tmp_path_factory.mktemp("fair"), large_rows=17_000)
    with serving(installation, workers=1) as found:
        yield found


@pytest.mark.release
def test_another_account_is_answered(large: Service) -> None:
    """The clients of the first account read nothing until the other account has all its answers."""
    maya, freya = signed_in(large, MAYA), signed_in(large, FREYA)
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in maya.session.cookies)
    requested = [PATHS[number % len(PATHS)] for number in range(REQUESTS)]
    with maya, freya, ExitStack() as connections:
        opened = []
        for number, path in enumerate(requested):
            target = f"/dashboard/{NORTH}/{path.format(number=number)}"
            connection = connections.enter_context(socket.create_connection(("127.0.0.1", large.port)))
            connection.settimeout(PATIENCE_SECONDS)
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\nCookie: {cookies}\r\n\r\n".encode())
            opened.append(connection)
        answers = {path: freya.get(f"/dashboard/{FOREIGN}/{path.format(number=1)}") for path in PATHS}
        heads = [connection.recv(4096) for connection in opened]
    assert {path: answer.status_code for path, answer in answers.items()} == dict.fromkeys(PATHS, 200)
    statuses = [head.split()[1] for head in heads]
    assert set(statuses) == {b"200", b"503"}
    assert all(re.search(rb"\r\nretry-after: \d+\r\n", head) for head in heads if head.startswith(b"HTTP/1.1 503 "))
    accepted = Counter(path for path, status in zip(requested, statuses, strict=True) if status == b"200")
    assert 0 < sum(accepted[path] for path in STREAMS) <= MAX_STREAMS // 2
