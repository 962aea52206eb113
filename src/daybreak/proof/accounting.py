"""Row accounting: every row of the source is in a file of its account, or excluded by a named rule.

The source's figures come from the same consistent reading as the files. The files' figures are those of the rows that
were written.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.catalogue.written_sums import ROWS, figure_names
from daybreak.domain.run_report import Accounting, Status, TableAccount, Unexplained
from daybreak.proof.own_models import OwnModel
from daybreak.proof.queries import ANOMALY, FIGURES, NEWEST, SUM_MODULUS, SourceRow, queries, read_rows
from daybreak.proof.rules import FAULTS, IDENTITIES, RULES, Identity
from daybreak.sources.malformed import MalformedRows
from daybreak.sources.reading import Reading

_EXAMPLES = 20
_LEADERS = Identity("leaders", "leaders")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class WrittenFigures:
    """Figures of the written files by resource and Leader: 8 bytes each, because there may be 100,000 Leaders."""

    def __init__(self, leaders: Sequence[str]) -> None:
        self.places = {leader: place for place, leader in enumerate(leaders)}
        self._figures: defaultdict[tuple[str, str], array[int]] = defaultdict(
            lambda: array("Q", bytes(8 * len(leaders)))
        )

    def add_rows(self, resource: str, rows: Iterable[tuple[str, int]]) -> None:
        """Add the rows of a resource of some Leaders."""
        written = self._figures[resource, ROWS]
        for client_id, count in rows:
            written[self.places[client_id]] = count

    def add_sums(self, resource: str, sums: Mapping[str, Sequence[int]]) -> None:
        """Add the sums of a resource by Leader: those of `figure_names`."""
        written = [self._figures[resource, name] for name in figure_names(resource)]
        for client_id, own in sums.items():
            place = self.places[client_id]
            for values, value in zip(written, own, strict=True):
                values[place] = value % SUM_MODULUS

    def of(self, resource: str, figure: str) -> Sequence[int]:
        """Return one figure of all Leaders, in the order of `places`."""
        return self._figures[resource, figure]


class SourceFigures:
    """Figures of the source by identity, rule and Leader: 8 bytes each, because there may be 100,000 Leaders.

    `rows` are those of known Leaders by rule, `of_no_account` the others, both by resource and table. `newest` has the
    newest instant of each table.
    """

    def __init__(self, leaders: Collection[str], identities: Iterable[Identity]) -> None:
        self.identities = tuple(identities)
        self.rows: dict[tuple[str, str], dict[str, array[int]]] = defaultdict(dict)
        self.of_no_account: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.anomalies: dict[str, int] = {}
        self.newest: dict[str, datetime] = {}
        self.none = array("Q", bytes(8 * len(leaders)))
        self._places = {leader: place for place, leader in enumerate(leaders)}
        self._sums: dict[tuple[str, str, str], array[int]] = {}

    def add(self, found: Iterable[SourceRow]) -> None:
        """Add rows of the queries."""
        places, sums = self._places, cache(self._sums_under)
        for resource, table, leader, rule, *figures in found:
            if leader is not None:
                place = places[leader]
                for number, values in sums(resource, table, rule):
                    values[place] = (values[place] + figures[number]) % SUM_MODULUS
            elif resource == ANOMALY:
                if figures[0]:
                    self.anomalies[table] = figures[0]
            elif resource == NEWEST:
                self.newest[table] = _EPOCH + timedelta(microseconds=figures[0])
            else:
                self.of_no_account[resource, table][rule] += figures[0]

    def _sums_under(self, resource: str, table: str, rule: str) -> list[tuple[int, array[int]]]:
        """Return the numbers of the figures to add under a rule, with their sums by place of the Leader."""
        found = [(0, self.rows[resource, table].setdefault(rule, self.none[:]))]
        for identity in self.identities:
            if not rule and (identity.resource, identity.table) == (resource, table):
                for name, _ in identity.compared:
                    if name != ROWS:
                        values = self._sums.setdefault((resource, table, name), self.none[:])
                        found.append((FIGURES.index(name), values))
        return found

    def compared(
        self, identity: Identity, written: WrittenFigures
    ) -> Iterator[tuple[str, Sequence[int], Sequence[int]]]:
        """Yield each compared figure of the files, with its values in the source and in the files."""
        resource, table = identity.resource, identity.table
        for name, figure in identity.compared:
            found = self.rows[resource, table].get("") if name == ROWS else self._sums.get((resource, table, name))
            yield figure, self.none if found is None else found, written.of(resource, figure)


def source_rows(
    reading: Reading, engine: str, as_of: datetime, accounted: Collection[str], watch: Callable[[], None]
) -> Iterable[SourceRow]:
    """Yield the rows of all queries. `watch` is called between queries, and may raise."""
    for table, sql in queries(engine, as_of, frozenset(accounted)):
        watch()
        yield from read_rows(reading, engine, f"Row accounting of {table}", sql)


def identities_of(accounted: Collection[str], own: Iterable[OwnModel]) -> tuple[Identity, ...]:
    """Return the identities of shipped models (`accounted`) and of own models."""
    return (
        *(identity for identity in IDENTITIES if identity.resource in accounted),
        *(model.identity for model in own if model.identity is not None),
    )


def account(source: SourceFigures, written: WrittenFigures, malformed: Sequence[MalformedRows] = ()) -> Accounting:
    """Compare the source's rows with the written files. The queries do not see the `malformed` rows."""
    tables = tuple(_table_account(each, source, written, malformed) for each in (_LEADERS, *source.identities))
    statuses: dict[str, Status] = dict.fromkeys(RESOURCE_NAMES, "unaccounted")
    statuses |= {each.resource: each.status for each in source.identities}
    statuses |= {table.resource: "unexplained" for table in tables if table.unexplained}
    return Accounting(tables, source.anomalies, statuses, tuple(each.text for each in malformed))


def _table_account(
    identity: Identity, source: SourceFigures, written: WrittenFigures, malformed: Sequence[MalformedRows]
) -> TableAccount:
    key, clients, unexplained, count = (identity.resource, identity.table), list(written.places), [], 0
    for figure, kept, files in source.compared(identity, written):
        # Most are equal: compiled code compares the arrays.
        places = range(len(clients)) if files != kept else ()
        differing = [place for place in places if files[place] != kept[place]]
        count += len(differing)
        unexplained += [
            Unexplained(clients[place], figure, kept[place], files[place]) for place in differing[:_EXAMPLES]
        ]
    refused = [each for each in malformed if each.table == identity.table]
    by_rule = source.rows[key]
    of_no_account = source.of_no_account[key] + Counter(malformed=sum(each.rows for each in refused))
    totals = Counter({rule: sum(rows) for rule, rows in by_rule.items()}) + of_no_account
    exported = totals.pop("", 0)
    all_rows = exported + totals.total()
    if identity.exported:
        exported = sum(written.of(identity.resource, identity.exported))
    named = totals.keys() - (RULES.keys() - FAULTS)
    most = {rule: max(rows) for rule, rows in by_rule.items() if rule in named}
    return TableAccount(
        resource=identity.resource,
        table=identity.table,
        source=all_rows,
        exported=exported,
        excluded=_in_order(totals),
        of_no_account=_in_order({rule: rows for rule, rows in of_no_account.items() if rule}),
        most={rule: (clients[by_rule[rule].index(rows)], rows) for rule, rows in most.items()},
        unexplained=tuple(unexplained[:_EXAMPLES]),
        unexplained_accounts=count,
        examples={"malformed": refused[0].key} if refused else {},
    )


def _in_order(rows: Mapping[str, int]) -> dict[str, int]:
    """Return rows by rule: the rules of shipped models in order, then those of own models."""
    return {rule: rows[rule] for rule in (*RULES, *sorted(rows.keys() - RULES.keys())) if rule in rows}
