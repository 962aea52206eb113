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

    Raises InvalidRequest.
    """
    start = start_of_page(requested_page(page), len(items), length)
    return slice_at(items[start : start + length], start, len(items), length, url)


def requested_page(page: PageRequest) -> int:
    """Return the number in the query parameter `page`. Raises InvalidRequest."""
    return parse_integer(page.request.query_params.get("page"), maximum=_MAXIMUM_PAGE, default=1)


def start_of_page(number: int, total: int, length: int) -> int:
    """Return how many entries are before a page.

    A number beyond the end is the last page: entries may be gone since the link was made.
    """
    return (min(number, max(1, -(-total // length))) - 1) * length


def slice_at(items: Sequence[T], start: int, total: int, length: int, url: Callable[[str], str]) -> Slice[T]:
    """Return the page with these of the `total` entries, which are after `start`."""
    number, end = start // length + 1, start + len(items)
    return Slice(
        items=items,
        first=start + 1,
        last=end,
        total=total,
        previous_url=url(str(number - 1)) if start else None,
        next_url=url(str(number + 1)) if end < total else None,
    )
