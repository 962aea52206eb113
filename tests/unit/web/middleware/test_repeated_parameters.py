"""Query parameters that are repeated."""

import pytest
from starlette.routing import Route

from daybreak.domain.errors import InvalidRequest
from daybreak.web.api.links import LINK_ROUTE
from daybreak.web.middleware.repeated_parameters import RepeatedParametersMiddleware
from tests.unit.web.api.conftest import DescribedApp, described
from tests.unit.web.asgi import call, echo, http_scope

__all__ = ["described"]


@pytest.mark.parametrize("query", ["", "since=1", "since", "a=1&b=1&A=1", "&&a=1&", "a=a%3D1%26a%3D2"])
def test_other_queries_are_accepted(query: str) -> None:
    assert call(RepeatedParametersMiddleware(echo), http_scope(query_string=query.encode())).status == 200


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("since=1&since=2", "since"),
        ("since=1&until=2&since=1", "since"),
        ("since&since=", "since"),
        ("since=1&s%69nce=2", "since"),
        ("a+b=1&a%20b=2", "a b"),
        ("%0D%0A=1&%0d%0a=2", r"\r\n"),
        ("%FF=1&%ff=2", r"\ufffd"),
    ],
)
def test_repeated_parameter_is_refused_by_name(query: str, name: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        call(RepeatedParametersMiddleware(echo), http_scope(query_string=query.encode()))
    assert raised.value.message == f"Send the parameter {name} once."


def test_every_route_refuses_repeated_parameters(described: DescribedApp) -> None:
    """Links are refused by their own route: see `test_missing_repeated_or_extra_parameter_is_rejected`."""
    routes = [route for route in described.app.routes if isinstance(route, Route) and route.name != LINK_ROUTE]
    headers = [("host", "export.example.org"), ("accept", "*/*")]
    for route in routes:
        path = f"/data{route.path}"
        answer = call(described.app, http_scope(path, headers, query_string=b"version=1&version=2"))
        assert (answer.status, b"Send the parameter version once." in answer.body) == (400, True), path
    assert len(routes) > 150
