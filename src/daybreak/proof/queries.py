"""SQL of row accounting: each query reads a source table once, and counts its rows by account and rule.

The SQL has the same meaning in every engine, except for the sum over keys. A query returns rows of resource, table,
leader_id, rule and FIGURES. `leader_id` is NULL for rows of no account, `rule` is "" for exported rows. Rows are
grouped before they are joined.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.key_sql import KEY_SQL, KeySql, in_range
from daybreak.catalogue.models import as_of_literal
from daybreak.catalogue.resources import resource_named
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.catalogue.written_sums import KEY_PARTS
from daybreak.sources.reading import Reading

FIGURES = ("rows", "keys", "segments", "units")
"""The sums of every result, in order, after resource, table, leader_id and rule."""
SUM_MODULUS = 1 << 64
"""Modulus of sums. Those over keys are between -2^63 and 2^63."""

SourceRow = tuple[str, str, str | None, str, int, int, int, int]
"""Resource, table, account (None for rows of no account), rule ("" for exported rows) and FIGURES."""

ANOMALY = "anomaly"
"""The value of `resource` of counted anomalies. `table` is then the code."""
NEWEST = "newest"
"""The value of `resource` of a table's newest instant up to that of the snapshot. `rows` is then its microseconds since
1970.
"""


TEXT_TYPES: Mapping[str, str] = {"duckdb": "VARCHAR", "postgresql": "text", "spark": "STRING"}
"""The type of text by the value of `source.engine`."""
ID_TYPES: Mapping[str, str] = {"duckdb": "UUID", "postgresql": "uuid", "spark": "STRING"}
"""The type of identifiers by the value of `source.engine`."""


class RowQuery(NamedTuple):
    """SQL for each row of a table as leader_id, rule, row_key and value. A rule is "" for exported rows, or a number of
    `steps`, the names of rules of an own model.
    """

    sql: str
    steps: tuple[str, ...] = ()


def queries(engine: str, as_of: datetime, accounted: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the table that each query counts, and the query. `accounted` are the resources of shipped models."""
    sql = _Queries(KEY_SQL[engine], as_of_literal(as_of))
    yield "leaders", sql.leaders()
    for resource, table, instant, recent in _PLAIN:
        if resource in accounted:
            yield table, sql.plain(resource, table, instant, recent=recent)
    if accounted & {"campaigns", "outbound_message_type_usage"}:
        yield "outbound_messages", sql.outbound_messages(accounted)
    if "campaigns" in accounted:
        yield "inbound_messages", sql.inbound_messages()
    if "member_term_accepts" in accounted:
        yield "member_term_accepts", sql.unknown_terms()
    if "campaign_links" in accounted:
        yield "campaign_links", sql.campaign_links()
        yield "link_hits", sql.link_hits()
    if "member_communities" in accounted:
        yield "community_memberships", sql.community_memberships()


def row_query(engine: str, as_of: datetime, resource: str, table: str, key: str, value: str = "1") -> RowQuery:
    """Return the query of each row of a table for a shipped model. `key` and `value` are SQL over the columns `t`."""
    return RowQuery(_Queries(KEY_SQL[engine], as_of_literal(as_of)).rows(resource, table, key, value))


def id_text(engine: str, identifier: str) -> str:
    """Return SQL for an identifier as text in lower case."""
    return f"lower(CAST(CAST({identifier} AS {ID_TYPES[engine]}) AS {TEXT_TYPES[engine]}))"


def key_text(engine: str, parts: Sequence[tuple[ColumnType, str]]) -> str:
    """Return SQL for a key as text, from the types of its parts and their SQL. Texts are only in it as numbers."""
    text, number = TEXT_TYPES[engine], KEY_SQL[engine].text
    values = {
        ColumnType.UUID: id_text(engine, "{0}"),
        ColumnType.TEXT: f"CAST({number} AS {text})",
        ColumnType.DATE: f"CAST(CAST({{0}} AS DATE) AS {text})",
        ColumnType.TIMESTAMP: f"CAST(CAST({{0}} AS TIMESTAMP) AS {text})",
    }
    return " || '|' || ".join(f"coalesce({values[kind].format(value)}, 'NULL')" for kind, value in parts)


def read_rows(reading: Reading, engine: str, subject: str, sql: str) -> Iterator[SourceRow]:
    """Yield the rows of a query. `subject` begins the message of a SourceError."""
    # A UUID object takes as long as the rest of a row.
    leader_id = f"CAST(leader_id AS {TEXT_TYPES[engine]}) AS leader_id"
    found = reading.source_rows(
        subject, f"SELECT resource, source_table, {leader_id}, rule, n, k, s, u FROM ({sql}) AS counted"
    )
    for resource, name, leader, rule, n, k, s, u in cast("Iterable[tuple[Any, ...]]", found):
        yield resource, name, leader, rule, int(n or 0), int(k or 0), int(s or 0), int(u or 0)


_PLAIN = (
    ("members", "members", None, False),
    ("member_state_changes", "member_state_changes", "state_changed_at", False),
    ("custom_member_data", "custom_field_values", None, False),
    ("member_term_accepts", "member_term_accepts", "accepted_at", True),
    ("communities", "communities", None, False),
    ("campaigns", "campaigns", "sent_at", False),
)
"""Resource, table, its instant, and whether 90 days are exported."""


class _Queries:
    """The queries of one engine, as of an instant (SQL)."""

    def __init__(self, keys: KeySql, as_of: str) -> None:
        self._keys, self._as_of = keys, as_of

    def leaders(self) -> str:
        """Count the rows of `leaders`, and references of Leaders to unknown ones."""
        unknown = (
            "leaders AS l LEFT JOIN leaders AS other ON other.leader_id = l.{0} "
            "WHERE l.{0} IS NOT NULL AND other.leader_id IS NULL"
        )
        counted = (
            "SELECT 'leaders' AS resource, 'leaders' AS source_table, NULL AS leader_id, rule, COUNT(*) AS n, 0 AS k, "
            "0 AS s, 0 AS u FROM (SELECT CASE WHEN leader_id IS NULL THEN 'no_leader' ELSE '' END AS rule "
            "FROM leaders) AS counted GROUP BY rule"
        )
        parts = [counted]
        for code, column in (
            ("unknown_parent", "parent_leader_id"), ("unknown_billing_entity", "billing_entity_leader_id")
        ):  # fmt: skip
            parts.append(_anomaly(code, "COUNT(*)", unknown.format(column)))
        return " UNION ALL ".join(parts)

    def plain(self, resource: str, table: str, instant: str | None, *, recent: bool) -> str:
        """Count a table of which each row is a row of the resource."""
        parts = [
            (column.type, column.name.lower()) for column in map(resource_named(resource).column, KEY_PARTS[resource])
        ]
        keys = f", {self._keys.sum(parts)} AS k"
        if instant is None:
            grouped = (
                f"SELECT leader_id, '' AS rule, COUNT(*) AS n{keys}, 0 AS s, 0 AS u FROM {table} GROUP BY leader_id"
            )
            return by_account(resource, table, grouped)
        classed = self._classed(table, instant, "leader_id", keys, recent=recent)
        found = by_account(resource, table, "SELECT leader_id, rule, n, k, 0 AS s, 0 AS u FROM classed")
        return f"WITH {classed} {found}" if recent else f"WITH {classed} {found} UNION ALL {self._newest(table)}"

    def unknown_terms(self) -> str:
        """Count acceptances of unknown terms."""
        accepted = "SELECT term_id, COUNT(*) AS n FROM member_term_accepts GROUP BY term_id"
        unknown = (
            f"(SELECT a.n FROM ({accepted}) AS a LEFT JOIN terms AS t ON t.term_id = a.term_id WHERE t.term_id IS NULL)"
        )
        return _anomaly("unknown_term", "COALESCE(SUM(n), 0)", f"{unknown} AS unknown_terms")

    def outbound_messages(self, accounted: frozenset[str]) -> str:
        """Count messages for two resources, grouped once."""
        nulls = _nulls("segment_count", "unit_count", "member_id")
        sums = f", SUM(segment_count) AS s, SUM(unit_count) AS u{nulls}"
        classed = self._classed("outbound_messages", "sent_at", "leader_id, campaign_id", sums)
        parts = []
        if "outbound_message_type_usage" in accounted:
            grouped = (
                "SELECT leader_id, rule, SUM(n) AS n, 0 AS k, SUM(s) AS s, SUM(u) AS u FROM classed "
                "GROUP BY leader_id, rule"
            )
            parts.append(by_account("outbound_message_type_usage", "outbound_messages", grouped, is_summed=True))
        with_clause = f"WITH {classed}"
        if "campaigns" in accounted:
            with_clause = f"WITH {_ONE_CAMPAIGN}, {classed}"
            by_campaign = self._by_campaign("s", "u")
            parts.append(by_account("campaigns", "outbound_messages", by_campaign, is_summed=True))
            parts.append(_anomaly("other_leader", "COALESCE(SUM(m.n), 0)", _OTHER_LEADER))
        for code, column in (
            ("null_segment_count", "segment_count"), ("null_unit_count", "unit_count"), ("null_recipient", "member_id")
        ):  # fmt: skip
            parts.append(_anomaly(code, f"COALESCE(SUM(null_{column}), 0)", "classed"))
        parts.append(self._newest("outbound_messages"))
        return f"{with_clause} {' UNION ALL '.join(parts)}"

    def inbound_messages(self) -> str:
        """Count replies."""
        nulls = _nulls("member_id", "is_stop")
        classed = self._classed("inbound_messages", "received_at", "leader_id, campaign_id", nulls)
        parts = [
            by_account("campaigns", "inbound_messages", self._by_campaign("0", "0")),
            _anomaly("other_leader_of_reply", "COALESCE(SUM(m.n), 0)", _OTHER_LEADER),
            _anomaly("null_sender", "COALESCE(SUM(null_member_id), 0)", "classed"),
            _anomaly("null_is_stop", "COALESCE(SUM(null_is_stop), 0)", "classed"),
            self._newest("inbound_messages"),
        ]
        return f"WITH {_ONE_CAMPAIGN}, {classed} {' UNION ALL '.join(parts)}"

    def campaign_links(self) -> str:
        """Count links. Links of a campaign with the same type and URL are one row."""
        number = self._keys.number(
            [(ColumnType.UUID, "campaign_id"), (ColumnType.TEXT, "link_type"), (ColumnType.TEXT, "link_url")]
        )
        grouped = (
            "SELECT c.leader_id, COALESCE(NULLIF(" + self._campaign_rule("g.campaign_id", no_campaign=False) + ", ''), "
            "kind.rule) AS rule, CASE WHEN kind.rule = '' THEN 1 ELSE g.n - 1 END AS n, CASE WHEN kind.rule = '' THEN "
            "g.k ELSE 0 END AS k, 0 AS s, 0 AS u "
            f"FROM (SELECT campaign_id, COUNT(*) AS n, {number} AS k FROM campaign_links "
            "GROUP BY campaign_id, link_type, link_url) AS g LEFT JOIN one_campaign AS c "
            f"ON c.campaign_id = g.campaign_id JOIN {_KINDS} ON kind.rule = '' OR g.n > 1"
        )
        return f"WITH {_ONE_CAMPAIGN} {by_account('campaign_links', 'campaign_links', grouped, self._keys)}"

    def link_hits(self) -> str:
        """Count hits."""
        grouped = (
            "SELECT c.leader_id, CASE WHEN h.rule <> '' THEN h.rule WHEN l.link_id IS NULL THEN 'unknown_link' "
            f"ELSE {self._campaign_rule('l.campaign_id')} END AS rule, h.n, 0 AS k, 0 AS s, 0 AS u "
            "FROM classed AS h LEFT JOIN one_link AS l ON l.link_id = h.link_id "
            "LEFT JOIN one_campaign AS c ON c.campaign_id = l.campaign_id"
        )
        with_clause = f"WITH {_ONE_CAMPAIGN}, {_ONE_LINK}, {self._classed('link_hits', 'hit_at', 'link_id', '')}"
        found = by_account("campaign_links", "link_hits", grouped)
        return f"{with_clause} {found} UNION ALL {self._newest('link_hits')}"

    def community_memberships(self) -> str:
        """Count memberships. The rows of a Member that belongs to a community are one row."""
        number = self._keys.number([(ColumnType.UUID, "community_id"), (ColumnType.UUID, "member_id")])
        ended = f"left_at <= {self._as_of}"
        classed = (
            f"SELECT community_id, member_id, CASE WHEN {ended} THEN 1 ELSE 0 END AS ended, CASE WHEN joined_at <= "
            f"{self._as_of} THEN 0 WHEN {ended} THEN 1 WHEN joined_at IS NULL THEN 2 ELSE 3 END AS place "
            "FROM community_memberships"
        )
        pairs = (
            "SELECT community_id, member_id, COUNT(*) AS n, CASE WHEN place = 0 THEN MIN(ended) ELSE place END AS "
            f"place FROM ({classed}) AS c GROUP BY community_id, member_id, place"
        )
        communities = (
            f"SELECT community_id, place, COUNT(*) AS pairs, SUM(n) AS n, {self._keys.total.format(number)} AS k "
            f"FROM ({pairs}) AS p GROUP BY community_id, place"
        )
        grouped = (
            "SELECT c.leader_id, CASE m.place WHEN 1 THEN 'left' WHEN 2 THEN 'no_instant' WHEN 3 THEN 'after_as_of' "
            "ELSE CASE WHEN c.community_id IS NULL THEN 'unknown_community' ELSE kind.rule END END AS rule, "
            "CASE WHEN m.place > 0 THEN m.n WHEN kind.rule = '' THEN m.pairs ELSE m.n - m.pairs END AS n, "
            "CASE WHEN kind.rule = '' THEN m.k ELSE 0 END AS k, 0 AS s, 0 AS u "
            f"FROM ({communities}) AS m JOIN {_KINDS} ON kind.rule = '' OR (m.place = 0 AND m.n > m.pairs) "
            "LEFT JOIN one_community AS c ON c.community_id = m.community_id"
        )
        return f"WITH {_ONE_COMMUNITY} {by_account('member_communities', 'community_memberships', grouped)}"

    def rows(self, resource: str, table: str, key: str, value: str) -> str:
        """Return each row with its key, its value and its rule. No row is merged into another."""
        instant = next(each.instant for each in SOURCE_TABLES if each.name == table)
        left = f"WHEN t.left_at <= {self._as_of} THEN 'left' " if table == "community_memberships" else ""
        older = f"WHEN t.{instant} < {self._as_of} - INTERVAL '90' DAY THEN 'older_than_90_days' "
        time = (
            f"CASE {left}WHEN t.{instant} IS NULL THEN 'no_instant' WHEN t.{instant} > {self._as_of} THEN "
            f"'after_as_of' {older if table == 'member_term_accepts' else ''}ELSE '' END"
        )
        leader, parent, joined, items = "t.leader_id", "''", "", []
        of_campaign = " LEFT JOIN one_campaign AS c ON c.campaign_id = "
        if table == "community_memberships":
            leader, parent = "c.leader_id", "CASE WHEN c.community_id IS NULL THEN 'unknown_community' ELSE '' END"
            joined, items = " LEFT JOIN one_community AS c ON c.community_id = t.community_id", [_ONE_COMMUNITY]
        elif table == "link_hits":
            rule = self._campaign_rule("k.campaign_id")
            leader, parent = "c.leader_id", f"CASE WHEN k.link_id IS NULL THEN 'unknown_link' ELSE {rule} END"
            joined = f" LEFT JOIN one_link AS k ON k.link_id = t.link_id{of_campaign}k.campaign_id"
            items = [_ONE_LINK, _ONE_CAMPAIGN]
        elif table == "campaign_links":
            leader, parent = "c.leader_id", self._campaign_rule("t.campaign_id", no_campaign=False)
            joined, items = f"{of_campaign}t.campaign_id", [_ONE_CAMPAIGN]
        elif resource == "campaigns" and table != "campaigns":
            leader = "CASE WHEN c.campaign_id IS NULL THEN t.leader_id ELSE c.leader_id END"
            parent = self._campaign_rule("t.campaign_id")
            joined, items = f"{of_campaign}t.campaign_id", [_ONE_CAMPAIGN]
        return (
            f"{'WITH ' if items else ''}{', '.join(items)} SELECT {leader} AS leader_id, {key} AS row_key, {value} AS "
            f"value, COALESCE(NULLIF({time if instant else parent}, ''), {parent}) AS rule FROM {table} AS t{joined}"
        )

    def _classed(self, table: str, instant: str, columns: str, sums: str, *, recent: bool = False) -> str:
        """Return the item `classed` of a WITH clause: the rows by these columns and the rule that the instant implies,
        with their number `n`, the `newest` instant, and `sums`.
        """
        older = f"WHEN {instant} < {self._as_of} - INTERVAL '90' DAY THEN 3 " if recent else ""
        # Numbers take less time to group than texts.
        place = f"CASE WHEN {instant} IS NULL THEN 1 WHEN {instant} > {self._as_of} THEN 2 {older}ELSE 0 END"
        return (
            "classed AS (SELECT g.*, CASE place WHEN 1 THEN 'no_instant' WHEN 2 THEN 'after_as_of' WHEN 3 THEN "
            f"'older_than_90_days' ELSE '' END AS rule FROM (SELECT {columns}, place, COUNT(*) AS n, MAX({instant}) AS "
            f"newest{sums} FROM (SELECT *, {place} AS place FROM {table}) AS m GROUP BY {columns}, place) AS g)"
        )

    def _newest(self, table: str) -> str:
        """Return the newest instant of `classed`. There is none without rows, or before year 1."""
        newest = self._keys.instant.format("MAX(newest)")
        of = f"classed WHERE rule = '' AND {in_range('newest', 'TIMESTAMP')} HAVING COUNT(*) > 0"
        return _figure(NEWEST, table, newest, of)

    def _campaign_rule(self, campaign_id: str, *, no_campaign: bool = True) -> str:
        """Return the rule that the campaign `c` of a row implies, "" for none."""
        none = f"WHEN {campaign_id} IS NULL THEN 'no_campaign' " if no_campaign else ""
        return (
            f"CASE {none}WHEN c.campaign_id IS NULL THEN 'unknown_campaign' WHEN c.sent_at IS NULL THEN "
            f"'campaign_no_instant' WHEN c.sent_at > {self._as_of} THEN 'campaign_after_as_of' ELSE '' END"
        )

    def _by_campaign(self, segments: str, units: str) -> str:
        """Return the messages of `classed` by the Leader of their campaign."""
        s, u = (value if value == "0" else f"m.{value}" for value in (segments, units))
        return (
            "SELECT CASE WHEN c.campaign_id IS NULL THEN m.leader_id ELSE c.leader_id END AS leader_id, "
            f"CASE WHEN m.rule <> '' THEN m.rule ELSE {self._campaign_rule('m.campaign_id')} END AS rule, "
            f"m.n AS n, 0 AS k, {s} AS s, {u} AS u "
            "FROM classed AS m LEFT JOIN one_campaign AS c ON c.campaign_id = m.campaign_id"
        )


def _one(name: str, table: str, key: str, values: str) -> str:
    """Return an item of a WITH clause with one row of a table for each key: the first by its other columns."""
    return (
        f"{name} AS (SELECT {key}, {values} FROM (SELECT {key}, {values}, ROW_NUMBER() OVER (PARTITION BY {key} "
        f"ORDER BY {values}) AS place FROM {table} WHERE {key} IS NOT NULL) AS numbered WHERE place = 1)"
    )


_ONE_CAMPAIGN = _one("one_campaign", "campaigns", "campaign_id", "sent_at, leader_id")
_ONE_LINK = _one("one_link", "campaign_links", "link_id", "campaign_id")
_ONE_COMMUNITY = _one("one_community", "communities", "community_id", "leader_id")
_KINDS = "(SELECT '' AS rule UNION ALL SELECT 'merged' AS rule) AS kind"
_OTHER_LEADER = (
    "classed AS m JOIN one_campaign AS c ON c.campaign_id = m.campaign_id WHERE m.rule = '' AND "
    "(m.leader_id <> c.leader_id OR (m.leader_id IS NULL) <> (c.leader_id IS NULL))"
)


def by_account(resource: str, table: str, grouped: str, keys: KeySql | None = None, *, is_summed: bool = False) -> str:
    """Return the query of an identity. `grouped` has leader_id, rule, and sums n, k, s and u, of which s and u are 0
    without `is_summed`.
    """
    rule = (
        "CASE WHEN g.rule NOT IN ('', 'merged') THEN g.rule WHEN g.leader_id IS NULL THEN 'no_leader' "
        "WHEN l.leader_id IS NULL THEN 'unknown_leader' ELSE g.rule END"
    )
    # Drivers convert numbers of 64 bits several times as fast as larger ones.
    half = SUM_MODULUS // 2
    key_sum = f"({keys.total.format('k') if keys else 'SUM(k)'} + {half}) % {SUM_MODULUS} - {half}"
    sums = "CAST(SUM(s) AS BIGINT) AS s, CAST(SUM(u) AS BIGINT) AS u" if is_summed else "0 AS s, 0 AS u"
    return (
        f"SELECT '{resource}' AS resource, '{table}' AS source_table, leader AS leader_id, rule, "
        f"CAST(SUM(n) AS BIGINT) AS n, CAST({key_sum} AS BIGINT) AS k, {sums} "
        f"FROM (SELECT l.leader_id AS leader, {rule} AS rule, g.n, g.k, g.s, g.u FROM ({grouped}) AS g "
        "LEFT JOIN leaders AS l ON l.leader_id = g.leader_id) AS accounts GROUP BY leader, rule"
    )


def _anomaly(code: str, count: str, item: str) -> str:
    return _figure(ANOMALY, code, count, item)


def _figure(resource: str, name: str, number: str, item: str) -> str:
    return (
        f"SELECT '{resource}' AS resource, '{name}' AS source_table, NULL AS leader_id, '' AS rule, "
        f"{number} AS n, 0 AS k, 0 AS s, 0 AS u FROM {item}"
    )


def _nulls(*columns: str) -> str:
    """Return counts of NULLs. A difference of counts takes a third of the time of a sum over conditions."""
    return "".join(f", COUNT(*) - COUNT({column}) AS null_{column}" for column in columns)
