"""Checks of what the files promise: each row once, and nothing that contradicts another file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import closing

from daybreak.export.engine import engine_faults
from daybreak.export.lines import quoted
from daybreak.ports.sources import EmbeddedReading, ReferentialFault

_HOME = {"MEMBER_ID": "members", "CAMPAIGN_ID": "campaigns", "COMMUNITY_ID": "communities"}
_ONCE = {
    **{home: (column,) for column, home in _HOME.items()},
    "custom_member_data": ("MEMBER_ID", "CUSTOM_FIELD_NAME"),
}
_GUESTS = (
    ("member_state_changes", "MEMBER_ID"),
    ("member_term_accepts", "MEMBER_ID"),
    ("custom_member_data", "MEMBER_ID"),
    ("member_communities", "MEMBER_ID"),
    ("campaign_links", "CAMPAIGN_ID"),
    ("member_communities", "COMMUNITY_ID"),
)


def referential_faults(reading: EmbeddedReading, filled: Collection[str]) -> list[ReferentialFault]:
    """The promises that the rows of known Leaders break, with how many rows and one example. `filled` are the resources
    that have such rows.

    Every MEMBER_ID, CAMPAIGN_ID and COMMUNITY_ID stands once in its home file, and a Member once with each custom
    field; those of other files stand in the same Leader's home file, and each MEMBER_COUNT equals the rows of
    member_communities.
    """
    faults: list[ReferentialFault] = []
    with engine_faults("The referential checks"), closing(reading.cursor()) as cursor:
        cursor.execute(
            "CREATE OR REPLACE TEMP TABLE known_leaders AS SELECT CAST(unnest($1) AS UUID) AS leader_id",
            [reading.leaders()],
        )

        def rows_of(resource: str) -> str:
            return (
                f"(SELECT r.* FROM ({reading.rows(resource)}) AS r "
                f'JOIN known_leaders AS k ON k.leader_id = CAST(r."LEADER_ID" AS UUID))'
            )

        for check, query in reference_checks(rows_of, filled):
            count, example = cursor.execute(query).fetchall()[0]
            if count:
                faults.append(ReferentialFault(check, count, example))
    return faults


def reference_checks(rows_of: Callable[[str], str], filled: Collection[str]) -> Iterator[tuple[str, str]]:
    """Each promise with the query that looks for rows that break it: (how many, one example). Rows that are not there
    break none: of resources that are not `filled` no query is made.

    `rows_of` gives a resource's rows of known Leaders as something to select from. The SQL is
    plain enough for every engine.
    """
    for resource, columns in _ONCE.items():
        if resource not in filled:
            continue
        names = ", ".join(f"h.{quoted(column)}" for column in columns)
        yield (
            f"every {' and '.join(columns)} of {resource} is there once",
            (
                f"SELECT count(*), min(CAST(t.{quoted(columns[0])} AS VARCHAR)) FROM (SELECT {names} "
                f'FROM {rows_of(resource)} AS h GROUP BY h."LEADER_ID", {names} HAVING count(*) > 1) AS t'
            ),
        )
    for guest, column in _GUESTS:
        if guest not in filled:
            continue
        name = quoted(column)
        yield (
            f"every {column} of {guest} is in {_HOME[column]}",
            (
                f"SELECT count(*), min(CAST(g.{name} AS VARCHAR)) FROM {rows_of(guest)} AS g "
                f"LEFT JOIN {rows_of(_HOME[column])} AS h "
                f'ON h.{name} = g.{name} AND h."LEADER_ID" = g."LEADER_ID" '
                f"WHERE h.{name} IS NULL"
            ),
        )
    if "communities" not in filled:
        return
    yield (
        "MEMBER_COUNT of communities equals the rows of member_communities",
        (
            f'SELECT count(*), min(CAST(c."COMMUNITY_ID" AS VARCHAR)) '
            f"FROM {rows_of('communities')} AS c "
            f'LEFT JOIN (SELECT "COMMUNITY_ID", count(*) AS belonging '
            f'FROM {rows_of("member_communities")} AS mc GROUP BY "COMMUNITY_ID") AS m '
            f'ON m."COMMUNITY_ID" = c."COMMUNITY_ID" '
            f'WHERE c."MEMBER_COUNT" <> coalesce(m.belonging, 0)'
        ),
    )
