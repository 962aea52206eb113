"""The systemd unit of the page on operations."""

from configparser import ConfigParser
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/operations.md"
# systemd's own: a unit that was started five times within ten seconds stays ended for good.
STARTS, WITHIN_SECONDS = 5, 10


def test_a_service_whose_database_comes_up_late_is_started_until_it_is_there() -> None:
    unit = ConfigParser(interpolation=None)
    unit.read_string(PAGE.read_text("utf-8").split("```ini\n")[1].split("```")[0])
    service = unit["Service"]
    assert service["Restart"] == "always"
    assert float(service.get("RestartSec", "0.1")) * STARTS > WITHIN_SECONDS
