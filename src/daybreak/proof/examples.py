"""Examples for findings of row accounting: the key of one row that the files lack, or have in addition, and of one row
that a rule excludes.

A table without findings is not queried, the others once for their rules and once for each figure that differs. Keys are
shown without texts of the source, which may be about persons.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from msgspec import structs

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import resource_named
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.catalogue.written_sums import KEY_PARTS, KEYS, ROWS
from daybreak.domain.errors import SourceError
from daybreak.domain.run_report import Accounting, Finding, TableAccount, Unexplained
from daybreak.proof.own_models import OwnModel
from daybreak.proof.queries import RowQuery, id_text, key_text, row_query
from daybreak.proof.rules import IDENTITIES
from daybreak.sources.dialects import spark_sql
from daybreak.sources.reading import Reading

Parts = Sequence[tuple[ColumnType, str]]
"""Types and names of the columns of a key."""

_DAY = (ColumnType.DATE, "DATE_DAY")
_CAMPAIGN = (ColumnType.UUID, "CAMPAIGN_ID")
_SUMMED_BY: Mapping[str, tuple[tuple[ColumnType, str], str]] = {
    "outbound_message_type_usage": (_DAY, "t.sent_at"),
    "campaigns": (_CAMPAIGN, "t.campaign_id"),
    "campaign_links": (_CAMPAIGN, "k.campaign_id"),
}
"""The column of the file by which differing sums are compared, and its SQL, by resource."""
_MERGED = frozenset({"campaign_links", "community_memberships"})
"""Tables of which several rows with the same key are one row of the file."""
_COMPARED = frozenset((each.resource, each.table) for each in IDENTITIES if (KEYS, KEYS) in each.compared)


def add_examples(
    reading: Reading,
    engine: str,
    as_of: datetime,
    accounting: Accounting,
    own: Iterable[OwnModel],
    findings: Iterable[Finding],
    watch: Callable[[], None],
) -> Accounting:
    """Add examples for the accounts that differ, and for the rules of `findings`. `watch` is called before each query,
    and may raise. A query that fails adds none.
    """
    examples = _Examples(reading, engine, as_of, {each.resource: each.examined for each in own}, watch)
    rules = {(finding.resource, finding.column) for finding in findings if finding.kind == "rule"}
    return structs.replace(
        accounting,
        tables=tuple(
            structs.replace(
                table,
                unexplained=tuple(examples.of_accounts(table)),
                examples=examples.of_rules(table, [r for r in table.excluded if (table.resource, r) in rules]),
            )
            for table in accounting.tables
        ),
    )


class _Examples:
    def __init__(
        self,
        reading: Reading,
        engine: str,
        as_of: datetime,
        own: Mapping[str, RowQuery | None],
        watch: Callable[[], None],
    ) -> None:
        self._reading, self._engine, self._as_of, self._own, self._watch = reading, engine, as_of, own, watch

    def of_rules(self, table: TableAccount, rules: Collection[str]) -> dict[str, str]:
        """Return the key of one excluded row by rule."""
        found = dict(table.examples)
        parts = _key_of(table)
        query = self._source(table, parts) if parts and set(rules) - found.keys() else None
        if query is None:
            return found
        named = {str(query.steps.index(rule)) if rule in query.steps else rule: rule for rule in rules}
        wanted = ", ".join(f"'{rule}'" for rule in named)
        of_table = [(kind, name.lower()) for kind, name in parts]
        sql = f"SELECT rule, MIN(row_key) FROM ({self._ruled(query)}) AS r WHERE rule IN ({wanted}) GROUP BY rule"
        return found | {named[rule]: _shown(of_table, key) for rule, key in self._rows(table, sql)}

    def of_accounts(self, table: TableAccount) -> Iterator[Unexplained]:
        """Yield the accounts that differ, with the first key that differs."""
        found: dict[str, dict[str, str]] = {}
        for each in table.unexplained:
            figure = ROWS if each.figure == KEYS else each.figure
            if figure not in found:
                clients = [other.client_id for other in table.unexplained if other.figure in {figure, each.figure}]
                found[figure] = self._differing(table, figure, clients)
            yield structs.replace(each, example=found[figure].get(each.client_id, ""))

    def _differing(self, table: TableAccount, figure: str, clients: Collection[str]) -> dict[str, str]:
        """Return a sentence about a key by account: EXCEPT ALL between source and model, in both directions."""
        parts = _key_of(table) if figure == ROWS else [_SUMMED_BY[table.resource][0]]
        source = self._source(table, parts, "" if figure == ROWS else figure)
        if source is None:
            return {}
        distinct = "DISTINCT " if figure == ROWS and table.table in _MERGED else ""
        those = ", ".join(f"'{client_id}'" for client_id in clients)
        both = (
            f"SELECT {distinct}account, row_key, value AS s, 0 AS w FROM ({self._ruled(source)}) AS kept "
            f"WHERE rule = '' AND account IN ({those}) UNION ALL "
            f"SELECT account, row_key, 0 AS s, value AS w FROM ({self._model(table.resource, parts, figure)}) AS rows "
            f"WHERE account IN ({those})"
        )
        differing = (
            "SELECT account, row_key, SUM(s) AS source, SUM(w) AS written, ROW_NUMBER() OVER "
            f"(PARTITION BY account ORDER BY row_key) AS place FROM ({both}) AS both_sides "
            "GROUP BY account, row_key HAVING SUM(s) <> SUM(w)"
        )
        rows = self._rows(table, f"SELECT account, row_key, source, written FROM ({differing}) AS d WHERE place = 1")
        return {
            account: _sentence(_shown(parts, key), table.table, figure, int(s), int(w)) for account, key, s, w in rows
        }

    def _source(self, table: TableAccount, parts: Parts, figure: str = "") -> RowQuery | None:
        """Return the query of the rows of a table, None if their keys are not compared."""
        if table.resource in self._own:
            return None if figure else self._own[table.resource]
        columns = next(each.columns for each in SOURCE_TABLES if each.name == table.table)
        counted = figure.lower() in {column.name for column in columns}
        value = f"coalesce(t.{figure.lower()}, 0)" if counted else "1"
        of_table = [(kind, f"t.{name.lower()}") for kind, name in parts]
        key = key_text(self._engine, [(parts[0][0], _SUMMED_BY[table.resource][1])] if figure else of_table)
        return row_query(self._engine, self._as_of, table.resource, table.table, key, value)

    def _ruled(self, query: RowQuery) -> str:
        """Return the rows of a query with the rules that their Leader implies, as row accounting counts them."""
        leader = id_text(self._engine, "l.leader_id")
        return (
            f"SELECT {leader} AS account, row_key, value, CASE WHEN rule <> '' THEN rule WHEN "
            "g.leader_id IS NULL THEN 'no_leader' WHEN l.leader_id IS NULL THEN 'unknown_leader' ELSE '' END AS rule "
            f"FROM ({query.sql}) AS g LEFT JOIN leaders AS l ON l.leader_id = g.leader_id"
        )

    def _model(self, resource: str, parts: Parts, figure: str) -> str:
        """Return the rows of a model, which are those of the files, with the parts of a key."""
        model, quote = self._reading.models[resource], "`" if self._engine == "spark" else '"'
        sql = model.at(self._as_of)
        if self._engine == "spark" and model.shipped:
            sql = spark_sql(sql)
        key = key_text(self._engine, [(kind, f"m.{quote}{name}{quote}") for kind, name in parts])
        value = "1" if figure == ROWS else f"m.{quote}{figure}{quote}"
        leader = id_text(self._engine, f"m.{quote}LEADER_ID{quote}")
        return f"SELECT {leader} AS account, {key} AS row_key, {value} AS value FROM ({sql}) AS m"

    def _rows(self, table: TableAccount, sql: str) -> list[tuple[Any, ...]]:
        self._watch()
        try:
            found = self._reading.source_rows(f"Examples of {table.table}", sql)
            return cast("list[tuple[Any, ...]]", list(found))
        except SourceError:
            # The run does not depend on examples. If the source is lost, its next step fails.
            return []


def _key_of(table: TableAccount) -> Parts:
    """Return the columns of the key of a row of the table, none for table `leaders`."""
    if (table.resource, table.table) in _COMPARED:
        return [(resource_named(table.resource).column(name).type, name) for name in KEY_PARTS[table.resource]]
    names = {
        "outbound_messages": ("message_id",),
        "inbound_messages": ("message_id",),
        "link_hits": ("link_id", "hit_at"),
    }
    columns = {column.name: column for each in SOURCE_TABLES if each.name == table.table for column in each.columns}
    return [(columns[name].type, name) for name in names.get(table.table, ())]


def _shown(parts: Parts, key: str) -> str:
    """Return a key from the result of `key_text`, without its texts."""
    values = zip(parts, key.split("|"), strict=True)
    return ", ".join(f"{name} {value}" for (kind, name), value in values if kind is not ColumnType.TEXT)


def _sentence(key: str, table: str, figure: str, source: int, written: int) -> str:
    if figure == ROWS and not written:
        return f"{key} is in {table}, not in the file"
    if figure == ROWS and not source:
        return f"{key} is in the file, but excluded or missing in {table}"
    return f"{key}: {written:,} {'rows' if figure == ROWS else f'in {figure}'}, but {source:,} in {table}"
