"""Configuration of all tests: loopback only, reproducible examples, a clean environment."""

import atexit
import gc
import os
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.parts import network_guard, shared_statements

pytest_plugins = [
    "tests.parts.azure",
    "tests.parts.browser",
    "tests.parts.image",
    "tests.parts.postgresql",
    "tests.parts.pgbouncer",  # after postgresql, which it imports
    "tests.parts.s3",
    "tests.parts.buckets",  # after azure and s3, which it imports: pytest must rewrite their asserts first
]

network_guard.install()
shared_statements.install()

# If jsonschema finds this package, it compiles 38 grammars in four seconds. No schema of the tests has the format IRI.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# The default profile runs the same examples everywhere. Deadlines are off: a slow machine is not a defect.
_SUPPRESSED_HEALTH_CHECKS = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "fixed",
    deadline=None,
    max_examples=15,
    derandomize=True,
    database=None,
    suppress_health_check=_SUPPRESSED_HEALTH_CHECKS,
)
# `make test-random` searches for new examples. A failure prints a line that reproduces it.
settings.register_profile(
    "random",
    deadline=None,
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "400")),
    derandomize=False,
    database=None,
    print_blob=True,
    suppress_health_check=_SUPPRESSED_HEALTH_CHECKS,
)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "fixed")
settings.load_profile(_PROFILE)
if _PROFILE == "fixed":
    # Constants of all loaded modules would make examples depend on the other tests of a process, and take a second.
    providers._get_local_constants = lambda: providers._local_constants

# Without configuration, structlog prints the variables of every function of a traceback, which takes a second.
structlog.get_config()["processors"][-1].exception_formatter = structlog.dev.plain_traceback

# Settings of the person who runs the tests must not affect the programs under test.
for name in [name for name in os.environ if name.startswith(("DAYBREAK_", "PG", "AWS_", "AZURE_", "GOOGLE_"))]:
    del os.environ[name]
os.environ["TZ"] = "UTC"

# The service syncs its files after each commit, which takes milliseconds on a disk. Tests also run programs there.
_MEMORY, _MEMORY_BYTES = "/dev/shm", 4 << 30
if "TMPDIR" not in os.environ and Path(_MEMORY).is_dir():
    _space = os.statvfs(_MEMORY)
    if _space.f_bavail * _space.f_frsize > _MEMORY_BYTES and not _space.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = _MEMORY

# Without compiled modules every server that a test starts would compile itself again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude modules and tests from garbage collection: each full collection would visit all of them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # Otherwise DuckDB reports the objects that it finds at the exit. Not earlier: pytest collects ten times.
        atexit.register(gc.unfreeze)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests of Spark, so that one process runs them: a Java virtual machine is slow at first."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run asynchronous tests with asyncio, as the service runs."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def uncached_loggers() -> Iterator[None]:
    """Keep loggers reconfigurable.

    A command that runs in the test process configures structlog. With caching, loggers used afterwards would keep
    that configuration for all later tests.
    """
    configure = structlog.configure

    def configure_uncached(**options: Any) -> None:
        configure(**{**options, "cache_logger_on_first_use": False})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structlog, "configure", configure_uncached)
        yield


@pytest.fixture(autouse=True)
def default_logging() -> None:
    """Undo the structlog configuration of earlier tests and fixtures."""
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def project_folder() -> Path:
    """Return the root of the checkout."""
    return Path(__file__).parent.parent
