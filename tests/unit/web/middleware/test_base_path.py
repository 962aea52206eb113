"""The path part of `base_url`."""

import pytest

from daybreak.web.middleware.client_address import BasePathMiddleware
from tests.unit.web.asgi import call, echo, http_scope


@pytest.mark.parametrize(
    ("path", "seen"), [("/data/x", "/x"), ("/x", "/x"), ("/database/x", "/database/x"), ("/data", "/")]
)
def test_base_path_is_optional_in_requests(path: str, seen: str) -> None:
    scope = http_scope(path)
    assert call(BasePathMiddleware(echo, "/data"), scope).body.decode() == seen
    assert scope["raw_path"].decode() == seen
