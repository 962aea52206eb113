"""Row accounting of single accounts, for their statements."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Any

import msgspec

from daybreak.catalogue.written_sums import KEYS, ROWS
from daybreak.proof.accounting import SourceFigures, WrittenFigures
from daybreak.proof.statement import completeness_of

_CACHED_ACCOUNTS = 1 << 12


@dataclass(frozen=True, slots=True)
class _Table:
    """Figures of a source table for a resource, by the place of the account: rows that are kept in the source, rows
    exported, rows excluded by each rule, and the sums of each column. Rules and columns are sorted JSON texts.
    `differing` are figures of source and files that are not equal for all accounts.
    """

    resource: str
    table: str
    rules: Sequence[str]
    columns: Sequence[str]
    figures: Sequence[Sequence[int]]
    differing: Sequence[tuple[Sequence[int], Sequence[int]]]

    def account(self, values: Sequence[int]) -> str:
        """Return the account of the table for a statement, as JSON with sorted keys, from an account's figures."""
        kept, exported, *excluded = values[: 2 + len(self.rules)]
        rules = ",".join([f"{rule}:{rows}" for rule, rows in zip(self.rules, excluded, strict=True) if rows])
        columns = zip(self.columns, values[2 + len(self.rules) :], strict=True)
        sums = ',"sums":{' + ",".join([f"{column}:{value}" for column, value in columns]) + "}" if self.columns else ""
        return f'{{"excluded":{{{rules}}},"exported":{exported},"source":{kept + sum(excluded)}{sums}}}'


def account_sections(
    source: SourceFigures, written: WrittenFigures, statuses: Mapping[str, str]
) -> Callable[[str], msgspec.Raw]:
    """Return a function that returns the section of an account's statement. `statuses` are those of all accounts
    together.
    """
    own = {**statuses, **{each.resource: each.status for each in source.identities}}
    places, tables = written.places, _tables(source, written)

    @cache
    def layout(unexplained: tuple[str, ...]) -> str:
        """Return the section as JSON with a place for the account of each table."""
        empty: dict[str, dict[str, Any]] = {}
        for each in tables:
            empty.setdefault(each.resource, {})[each.table] = msgspec.Raw(b"%s")
        section = completeness_of(empty, own | dict.fromkeys(unexplained, "unexplained"))
        return msgspec.json.encode(section, order="sorted").decode()

    figures = [values for each in tables for values in each.figures]
    ends = list(accumulate(len(each.figures) for each in tables))
    # Most accounts have no rows in some tables, and few in others.
    accounts = [
        (lru_cache(_CACHED_ACCOUNTS)(each.account), slice(end - len(each.figures), end))
        for each, end in zip(tables, ends, strict=True)
    ]
    differing = [(each.resource, each.differing) for each in tables if each.differing]

    # Small accounts have equal figures.
    @lru_cache(_CACHED_ACCOUNTS)
    def rendered(values: tuple[int, ...], unexplained: tuple[str, ...]) -> msgspec.Raw:
        texts = tuple([account(values[own]) for account, own in accounts])
        return msgspec.Raw((layout(unexplained) % texts).encode())

    def section(client_id: str) -> msgspec.Raw:
        place = places[client_id]
        unexplained = tuple(
            resource
            for resource, pairs in differing
            if any(source[place] != written[place] for source, written in pairs)
        )
        return rendered(tuple(map(itemgetter(place), figures)), unexplained)

    return section


def _tables(source: SourceFigures, written: WrittenFigures) -> list[_Table]:
    """Return the figures of each table, sorted, looked up once for all accounts."""
    found = []
    for identity in sorted(source.identities, key=attrgetter("resource", "table")):
        by_rule = source.rows[identity.resource, identity.table]
        kept = by_rule.get("", source.none)
        rules = sorted(rule for rule in by_rule if rule)
        columns = sorted({figure for _, figure in identity.compared} - {ROWS, KEYS, identity.exported})
        of = partial(written.of, identity.resource)
        exported = kept if identity.exported is None else of(identity.exported)
        found.append(
            _Table(
                identity.resource,
                identity.table,
                list(map(_json, rules)),
                list(map(_json, columns)),
                [kept, exported, *map(by_rule.__getitem__, rules), *map(of, columns)],
                [(rows, files) for _, rows, files in source.compared(identity, written) if rows != files],
            )
        )
    return found


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()
