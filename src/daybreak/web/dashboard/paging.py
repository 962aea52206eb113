"""Long lists in pages with a total."""

from __future__ import annotations

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
    number = min(requested, max(1, -(-len(items) // length)))
    start = (number - 1) * length
    shown = items[start : start + length]
    return Slice(
        items=shown,
        first=start + 1,
        last=start + len(shown),
        total=len(items),
        previous_url=url(str(number - 1)) if number > 1 else None,
        next_url=url(str(number + 1)) if start + length < len(items) else None,
    )
