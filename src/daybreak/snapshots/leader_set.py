"""A set of Leaders of a run: one byte for each Leader, because there may be 100,000 in each of nine sets."""

from collections.abc import Container, Iterable, Mapping


class LeaderSet(Container[str]):
    """A set of some of the Leaders in `places`, which numbers all of them from 0."""

    def __init__(self, places: Mapping[str, int]) -> None:
        self._places = places
        self._has = bytearray(len(places))

    def update(self, client_ids: Iterable[str]) -> None:
        """Add Leaders."""
        for client_id in client_ids:
            self._has[self._places[client_id]] = True

    def __contains__(self, client_id: object) -> bool:
        place = self._places.get(client_id)  # type: ignore[call-overload]
        return place is not None and bool(self._has[place])
