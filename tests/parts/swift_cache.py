"""Cache of a Swift proxy in its own memory, with the methods of Swift's memcached client that the proxy calls.

Without a cache, the proxy asks the account server and the container server in each request whether the bucket exists.
There is one proxy process, which deletes entries when it changes accounts and buckets.
"""

import json
from typing import Any


class ProcessCache:
    """Stores values as JSON, as the client of memcached does."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def get(self, key: str, **_options: Any) -> Any:
        return json.loads(self._values.get(key, "null"))

    def set(self, key: str, value: Any, **_options: Any) -> None:
        self._values[key] = json.dumps(value)

    def delete(self, key: str, **_options: Any) -> None:
        self._values.pop(key, None)


def filter_factory(_global_conf: dict[str, str], **_conf: str) -> Any:
    """Return a WSGI filter that adds the cache to each request."""
    cache = ProcessCache()

    def with_cache(app: Any) -> Any:
        def answer(environ: dict[str, Any], start_response: Any) -> Any:
            environ["swift.cache"] = cache
            return app(environ, start_response)

        return answer

    return with_cache
