"""Row accounting of single accounts, for their statements."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from daybreak.catalogue.written_sums import KEYS, ROWS
from daybreak.proof.accounting import WrittenFigures
from daybreak.proof.queries import FIGURES, SourceRow
from daybreak.proof.rules import Identity
from daybreak.proof.statement import completeness_of

_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class _Table:
    """Figures of a source table for a resource, by the place of the account: rows that are kept in the source, exported
    and excluded, sums of columns, and figures of source and files that are not equal for all accounts.
    """

    resource: str
    table: str
    kept: Sequence[int]
    exported: Sequence[int]
    excluded: Sequence[tuple[str, Sequence[int]]]
    sums: Sequence[tuple[str, Sequence[int]]]
    differing: Sequence[tuple[Sequence[int], Sequence[int]]]

    def account(self, place: int) -> dict[str, Any]:
        """Return the account of the table for a statement."""
        excluded = {rule: rows for rule, values in self.excluded if (rows := values[place])}
        account: dict[str, Any] = {
            "source": self.kept[place] + sum(excluded.values()),
            "exported": self.exported[place],
            "excluded": excluded,
        }
        if self.sums:
            account["sums"] = {figure: values[place] for figure, values in self.sums}
        return account


class AccountRows:
    """Source rows by account, table and rule: 8 bytes each, because there may be 100,000 accounts."""

    def __init__(self, written: WrittenFigures, identities: Iterable[Identity]) -> None:
        self._written = written
        self._identities = {(each.resource, each.table): each for each in identities}
        self._rows: dict[tuple[str, str], dict[str, array[int]]] = {each: {} for each in self._identities}
        self._figures: dict[tuple[str, str, str], array[int]] = {}

    def watch(self, rows: Iterable[SourceRow]) -> Iterator[SourceRow]:
        """Yield the rows, and add those that belong to a known account."""
        for row in rows:
            resource, table, leader, rule, figures = row
            place = None if leader is None else self._written.places.get(leader)
            if place is not None and (resource, table) in self._rows:
                self._add(self._rows[resource, table], rule, place, figures[0])
                if not rule:
                    for name, _ in self._identities[resource, table].compared:
                        self._add(self._figures, (resource, table, name), place, figures[FIGURES.index(name)])
            yield row

    def section(self, client_id: str, statuses: Mapping[str, str]) -> dict[str, Any]:
        """Return the section of the account's statement, after all rows. `statuses` are those of all accounts
        together.
        """
        place = self._written.places[client_id]
        tables: dict[str, dict[str, dict[str, Any]]] = {}
        own = {**statuses, **self._own_statuses}
        for each in self._tables:
            tables.setdefault(each.resource, {})[each.table] = each.account(place)
            for source, written in each.differing:
                if source[place] != written[place]:
                    own[each.resource] = "unexplained"
        return completeness_of(tables, own)

    @cached_property
    def _own_statuses(self) -> Mapping[str, str]:
        return {each.resource: each.status for each in self._identities.values()}

    @cached_property
    def _tables(self) -> list[_Table]:
        """The figures of each table, looked up once for all accounts."""
        none = array("Q", bytes(8 * len(self._written.places)))
        found = []
        for (resource, table), by_rule in self._rows.items():
            identity = self._identities[resource, table]
            kept = by_rule.get("", none)
            of = partial(self._written.of, resource)
            found.append(
                _Table(
                    resource,
                    table,
                    kept,
                    kept if identity.exported is None else of(identity.exported),
                    [(rule, values) for rule, values in by_rule.items() if rule],
                    [
                        (figure, of(figure))
                        for _, figure in identity.compared
                        if figure not in (ROWS, KEYS, identity.exported)
                    ],
                    [
                        (source, written)
                        for name, figure in identity.compared
                        if (source := self._figures.get((resource, table, name), none)) != (written := of(figure))
                    ],
                )
            )
        return found

    def _add(self, arrays: dict[Any, array[int]], key: object, place: int, value: int) -> None:
        if not value:
            return
        values = arrays.get(key)
        if values is None:
            values = arrays[key] = array("Q", bytes(8 * len(self._written.places)))
        values[place] = (values[place] + value) % _MODULUS
