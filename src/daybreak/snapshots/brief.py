"""What changed with a publication for one account, in up to three sentences."""

from collections.abc import Mapping
from itertools import takewhile
from statistics import median

from daybreak.catalogue.resources import resource_named
from daybreak.domain.delta import Chain, ResourceDelta
from daybreak.domain.display import format_count, localized

_MEMBERS, _STATES, _CAMPAIGNS = "members", "member_state_changes", "campaigns"
_MAXIMUM_OTHERS = 2
_UNCHANGED = ResourceDelta(0, 0)
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
    usual = [each.resources.get(_MEMBERS, _UNCHANGED).added for each in earlier]
    usual_opt_outs = [_opt_outs(each.resources) for each in earlier]
    changes = (_members(resources.get(_MEMBERS, _UNCHANGED), usual), _opted_out(_opt_outs(resources), usual_opt_outs))
    members = "; ".join(change for change in changes if change)
    sentences = (members and f"{members}.", _campaign(resources.get(_CAMPAIGNS, _UNCHANGED)) or _others(resources))
    return tuple(sentence for sentence in (*sentences, _ready(resources, files)) if sentence)


def _growth(delta: ResourceDelta) -> int:
    return delta.rows_after - delta.rows_before


def _opt_outs(resources: Mapping[str, ResourceDelta]) -> int:
    return max(resources.get(_STATES, _UNCHANGED).opt_outs, 0)


def _ready(resources: Mapping[str, ResourceDelta], files: int) -> str:
    changed = sum(1 for each in resources.values() if each.has_rows or each.reason)
    count = f"{_NUMBERS[files] if files < len(_NUMBERS) else files} {'file is' if files == 1 else 'files are'} ready"
    unchanged = f", {files - changed} of them without changed rows" if changed else ", without changed rows"
    return count + (unchanged if changed < files else "") + "."


def _members(delta: ResourceDelta, usual: list[int]) -> str:
    """Return new and removed Members, or the change of their number if the delta does not have them."""
    growth = _growth(delta)
    if not (growth or delta.added or delta.removed):
        return ""
    if delta.added - delta.removed != growth:
        counts = [f"has {_more(growth, 'Member')} than before"]
    else:
        new = f"has {format_count(delta.added, 'new Member')}{_compared(delta.added, usual)}"
        counts = [new] if delta.added else []
        counts += [f"no longer has {format_count(delta.removed, 'Member')}"] if delta.removed else []
    return f"{resource_named(_MEMBERS).title} {', and '.join(counts)}"


def _opted_out(count: int, usual: list[int]) -> str:
    return f"{format_count(count, 'Member')} opted out{_compared(count, usual)}" if count else ""


def _campaign(delta: ResourceDelta) -> str:
    """Return the reply rate of the new campaign with most recipients. Its name is isolated (UAX #9 §2.4)."""
    campaign = delta.campaign
    if campaign is None:
        return ""
    name = f"\u201c\N{FIRST STRONG ISOLATE}{campaign.name}\N{POP DIRECTIONAL ISOLATE}\u201d"
    rate = localized(f"{100 * (campaign.replied / campaign.recipients):.1f}")
    recipients = format_count(campaign.recipients, "recipient")
    return f"{name} got replies from {rate} % of {recipients}."


def _compared(change: int, usual: list[int]) -> str:
    """Return how a number compares with the median of the changes before, "" if it is near it."""
    middle = median(usual) if len(usual) >= _MINIMUM_HISTORY else 0
    if not middle or middle / 2 < change < 1.75 * middle:
        return ""
    if change <= middle / 2:
        return ", at most half the usual number"
    times = round(change / middle)
    return f", {'twice' if times == 2 else format_count(times, 'time')} the usual number"


def _others(resources: Mapping[str, ResourceDelta]) -> str:
    growth = {name: _growth(delta) for name, delta in resources.items() if name != _MEMBERS and _growth(delta)}
    largest = sorted(growth, key=lambda name: (-abs(growth[name]), name))[:_MAXIMUM_OTHERS]
    parts = [f"{resource_named(name).title} has {_more(growth[name], 'row')}" for name in largest]
    return " and ".join(parts) + "." if parts else ""


def _more(growth: int, noun: str) -> str:
    """Return `57 more Members`, or `1 fewer Member`."""
    return format_count(abs(growth), noun).replace(" ", " more " if growth > 0 else " fewer ")
