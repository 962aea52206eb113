"""Whether the platform still has a Member. The next run would export it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from daybreak.domain.identity import is_id
from daybreak.sources.reading import DirectorySource

_DELETED = "deleted"
_OTHER_TABLES = ("member_state_changes", "member_term_accepts", "custom_field_values", "community_memberships")


@dataclass(frozen=True, slots=True)
class MemberInSource:
    """What the platform has of a Member. `tables` are those with rows that the next run exports."""

    state: Literal["absent", "deleted", "present"]
    tables: tuple[str, ...] = ()


def member_in_source(source: DirectorySource, member_id: str) -> MemberInSource:
    """Return whether the tables of the platform have a Member, and whether `members` marks it as deleted: then runs
    export its rows without personal data. `member_id` is a UUID in lower case. Raises SourceError.
    """
    if not is_id(member_id):
        raise ValueError("a MEMBER_ID is a UUID in lower case")
    # The identifier may be a UUID or a text, also without dashes. `concat` converts both in every engine.
    digits = "replace(replace(replace(lower(concat(member_id, '')), '-', ''), '{', ''), '}', '')"
    condition = f"WHERE {digits} = '{member_id.replace('-', '')}'"
    state = "concat(subscription_state, '') AS state"
    selects = [f"SELECT DISTINCT 'members' AS found_in, {state} FROM members {condition}"]  # noqa: S608 - a UUID
    selects += (
        f"SELECT DISTINCT '{table}', '' FROM {table} {condition}"  # noqa: S608 - a UUID
        for table in _OTHER_TABLES
    )
    rows = source.query(" UNION ALL ".join(selects))
    found = {row["found_in"] for row in rows}
    if {row["state"] for row in rows if row["found_in"] == "members"} == {_DELETED}:
        return MemberInSource("deleted")
    tables = tuple(table for table in ("members", *_OTHER_TABLES) if table in found)
    return MemberInSource("present" if tables else "absent", tables)
