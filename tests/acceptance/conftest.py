"""One service for all tests that only look; tests that break things start their own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.service import Service, serving
from tests.acceptance.world import World
from tests.parts.postgresql import PostgreSQLServer


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Two workers on SQLite and local disk."""
    world = new_world(tmp_path_factory.mktemp("service"))
    with serving(world) as found:
        yield found


@pytest.fixture(scope="session")
def service_on_postgresql(
    postgresql_server: PostgreSQLServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """Four workers on PostgreSQL and local disk."""
    database = postgresql_server.fresh_database()
    world = new_world(tmp_path_factory.mktemp("service"), postgresql_server.url(database))
    with serving(world, workers=4) as found:
        yield found
    postgresql_server.drop(database)


@pytest.fixture(params=["sqlite", "postgresql"])
def each_service(request: pytest.FixtureRequest) -> Service:
    """The one and the other."""
    found = request.getfixturevalue("service" if request.param == "sqlite" else "service_on_postgresql")
    assert isinstance(found, Service)
    return found


@pytest.fixture
def make_world(tmp_path: Path) -> Callable[[], World]:
    """Makes a world of the test's own."""
    return lambda: new_world(tmp_path)


def new_world(folder: Path, state_url: str | None = None) -> World:
    """A world in a new folder below another; on SQLite in that folder unless an address is given."""
    inside = folder / "world"
    world = World(inside, state_url or f"sqlite:///{inside}/state.db")
    world.make()
    return world
