"""Row accounting of an operator's own models: declared by a query of the operator, or derived from the model's SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.key_sql import KEY_SQL
from daybreak.catalogue.models import Model
from daybreak.catalogue.resources import RESOURCE_NAMES, resource_named
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.catalogue.written_sums import KEY_PARTS, KEYS, ROWS
from daybreak.domain.errors import SourceError, SourceUnavailable
from daybreak.domain.run_report import OwnRules, Status
from daybreak.proof.queries import ID_TYPES, TEXT_TYPES, RowQuery, SourceRow, by_account, key_text, read_rows
from daybreak.proof.rules import IDENTITIES, Identity
from daybreak.sources.reading import Reading

if TYPE_CHECKING:
    from daybreak.proof.model_rules import CountableSelect, ModelRules

_ROW_NUMBER: Mapping[str, str] = {"spark": "monotonically_increasing_id()"}
_TABLE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MAX_DECLARED_RULES = 100
_MAX_RULE_NAME = 300
_SHIPPED: Mapping[tuple[str, str], Identity] = {(each.resource, each.table): each for each in IDENTITIES}


@dataclass(frozen=True, slots=True)
class OwnModel:
    """An operator's own model: its rules, and the source rows by account and rule. `identity` is None if the rows are
    not counted, and `fault` is then the reason, if there is one. `examined` has each row for examples, if its key is
    compared.
    """

    resource: str
    rules: tuple[str, ...]
    identity: Identity | None = None
    rows: tuple[SourceRow, ...] = ()
    fault: str = ""
    examined: RowQuery | None = None


def read_own_models(
    reading: Reading, engine: str, as_of: datetime, approved: Mapping[str, Collection[str]], watch: Callable[[], None]
) -> Iterator[OwnModel]:
    """Yield the own models of a reading. `approved` are the rules that the operator approved, by resource. `watch` is
    called before each query, and may raise. Raises SourceError if the operator's own query fails.
    """
    sql = _OwnQueries(engine, as_of)
    for resource in RESOURCE_NAMES:
        model = reading.models.get(resource)
        if model is None or model.shipped:
            continue
        from daybreak.proof.model_rules import rules_of

        watch()
        rules = rules_of(model, engine)
        if model.account is not None:
            yield _declared(reading, resource, model.account, rules, sql)
        elif rules.counted is not None:
            yield _derived(reading, resource, rules, rules.counted, sql, approved.get(resource, ()))
        else:
            yield OwnModel(resource, rules.rules)


def _declared(reading: Reading, resource: str, account: Model, rules: ModelRules, sql: _OwnQueries) -> OwnModel:
    # The account of another table has the name of the resource.
    main = next(each.table for each in IDENTITIES if each.resource == resource)
    reads_main = re.search(rf"\b{main}\b", account.sql, re.IGNORECASE)
    identity = sql.identity(resource, main if reads_main else resource, "declared")
    rows = tuple(read_rows(reading, sql.engine, account.origin, sql.declared(identity, account)))
    rules_found = {row[3] for row in rows}
    if len(rules_found) > _MAX_DECLARED_RULES:
        raise SourceError(f"{account.origin} has more than {_MAX_DECLARED_RULES} rules.")
    if max(map(len, rules_found), default=0) > _MAX_RULE_NAME:
        raise SourceError(f"{account.origin} has a rule whose name has more than {_MAX_RULE_NAME} characters.")
    if any(row[4] < 0 for row in rows):
        raise SourceError(f"{account.origin} has a negative number of rows.")
    return OwnModel(resource, rules.rules, identity, rows)


def _derived(
    reading: Reading,
    resource: str,
    rules: ModelRules,
    select: CountableSelect,
    sql: _OwnQueries,
    approved: Collection[str],
) -> OwnModel:
    identity = sql.identity(resource, rules.table, "derived")
    parts = sql.key_parts(identity, select, approved)
    if parts:
        identity = replace(identity, compared=((ROWS, ROWS), (KEYS, KEYS)))
    try:
        query = sql.derived(identity, select, parts)
        found = tuple(read_rows(reading, sql.engine, f"Row accounting of {resource}", query))
    except SourceUnavailable:
        raise
    except SourceError as error:
        return OwnModel(resource, rules.rules, fault=error.message)
    rows = tuple((*row[:3], select.steps[int(row[3])].rule if row[3].isdigit() else row[3], *row[4:]) for row in found)
    return OwnModel(resource, rules.rules, identity, rows, examined=sql.examined(select, parts) if parts else None)


def own_rules(models: Iterable[OwnModel], approved: Mapping[str, Collection[str]]) -> dict[str, OwnRules]:
    """Return the rules of own models for the report."""
    return {
        model.resource: OwnRules(
            model.rules,
            tuple(rule for rule in model.rules if rule not in approved.get(model.resource, ())),
            model.fault,
        )
        for model in models
    }


class _OwnQueries:
    """The queries of one engine, as of an instant."""

    def __init__(self, engine: str, as_of: datetime) -> None:
        self.engine = engine
        self._as_of = as_of
        self._keys = KEY_SQL[engine]
        self._id, self._text = ID_TYPES[engine], TEXT_TYPES[engine]

    def identity(self, resource: str, table: str, status: Status) -> Identity:
        """Return the identity of a model. A figure that counts the rows of the table in shipped models does so here."""
        name = table.lower() if _TABLE.fullmatch(table.lower()) else resource
        shipped = _SHIPPED.get((resource, name))
        figure = shipped.exported if shipped is not None else None
        return Identity(resource, name, ((ROWS, figure or ROWS),), status)

    def key_parts(
        self, identity: Identity, select: CountableSelect, approved: Collection[str]
    ) -> list[tuple[ColumnType, str]]:
        """Return types and SQL of the parts of a row's key, from the columns of the table. There are none for another
        table than that of the shipped model, and if approved rules compute a column of the key.
        """
        resource = identity.resource
        shipped = _SHIPPED.get((resource, identity.table))
        if shipped is None or KEYS not in dict(shipped.compared):
            return []
        computed = [select.computed[name] for name in KEY_PARTS[resource] if name in select.computed]
        columns = next(table.columns for table in SOURCE_TABLES if table.name == identity.table)
        if (computed and set(computed) <= set(approved)) or not {column.name for column in columns}.issuperset(
            name.lower() for name in KEY_PARTS[resource]
        ):
            return []
        return [
            (resource_named(resource).column(name).type, f"{select.alias}.{name.lower()}")
            for name in KEY_PARTS[resource]
        ]

    def declared(self, identity: Identity, account: Model) -> str:
        """Return the query of an operator's own accounting."""
        grouped = (
            f"SELECT CAST(leader_id AS {self._id}) AS leader_id, COALESCE(CAST(rule AS {self._text}), '') AS rule, "
            f"rows AS n, 0 AS k, 0 AS s, 0 AS u FROM ({account.at(self._as_of)}) AS declared"
        )
        return by_account(identity.resource, identity.table, grouped)

    def derived(self, identity: Identity, select: CountableSelect, parts: Sequence[tuple[ColumnType, str]]) -> str:
        """Return the query that counts each row of the table once, by the rule of `_classed`."""
        grouped = (
            f"{select.with_clause}SELECT CAST(leader AS {self._id}) AS leader_id, {_rule(select)} AS rule, COUNT(*) "
            f"AS n, {self._keys.total.format('row_key')} AS k, 0 AS s, 0 AS u "
            f"FROM ({self._classed(select, self._keys.number(parts))}) AS classed GROUP BY leader, place"
        )
        # The text has the placeholder of the model.
        return Model(identity.resource, by_account(identity.resource, identity.table, grouped), "").at(self._as_of)

    def examined(self, select: CountableSelect, parts: Sequence[tuple[ColumnType, str]]) -> RowQuery:
        """Return the query of each row of the table."""
        rows = (
            f"{select.with_clause}SELECT CAST(leader AS {self._id}) AS leader_id, {_rule(select)} AS rule, row_key, "
            f"1 AS value FROM ({self._classed(select, key_text(self.engine, parts))}) AS classed"
        )
        return RowQuery(Model("", rows, "").at(self._as_of), tuple(step.rule for step in select.steps))

    def _classed(self, select: CountableSelect, key: str) -> str:
        """Return each row of the table once: its `leader`, its `row_key`, and as `place` the number of the first step
        that it fails. A row that is joined to several rows fails the last step that any of them reaches.
        """
        last = len(select.steps)
        place = " ".join(f"WHEN NOT ({step.passes}) THEN {number}" for number, step in enumerate(select.steps))
        item, alias = select.item, select.alias
        if select.joined:
            number = _ROW_NUMBER.get(self.engine, "ROW_NUMBER() OVER ()")
            item = f"(SELECT *, {number} AS daybreak_row FROM {item}) AS {alias}{select.joined}"
        each = (
            f"SELECT {'daybreak_row' if select.joined else '0'} AS daybreak_row, CAST({select.leader} AS {self._text}) "
            f"AS leader, {f'CASE {place} ELSE {last} END' if place else last} AS place, {key or 0} AS row_key "
            f"FROM {item}"
        )
        if not select.joined:
            return each
        return (
            "SELECT MAX(leader) AS leader, MAX(place) AS place, MAX(row_key) AS row_key "
            f"FROM ({each}) AS results GROUP BY daybreak_row"
        )


def _rule(select: CountableSelect) -> str:
    """Return SQL for the number of the step that excludes a row, "" for none."""
    numbered = "".join(f"WHEN {number} THEN '{number}' " for number in range(len(select.steps)))
    return f"CASE place {numbered}ELSE '' END" if numbered else "''"
