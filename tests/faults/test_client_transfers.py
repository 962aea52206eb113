"""Client downloads over an unreliable connection: local copies always equal the published files."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybreak_client import Daybreak, Unreachable, connection, folder
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import MAYA, NORTH
from tests.acceptance.service import Service, serving
from tests.faults.fault_proxy import Fault, FaultProxy, fault_proxy
from tests.parts.ports import free_port

LINKS = b"/download/v1/links/"


@pytest.fixture(autouse=True)
def short_retry_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(folder, "_FIRST_WAIT_SECONDS", 0.01)


@pytest.fixture(scope="module")
def proxied_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, FaultProxy]]:
    """A service behind the proxy. Its links also go through the proxy."""
    installation = new_installation(tmp_path_factory.mktemp("service"))
    with (
        fault_proxy("127.0.0.1", free_port()) as proxy,
        serving(installation, workers=1, settings={"base_url": proxy.endpoint}) as service,
    ):
        proxy.target = ("127.0.0.1", service.port)
        yield service, proxy


@pytest.mark.parametrize(
    "faults",
    [
        [Fault("cut", 3000, LINKS)] * 12,
        [Fault("reset", 30, LINKS)] * 3,
        [Fault("status", 503, LINKS)] * 3,
        [Fault("damage", 2500, b"/members.csv.gz?")],
        [Fault("cut", 100), Fault("status", 502), Fault("reset", 40), Fault("cut", 700, LINKS)],
    ],
    ids=["cut", "reset", "busy", "damaged", "everywhere"],
)
def test_fetch_recovers_from_transfer_faults(
    proxied_service: tuple[Service, FaultProxy], tmp_path: Path, faults: list[Fault]
) -> None:
    service, proxy = proxied_service
    proxy.faults, proxy.faulted = [], 0
    with Daybreak(proxy.endpoint, service.token(MAYA, NORTH)) as maya:
        account = maya.account(NORTH)
        proxy.faults = list(faults)
        fetched = account.fetch(tmp_path)
    assert proxy.faulted == len(faults)
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.glob("*.gz")} == {
        file.name: file.sha256 for file in fetched.files
    }
    assert len(fetched.files) == 9


def test_failed_fetch_keeps_the_local_copies(proxied_service: tuple[Service, FaultProxy], tmp_path: Path) -> None:
    service, proxy = proxied_service
    proxy.faults = []
    (tmp_path / "members.csv.gz").write_bytes(b"yesterday's file")
    with Daybreak(proxy.endpoint, service.token(MAYA, NORTH)) as maya:
        account = maya.account(NORTH)
        proxy.forever = Fault("cut", 0, LINKS)
        with pytest.raises(Unreachable):
            account.fetch(tmp_path)
        proxy.forever = None
        assert (tmp_path / "members.csv.gz").read_bytes() == b"yesterday's file"
        assert len(account.fetch(tmp_path).downloaded) == 9
