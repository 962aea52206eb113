"""Row accounting: every row of the source is in a file of its account, or excluded by a named rule.

The source's figures come from the same consistent reading as the files. The files' figures are those of the rows that
were written.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.catalogue.written_sums import ROWS, figure_names
from daybreak.domain.run_report import Accounting, Status, TableAccount, Unexplained
from daybreak.proof.own_models import OwnModel
from daybreak.proof.queries import ANOMALY, FIGURES, SourceRow, figures_of, queries
from daybreak.proof.rules import IDENTITIES, RULES, Identity
from daybreak.sources.malformed import MalformedRows
from daybreak.sources.reading import Reading

_MODULUS = 1 << 64
_EXAMPLES = 20


class WrittenFigures:
    """Figures of the written files by resource and Leader: 8 bytes each, because there may be 100,000 Leaders."""

    def __init__(self, leaders: Sequence[str]) -> None:
        self.places = {leader: place for place, leader in enumerate(leaders)}
        self._figures: dict[tuple[str, str], array[int]] = {}

    def add(self, resource: str, rows: Iterable[tuple[str, int]], sums: Mapping[str, Sequence[int]]) -> None:
        """Add the rows and the sums of a resource by Leader. The sums are those of `figure_names`."""
        names = figure_names(resource)
        written = {name: array("Q", bytes(8 * len(self.places))) for name in (ROWS, *names)}
        for client_id, count in rows:
            written[ROWS][self.places[client_id]] = count
        for client_id, values in sums.items():
            place = self.places[client_id]
            for name, value in zip(names, values, strict=True):
                written[name][place] = value % _MODULUS
        self._figures.update(((resource, name), values) for name, values in written.items())

    def of(self, resource: str, figure: str) -> Sequence[int]:
        """Return one figure of all Leaders, in the order of `places`."""
        return self._figures[resource, figure]


def source_rows(
    reading: Reading, engine: str, as_of: datetime, accounted: Collection[str], watch: Callable[[], None]
) -> Iterable[SourceRow]:
    """Yield the rows of all queries. `watch` is called between queries, and may raise."""
    for table, sql in queries(engine, as_of, frozenset(accounted)):
        watch()
        yield from figures_of(reading.source_rows(f"Row accounting of {table}", sql))


def identities_of(accounted: Collection[str], own: Iterable[OwnModel]) -> tuple[Identity, ...]:
    """Return the identities of shipped models (`accounted`) and of own models."""
    return (
        *(identity for identity in IDENTITIES if identity.resource in accounted),
        *(model.identity for model in own if model.identity is not None),
    )


def account(
    rows: Iterable[SourceRow],
    written: WrittenFigures,
    identities: Iterable[Identity],
    malformed: Sequence[MalformedRows] = (),
) -> Accounting:
    """Compare the source's rows with the written files. The queries do not see the `malformed` rows."""
    totals = {(identity.resource, identity.table): _Totals(identity, len(written.places)) for identity in identities}
    leaders = _Totals(Identity("leaders", "leaders"), 0)
    anomalies: dict[str, int] = {}
    for resource, table, leader, rule, figures in rows:
        if resource == ANOMALY:
            if figures[0]:
                anomalies[table] = figures[0]
        elif resource == "leaders":
            leaders.add(None, rule, figures)
        else:
            totals[resource, table].add(None if leader is None else written.places[leader], rule, figures)
    for one in (leaders, *totals.values()):
        for refused in malformed:
            if refused.table == one.identity.table:
                one.add(None, "malformed", (refused.rows,))
    tables = tuple(one.account(written) for one in (leaders, *totals.values()))
    faulty = {table.resource for table in tables if table.unexplained}

    statuses: dict[str, Status] = dict.fromkeys(RESOURCE_NAMES, "unaccounted")
    statuses |= {one.identity.resource: one.identity.status for one in totals.values()}
    statuses |= dict.fromkeys(faulty, "unexplained")
    return Accounting(tables, anomalies, statuses, tuple(each.text for each in malformed))


@dataclass(slots=True)
class _Totals:
    """Totals of one identity. `expected` has the figures that files should have, by figure and place of the Leader."""

    identity: Identity
    leaders: int
    source: int = 0
    excluded: dict[str, int] = field(default_factory=dict)
    of_no_account: dict[str, int] = field(default_factory=dict)
    most: dict[str, tuple[int, int]] = field(default_factory=dict)
    expected: dict[str, array[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.expected = {name: array("Q", bytes(8 * self.leaders)) for name, _ in self.identity.compared}

    def add(self, place: int | None, rule: str, figures: tuple[int, ...]) -> None:
        rows = figures[0]
        if not rows:
            return
        self.source += rows
        if rule:
            self.excluded[rule] = self.excluded.get(rule, 0) + rows
            if place is None:
                self.of_no_account[rule] = self.of_no_account.get(rule, 0) + rows
            elif rows > self.most.get(rule, (0, 0))[1]:
                self.most[rule] = place, rows
        elif place is not None:
            for name, values in self.expected.items():
                values[place] = (values[place] + figures[FIGURES.index(name)]) % _MODULUS

    def account(self, written: WrittenFigures) -> TableAccount:
        """Return the account of the table."""
        resource, unexplained, count = self.identity.resource, [], 0
        clients = list(written.places)
        for name, figure in self.identity.compared:
            files, source = written.of(resource, figure), self.expected[name]
            # Most are equal: compiled code compares the arrays.
            places = range(self.leaders) if files != source else ()
            differing = [place for place in places if files[place] != source[place]]
            count += len(differing)
            unexplained += [
                Unexplained(clients[place], figure, source[place], files[place]) for place in differing[:_EXAMPLES]
            ]
        exported = self.source - sum(self.excluded.values())
        if self.identity.exported:
            exported = sum(written.of(resource, self.identity.exported))
        return TableAccount(
            resource=resource,
            table=self.identity.table,
            source=self.source,
            exported=exported,
            excluded=_in_order(self.excluded),
            of_no_account=_in_order(self.of_no_account),
            most={rule: (clients[place], rows) for rule, (place, rows) in self.most.items() if rule not in RULES},
            unexplained=tuple(unexplained[:_EXAMPLES]),
            unexplained_accounts=count,
        )


def _in_order(rows: Mapping[str, int]) -> dict[str, int]:
    """Return rows by rule: the rules of shipped models in order, then those of own models."""
    return {rule: rows[rule] for rule in (*RULES, *sorted(rows.keys() - RULES.keys())) if rule in rows}
