"""Long lists in pages with a total."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from daybreak.web.dashboard.page_request import PageRequest, parse_integer

T = TypeVar("T")

_MAXIMUM_PAGE = 1_000_000


@dataclass(frozen=True, slots=True)
class Slice(Generic[T]):
    """One page of a list. `first` and `last` count from 1; `last` is 0 for an empty list."""

    items: Sequence[T]
    first: int
    last: int
    total: int
    previous_url: str | None
    next_url: str | None


def slice_of(page: PageRequest, items: Sequence[T], length: int, url: Callable[[str], str]) -> Slice[T]:
    """Return the page that the query parameter `page` names. `url` returns the URL of a page number.

    A number beyond the end is the last page: entries may be gone since the link was made. Raises InvalidRequest.
    """
    requested = parse_integer(page.request.query_params.get("page"), minimum=1, maximum=_MAXIMUM_PAGE, default=1)
    start = (min(requested, max(1, -(-len(items) // length))) - 1) * length
    shown = items[start : start + length]
    return slice_at(shown, start, len(shown), total=len(items), length=length, url=url)


def slice_at(
    items: Sequence[T], start: int, count: int, *, total: int, length: int, url: Callable[[str], str]
) -> Slice[T]:
    """Return a page of a list that was not read as a whole. It has `count` of the `total` entries, after `start`."""
    number, end = start // length + 1, start + count
    return Slice(
        items=items,
        first=start + 1,
        last=end,
        total=total,
        previous_url=url(str(number - 1)) if start else None,
        next_url=url(str(number + 1)) if end < total else None,
    )
