"""Names under which browsers save files: `acme-members-2026-11-27.csv.gz`.

The last parameter of a download link may contain one. It is not signed, so it is only accepted in this form.
"""

from __future__ import annotations

import re
from datetime import date
from typing import NamedTuple

_NAME = re.compile(r"([a-z0-9-]{1,60})-([a-z_]{1,60})-([0-9]{4}-[0-9]{2}-[0-9]{2})([.][a-z.]{1,30})")


class SavedName(NamedTuple):
    """Account and day of a file, and its own name, such as `members.csv.gz`."""

    account: str
    day: str
    file_name: str

    @property
    def text(self) -> str:
        """The whole name."""
        stem, _, ending = self.file_name.partition(".")
        return f"{self.account}-{stem}-{self.day}.{ending}"


def saved_name(account: str, day: date, file_name: str) -> str:
    """Return the name of a file with its account, in lower-case ASCII, and its day."""
    return SavedName(account, f"{day:%Y-%m-%d}", file_name).text


def parse_saved_name(text: str) -> SavedName | None:
    """Return the parts of such a name, None for another text."""
    found = _NAME.fullmatch(text)
    return SavedName(found[1], found[3], found[2] + found[4]) if found is not None else None
