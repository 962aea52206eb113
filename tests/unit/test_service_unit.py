"""The systemd units in docs/how-to/operations.md."""

from configparser import ConfigParser
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/how-to/operations.md"
# systemd gives up on a unit after five starts in ten seconds (DefaultStartLimitBurst, DefaultStartLimitIntervalSec).
MAX_STARTS, INTERVAL_SECONDS = 5, 10


@pytest.mark.parametrize("command", ["web", "builder"])
def test_unit_restarts_until_the_database_is_available(command: str) -> None:
    (text,) = [
        block.partition("```")[0]
        for block in PAGE.read_text("utf-8").split("```ini\n")[1:]
        if f"daybreakd {command} " in block
    ]
    unit = ConfigParser(interpolation=None)
    unit.read_string(text)
    service = unit["Service"]
    assert service["Restart"] == "always"
    assert float(service.get("RestartSec", "0.1")) * MAX_STARTS > INTERVAL_SECONDS
