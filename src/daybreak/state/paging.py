"""Reads of many rows, page by page."""

from collections.abc import Callable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Position = TypeVar("Position")


def in_pages(read: Callable[[Position | None], tuple[list[Item], Position | None]]) -> Iterator[Item]:
    """Yield the items of all pages. `read` returns the page after a position, or the first one, with the position of
    its end, or None if it is the last one.

    No cursor stays open, and memory is bounded. Each page may be a transaction.
    """
    items, position = read(None)
    yield from items
    while position is not None:
        items, position = read(position)
        yield from items
