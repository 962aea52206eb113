"""What every test has: loopback only, and real servers on request (see tests/parts)."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, Verbosity, settings

from tests.parts import network_guard

pytest_plugins = [
    "tests.parts.azure",
    "tests.parts.browser",
    "tests.parts.hashing",
    "tests.parts.postgresql",
    "tests.parts.s3",
    "tests.parts.buckets",  # after the parts that it imports: pytest wants to see them first
]

network_guard.install()

# The same examples every time: a machine that is slow or unlucky proves nothing about the code.
settings.register_profile(
    "daybreak",
    deadline=None,
    max_examples=50,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
# A search for new examples, by hand: HYPOTHESIS_PROFILE=explore
settings.register_profile("explore", deadline=None, max_examples=2000, verbosity=Verbosity.normal)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "daybreak"))

# Settings of whoever runs the tests must not reach the programs under test.
for name in [name for name in os.environ if name.startswith(("DAYBREAK_", "PG", "AWS_", "AZURE_", "GOOGLE_"))]:
    del os.environ[name]
os.environ["TZ"] = "UTC"

# Some machines tell Python to forget what it compiled; every server that a test starts would compile itself again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.fixture(scope="session", autouse=True)
def no_logger_is_for_good() -> Iterator[None]:
    """A verb that runs in the process of the tests, in a fixture of a whole module too, sets up the log of that process
    and of every logger that is used from then on. Here no logger keeps what it was set up with.
    """
    configure = structlog.configure

    def configured(**given: Any) -> None:
        configure(**{**given, "cache_logger_on_first_use": False})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structlog, "configure", configured)
        yield


@pytest.fixture(autouse=True)
def every_test_begins_with_the_log_of_the_library() -> None:
    """Whatever a test or a fixture before it set up."""
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def project_folder() -> Path:
    """The root of the checkout."""
    return Path(__file__).parent.parent
