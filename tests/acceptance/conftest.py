"""Services shared by tests that leave them unchanged. Other tests start their own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.installation import Installation
from tests.acceptance.service import Service, serving
from tests.parts.postgresql import PostgreSQLServer
from tests.parts.variants import one_of


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Return a service with two workers on SQLite and local disk."""
    installation = new_installation(tmp_path_factory.mktemp("service"))
    with serving(installation) as found:
        yield found


@pytest.fixture(scope="session")
def service_on_postgresql(
    postgresql_server: PostgreSQLServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """Return a service with four workers on PostgreSQL and local disk."""
    database = postgresql_server.fresh_database()
    installation = new_installation(tmp_path_factory.mktemp("service"), postgresql_server.url(database))
    with serving(installation, workers=4) as found:
        yield found
    postgresql_server.drop(database)


@pytest.fixture(params=one_of("sqlite", "postgresql"))
def each_service(request: pytest.FixtureRequest) -> Service:
    """Run the test on each state database."""
    found = request.getfixturevalue("service" if request.param == "sqlite" else "service_on_postgresql")
    assert isinstance(found, Service)
    return found


@pytest.fixture
def make_installation(tmp_path: Path) -> Callable[[], Installation]:
    """Return a function that creates an installation for one test."""
    return lambda: new_installation(tmp_path)


def new_installation(folder: Path, state_url: str | None = None, **options: Any) -> Installation:
    """Create an installation in a new folder inside `folder`, on SQLite in that folder unless a URL is passed.

    The options are those of `Installation`.
    """
    inside = folder / "installation"
    installation = Installation(inside, state_url or f"sqlite:///{inside}/state.db", **options)
    installation.create()
    return installation
