"""Cache of insight figures: files with the same content are read once per worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from daybreak.web.dashboard.insight.figures import CampaignFigures, CommunityFigures, MemberFigures, Usage

T = TypeVar("T")

_MAXIMUM_ENTRIES = 16


class DigestCache(Generic[T]):
    """Up to 16 values by the SHA-256 of the content they were computed from. The oldest is dropped first."""

    def __init__(self) -> None:
        self._values: dict[str, T] = {}

    async def get(self, digest: str, compute: Callable[[], Awaitable[T]]) -> T:
        """Return the cached value, or compute and cache it."""
        if digest not in self._values:
            value = await compute()
            if len(self._values) >= _MAXIMUM_ENTRIES:
                del self._values[next(iter(self._values))]
            self._values[digest] = value
        return self._values[digest]


@dataclass(frozen=True, slots=True)
class FigureCache:
    """One cache per kind of figure."""

    usage: DigestCache[Usage] = field(default_factory=DigestCache)
    campaigns: DigestCache[list[CampaignFigures]] = field(default_factory=DigestCache)
    members: DigestCache[MemberFigures] = field(default_factory=DigestCache)
    communities: DigestCache[list[CommunityFigures]] = field(default_factory=DigestCache)
