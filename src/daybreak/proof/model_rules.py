"""Rules of an operator's own model, read from its SQL: the conditions, inner joins and computed columns that decide
which rows and values its file has. Each rule is named by its SQL.

If each row of the model is a row of one table, a query counts the rows of that table by the rule that excludes them.
Import this module on demand, because it imports sqlglot: see `sources.dialects`.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import sqlglot
from sqlglot import exp

from daybreak.catalogue.models import Model

DIALECTS: Mapping[str, str] = {"duckdb": "duckdb", "postgresql": "postgres", "spark": "spark"}
"""The dialect of sqlglot by the value of `source.engine`."""
_MAX_NAME = 300
_AS_OF = ":as_of"
_CLAUSES = ("distinct", "sample", "pivots", "laterals", "limit", "offset")
"""Clauses of a query, other than conditions, that change its rows."""


@dataclass(frozen=True, slots=True)
class Step:
    """A condition of a row of the counted table: SQL that is true for exported rows, and the name of its rule."""

    rule: str
    passes: str


@dataclass(frozen=True, slots=True)
class CountableSelect:
    """A model of which each row is a row of `table`, as parts of SQL in the dialect of the engine.

    `item` has the rows of the table under `alias`, and `joined` what is joined to them. Joins keep all rows: the
    conditions of `steps` find those without a match. `computed` are the rules of computed columns, by column.
    """

    table: str
    with_clause: str
    item: str
    alias: str
    joined: str
    leader: str
    steps: Sequence[Step]
    computed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ModelRules:
    """The rules of a model. `counted` is None if its rows are not those of one table. `table` is the table in FROM."""

    rules: tuple[str, ...]
    counted: CountableSelect | None = None
    table: str = ""


def rules_of(model: Model, engine: str) -> ModelRules:
    """Return the rules of a model. SQL that sqlglot cannot read, or that is nested too deeply, is one rule."""
    dialect = DIALECTS[engine]
    try:
        tree = sqlglot.parse_one(model.sql, read=dialect)
        # Generators write a placeholder in the notation of a driver.
        for placeholder in list(tree.find_all(exp.Placeholder)):
            placeholder.replace(exp.Var(this=_AS_OF))
        reader = _Reader(dialect)
        return ModelRules(tuple(dict.fromkeys(reader.rules(tree))), reader.counted(tree), reader.table(tree))
    except (sqlglot.errors.SqlglotError, RecursionError):
        return ModelRules((_shortened(" ".join(model.sql.split())),))


@dataclass(frozen=True, slots=True)
class _Reader:
    dialect: str

    def rules(self, query: exp.Expr) -> Iterator[str]:
        """Yield the rules of a query and of the queries that it reads from."""
        for cte in query.args["with_"].expressions if query.args.get("with_") else ():
            yield from self.rules(cte.this)
        if isinstance(query, exp.Table) and _is_part(query):
            yield _shortened(f"FROM {self._sql(query)}")
        elif isinstance(query, exp.Subquery):
            yield from self.rules(query.this)
        elif isinstance(query, exp.SetOperation):
            yield _shortened(f"{query.key.upper()}{'' if query.args.get('distinct') else ' ALL'}")
            yield from self.rules(query.left)
            yield from self.rules(query.right)
        elif isinstance(query, exp.Select):
            yield from self._row_rules(query)
        for name in _CLAUSES if isinstance(query, exp.Query) else ():
            if query.args.get(name) and not (name == "distinct" and isinstance(query, exp.SetOperation)):
                parts = query.args[name]
                yield _shortened(" ".join(map(self._sql, parts if isinstance(parts, list) else [parts])))
        if isinstance(query, exp.Select):
            yield from self._computed(query).values()

    def _row_rules(self, select: exp.Select) -> Iterator[str]:
        """Yield the rules of what a SELECT reads, of its joins and of its conditions."""
        joins = select.args.get("joins") or ()
        for item in (select.args["from_"].this if select.args.get("from_") else None, *(join.this for join in joins)):
            if isinstance(item, exp.Subquery | exp.Table):
                yield from self.rules(item)
        yield from (self._join_rule(join) for join in joins if join.side != "LEFT" or join.kind in {"SEMI", "ANTI"})
        for name in ("where", "having", "qualify"):
            if select.args.get(name):
                conditions = self._conjuncts(select.args[name].this)
                yield from (_shortened(f"{name.upper()} {each}") for each in conditions)

    def counted(self, tree: exp.Expr) -> CountableSelect | None:
        """Return the parts of a query whose rows are those of one table, None for another query."""
        if not isinstance(tree, exp.Select) or not self.table(tree) or _changes_rows(tree):
            return None
        leader = next((each for each in tree.expressions if each.alias_or_name == "LEADER_ID"), None)
        joins = [self._join(number, join) for number, join in enumerate(tree.args.get("joins") or ())]
        if leader is None or leader.find(exp.Window) or None in joins:
            return None
        found = [join for join in joins if join is not None]
        where = tree.args.get("where")
        conditions = self._conjuncts(where.this) if where else []
        steps = [step for _, step in found if step is not None]
        steps += [Step(_shortened(f"WHERE {each}"), f"COALESCE(({each}), FALSE)") for each in conditions]
        item = tree.args["from_"].this
        return CountableSelect(
            table=self.table(tree),
            with_clause=self._sql(tree.args["with_"]) + " " if tree.args.get("with_") else "",
            item=self._sql(item),
            alias=item.alias_or_name,
            joined="".join(f" {sql}" for sql, _ in found),
            leader=self._sql(leader.unalias()),
            steps=steps,
            computed=self._computed(tree),
        )

    def table(self, tree: exp.Expr) -> str:
        """Return the name of the table in FROM, "" for a query that reads none, or only a part of one."""
        item = tree.args["from_"].this if tree.args.get("from_") else None
        if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Identifier) or _is_part(item):
            return ""
        return "" if item.name in {cte.alias for cte in tree.find_all(exp.CTE)} else item.name

    def _join(self, number: int, join: exp.Join) -> tuple[str, Step | None] | None:
        """Return a join that keeps all rows, and the condition that it finds a row. None if that is not possible."""
        item, kind = join.this, join.kind
        if join.method or join.side not in {"", "LEFT"} or not isinstance(item, exp.Table | exp.Subquery | exp.Values):
            return None
        if join.side == "LEFT" and kind in {"", "OUTER"}:
            return self._sql(join), None
        using = [self._sql(each) for each in join.args.get("using") or ()]
        on = self._sql(join.args["on"]) if join.args.get("on") else "TRUE"
        condition = f"USING ({', '.join(using)})" if using else f"ON {on}"
        columns, alias, marker = "*", item.alias_or_name, f"daybreak_join_{number}"
        if kind in {"SEMI", "ANTI"}:
            # The other columns are not in the scope of the query.
            own = join.args["on"].find_all(exp.Column) if join.args.get("on") else ()
            columns = ", ".join(dict.fromkeys([*using, *(self._sql(c.this) for c in own if c.table == alias)]))
        elif kind not in {"", "INNER", "CROSS"} or not alias:
            return None
        quoted = self._sql(exp.to_identifier(alias))
        joined = f"LEFT JOIN (SELECT {columns}, 1 AS {marker} FROM {self._sql(item)}) AS {quoted} {condition}"
        return joined, Step(self._join_rule(join), f"{marker} IS {'NULL' if kind == 'ANTI' else 'NOT NULL'}")

    def _join_rule(self, join: exp.Join) -> str:
        sql = self._sql(join)
        return _shortened(f"JOIN {sql.removeprefix(',').strip()}" if sql.startswith(",") else sql)

    def _computed(self, select: exp.Expr) -> dict[str, str]:
        """Return the rules of all columns that are not a column of the same name."""
        return {
            each.alias_or_name: _shortened(f"{each.alias_or_name}: {self._sql(each.unalias())}")
            for each in select.expressions
            if isinstance(each, exp.Alias)
            and not (isinstance(each.this, exp.Column) and each.this.name.lower() == each.alias.lower())
        }

    def _conjuncts(self, condition: exp.Expr) -> list[str]:
        whole = condition.unnest()
        if isinstance(whole, exp.And):
            return reduce(lambda found, each: found + self._conjuncts(each), (whole.left, whole.right), list[str]())
        return [self._sql(whole)]

    def _sql(self, node: Any) -> str:
        return str(node.sql(dialect=self.dialect, comments=False)).strip()


def _is_part(table: exp.Expr) -> bool:
    """Return whether a clause changes the rows of a table in FROM, such as ONLY, TABLESAMPLE or VERSION AS OF."""
    return any(value for name, value in table.args.items() if name not in {"this", "db", "catalog", "alias"})


def _changes_rows(select: exp.Expr) -> bool:
    """Return whether the rows of a SELECT are others than those of its tables that its conditions keep."""
    if any(select.args.get(name) for name in ("group", "having", "qualify", *_CLAUSES)):
        return True
    return any(
        found.find_ancestor(exp.Select) is select and not isinstance(found.parent, exp.Window)
        for column in select.expressions
        for found in column.find_all(exp.AggFunc, exp.UDTF)
    )


def _shortened(name: str) -> str:
    if len(name) <= _MAX_NAME:
        return name
    return f"{name[:_MAX_NAME]}... ({hashlib.sha256(name.encode()).hexdigest()[:8]})"
