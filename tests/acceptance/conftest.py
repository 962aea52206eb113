"""One service for all tests that only look; tests that break things start their own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.service import Service, serving
from tests.acceptance.world import World


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Two workers on SQLite and local disk."""
    world = new_world(tmp_path_factory.mktemp("service"))
    with serving(world) as found:
        yield found


@pytest.fixture
def make_world(tmp_path: Path) -> Callable[[], World]:
    """Makes a world of the test's own."""
    return lambda: new_world(tmp_path)


def new_world(folder: Path) -> World:
    """A world in a new folder below another."""
    inside = folder / "world"
    world = World(inside, f"sqlite:///{inside}/state.db")
    world.make()
    return world
