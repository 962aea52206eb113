"""A new service with a generated platform."""

from datetime import UTC, datetime
from pathlib import Path

from daybreak.cli.main import run
from daybreak.demo.directory import DemoDirectory, make_directory
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform

AS_OF = datetime(2026, 11, 20, 4, tzinfo=UTC)


def make_demo_service(folder: Path, *, leaders: int, members: int, messages: int) -> DemoDirectory:
    """Create a platform as of AS_OF in a folder, and a service with its accounts and seats."""
    make_platform(folder / "platform", PlatformSizes(leaders=leaders, members=members, messages=messages), as_of=AS_OF)
    directory = make_directory(folder / "platform", seed=7)
    (folder / "directory.json").write_text(directory.document, "utf-8")
    assert run(["init", str(folder)]) == 0
    assert run(["directory", "import", str(folder / "directory.json"), "-c", str(folder / "daybreak.toml")]) == 0
    return directory
