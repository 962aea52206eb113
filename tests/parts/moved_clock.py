"""Clock of a program, moved ahead of or behind the system clock with libfaketime."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.parts.presence import absent


class MovedClock:
    """The clock of a running program. Every process of the program reads the offset from `file`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = timedelta()

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that make a program follow this clock.

        libfaketime locks a mutex in each call. Granian starts a thread before it forks a second worker, in which a
        mutex that this thread holds would stay locked. So services have one worker.
        """
        return {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DAYBREAK_WORKERS": "1",
        }

    def move(self, offset: str) -> None:
        """Set the offset to real time, such as `+16m`. The change is atomic."""
        new = self._file.with_suffix(".new")
        new.write_text(offset)
        new.replace(self._file)

    def move_to(self, moment: datetime) -> None:
        """Set the clock to `moment`, rounded to a second. The clock continues from there."""
        self._offset = timedelta(seconds=round((moment - datetime.now(UTC)).total_seconds()))
        self.move(f"{self._offset.total_seconds():+.0f}")

    def now(self) -> datetime:
        """Return the time that the program sees after `move_to`."""
        return datetime.now(UTC) + self._offset


def _library() -> Path:
    found = sorted(Path("/usr/lib").rglob("libfaketimeMT.so.1"))
    if not found:
        absent("faketime", "apt-get install faketime")
    return found[0]
