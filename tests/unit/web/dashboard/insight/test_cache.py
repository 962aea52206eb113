"""Cache of insight figures."""

import asyncio

from daybreak.web.dashboard.insight.cache import DigestCache


def test_value_is_computed_once_until_it_is_dropped() -> None:
    computed: list[str] = []
    cache: DigestCache[str] = DigestCache()

    async def get(digest: str) -> str:
        async def compute() -> str:
            computed.append(digest)
            return f"figures of {digest}"

        return await cache.get(digest, compute)

    async def use() -> None:
        for digest in [*map(str, range(16)), "0", "16", "1", "0"]:
            assert await get(digest) == f"figures of {digest}"

    asyncio.run(use())
    # The 17th digest drops the first one.
    assert computed == [*map(str, range(17)), "0"]
