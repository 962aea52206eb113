"""What changed with a publication for one account, in up to three sentences."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from statistics import median

from daybreak.catalogue.resources import resource_named
from daybreak.domain.counts import format_count
from daybreak.domain.delta import Chain, ResourceDelta
from daybreak.state.stores import Stores

_MEMBERS = "members"
_MAXIMUM_OTHERS = 2
# Fewer publications do not show what is usual.
_MINIMUM_HISTORY = 3
_NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


def publication_brief(chain: Chain | None, snapshot_id: str, files: int) -> tuple[str, ...]:
    """Return sentences about the rows that changed since the publication before.

    `files` is the number of the account's files. Without deltas of this publication, there is nothing to compare, and
    no sentence.
    """
    entries = () if chain is None else chain.entries
    earlier = list(takewhile(lambda each: each.publication.snapshot_id != snapshot_id, entries))
    if len(earlier) == len(entries):
        return ()
    resources = entries[len(earlier)].resources
    usual = [_growth(each.resources.get(_MEMBERS)) for each in earlier]
    sentences = (_members(_growth(resources.get(_MEMBERS)), usual), _others(resources), _ready(resources, files))
    return tuple(sentence for sentence in sentences if sentence)


def load_brief(stores: Stores, snapshot_id: str, client_id: str) -> tuple[str, ...]:
    """Return the sentences about a publication and an account, from the state database."""
    files = len(stores.snapshots.manifest(snapshot_id, client_id))
    return publication_brief(stores.deltas.chain(client_id), snapshot_id, files)


def _growth(delta: ResourceDelta | None) -> int:
    return 0 if delta is None else delta.rows_after - delta.rows_before


def _ready(resources: Mapping[str, ResourceDelta], files: int) -> str:
    changed = sum(1 for each in resources.values() if each.has_rows or each.reason)
    count = f"{_NUMBERS[files] if files < len(_NUMBERS) else files} {'file is' if files == 1 else 'files are'} ready"
    unchanged = f", {files - changed} of them without changed rows" if changed else ", without changed rows"
    return count + (unchanged if changed < files else "") + "."


def _members(growth: int, usual: list[int]) -> str:
    if not growth:
        return ""
    count = format_count(abs(growth), "Member").replace(" ", f" {'more' if growth > 0 else 'fewer'} ")
    title = resource_named(_MEMBERS).title
    return f"{title} has {count} than before{_compared(abs(growth), [abs(each) for each in usual])}."


def _compared(change: int, usual: list[int]) -> str:
    """Return how a change compares with the median of the changes before, "" if it is near it."""
    middle = median(usual) if len(usual) >= _MINIMUM_HISTORY else 0
    if not middle or middle / 2 < change < 1.75 * middle:
        return ""
    if change <= middle / 2:
        return ", at most half the usual change"
    times = round(change / middle)
    return f", {'twice' if times == 2 else format_count(times, 'time')} the usual change"


def _others(resources: Mapping[str, ResourceDelta]) -> str:
    """Return the largest changes of the row counts of other files."""
    growth = {name: _growth(delta) for name, delta in resources.items() if name != _MEMBERS and _growth(delta)}
    largest = sorted(growth, key=lambda name: (-abs(growth[name]), name))[:_MAXIMUM_OTHERS]
    parts = [
        f"{resource_named(name).title} has "
        + format_count(abs(growth[name]), "row").replace(" ", " more " if growth[name] > 0 else " fewer ")
        for name in largest
    ]
    return " and ".join(parts) + "." if parts else ""
