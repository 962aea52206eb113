"""Whether the platform still has a Member. The next run would export it again."""

from __future__ import annotations

from typing import Literal

from daybreak.domain.identity import is_id
from daybreak.sources.reading import DirectorySource

MemberInSource = Literal["absent", "deleted", "present"]
_DELETED = "deleted"


def member_in_source(source: DirectorySource, member_id: str) -> MemberInSource:
    """Return whether the table `members` of the platform has a Member, and whether it is marked as deleted: then runs
    export it without personal data. `member_id` is a UUID in lower case. Raises SourceError.
    """
    # The identifier may be a UUID or a text. `concat` converts both in every engine.
    if not is_id(member_id):
        raise ValueError("a MEMBER_ID is a UUID in lower case")
    condition = f"lower(concat(member_id, '')) = '{member_id}'"
    rows = source.query(f"SELECT subscription_state FROM members WHERE {condition}")  # noqa: S608 - a UUID
    if not rows:
        return "absent"
    states = {str(value) for row in rows for value in row.values()}
    return "deleted" if states == {_DELETED} else "present"
