"""Long lists in pages with a total."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from daybreak.web.dashboard.page_request import PageRequest, parse_integer

T = TypeVar("T")
U = TypeVar("U")

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

    def with_items(self, items: "Sequence[U]") -> "Slice[U]":
        """Return the page with what it shows of its entries."""
        return Slice(items, self.first, self.last, self.total, self.previous_url, self.next_url)


def slice_of(page: PageRequest, items: Sequence[T], length: int, url: Callable[[str], str]) -> Slice[T]:
    """Return the page that the query parameter `page` names. `url` returns the URL of a page number.

    Raises InvalidRequest.
    """
    return read_slice(
        requested_page(page), len(items), length, read=lambda start: items[start : start + length], url=url
    )


def requested_page(page: PageRequest) -> int:
    """Return the number in the query parameter `page`. Raises InvalidRequest."""
    return parse_integer(page.request.query_params.get("page"), maximum=_MAXIMUM_PAGE, default=1)


def read_slice(
    number: int, total: int, length: int, *, read: Callable[[int], Sequence[T]], url: Callable[[str], str]
) -> Slice[T]:
    """Return the page of that number. `read` returns its entries; its argument is the number of those before.

    A number beyond the end is the last page: entries may be gone since the link was made.
    """
    start = (min(number, max(1, -(-total // length))) - 1) * length
    items = read(start)
    return slice_at(items, start, len(items), total=total, length=length, url=url)


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
