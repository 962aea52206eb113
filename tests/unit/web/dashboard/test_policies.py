"""Policies of the dashboard's routes."""

import re
from pathlib import Path

from starlette.routing import Route

from daybreak.web import dashboard
from daybreak.web.dashboard import rendering
from daybreak.web.dashboard.forms import NOT_KEPT
from daybreak.web.dashboard.page_handlers import PageRoute
from tests.unit.web.api.conftest import DescribedApp, described

__all__ = ["described"]

# Forms that work without a recent password. Those of signed-in users change nothing that a thief could use, or the
# service asks for the password if the change is sensitive: allowed addresses of a token, mails about security.
WITHOUT_PASSWORD = {
    "/dashboard/sign-in",
    "/dashboard/sign-out",
    "/dashboard/forgot-password",
    "/dashboard/reset-password",
    "/dashboard/unsubscribe/{token}",
    "/dashboard/second-factor",
    "/dashboard/second-factor/passkey",
    "/dashboard/second-factor/passkey/options",
    "/dashboard/enrol",
    "/dashboard/operator/confirm",
    "/dashboard/{client_id}/confirm",
    "/dashboard/{client_id}/settings/tokens/{token_id}",
    "/dashboard/{client_id}/settings/tokens/{token_id}/revoke",
    "/dashboard/{client_id}/settings/display",
    "/dashboard/{client_id}/settings/notifications",
    "/dashboard/{client_id}/settings/security/password",
    "/dashboard/{client_id}/settings/security/passkeys/{reference}/rename",
    "/dashboard/{client_id}/settings/webhooks/{endpoint_id}/deliveries/{delivery_id}/retry",
    "/dashboard/{client_id}/settings/webhooks/{endpoint_id}/events",
    "/dashboard/{client_id}/settings/webhooks/{endpoint_id}/test",
    "/dashboard/{client_id}/settings/webhooks/{endpoint_id}/disable",
    "/dashboard/{client_id}/settings/webhooks/{endpoint_id}/enable",
}
WITHOUT_SESSION = {path for path in WITHOUT_PASSWORD if not re.search("client_id|operator", path)}


def forms(described: DescribedApp) -> dict[str, PageRoute]:
    """Return the routes of posted forms by path. Every other POST route is part of the API."""
    posts = [route for route in described.app.routes if isinstance(route, Route) and "POST" in (route.methods or ())]
    pages = {route.path: route for route in posts if isinstance(route, PageRoute)}
    others = [route.path for route in posts if not isinstance(route, PageRoute)]
    assert not [path for path in others if path.startswith("/dashboard")], "a form declares no policy"
    return pages


def test_every_form_declares_its_policy(described: DescribedApp) -> None:
    routes = forms(described)
    assert {path for path, route in routes.items() if not route.policy.recent_password} == WITHOUT_PASSWORD
    assert {path for path, route in routes.items() if route.policy.audience == "public"} == WITHOUT_SESSION
    for path, route in routes.items():
        assert (route.policy.audience == "operator") == path.startswith("/dashboard/operator"), path
        assert not re.search("tokens|webhooks", path) or route.policy.permission or "operator" in path, path


def test_forms_return_to_pages_that_exist(described: DescribedApp) -> None:
    pages = {
        route.path for route in described.app.routes if isinstance(route, Route) and "GET" in (route.methods or ())
    }
    for path, route in forms(described).items():
        parent = "/".join(path.split("/", 3)[:3])
        returns_to = f"{parent}/{route.policy.return_to}" if route.policy.return_to else path
        assert route.policy.audience == "public" or returns_to in pages, path
        once, _, done = route.policy.once.partition("?done=")
        assert not once or (f"{parent}/{once}" in pages and done in rendering.FLASH_MESSAGES), path


def test_no_secret_is_kept_in_a_url(project_folder: Path) -> None:
    templates = [path.read_text() for path in (project_folder / "src/daybreak/web/dashboard").rglob("*.html")]
    secret = {name for text in templates for name in re.findall(r'field\("(\w+)"[^)]*kind="password"', text)}
    assert {"password", "current", "new", "repeated"} <= secret
    assert secret | {"csrf", "code", "response"} <= NOT_KEPT


def test_pages_start_threads_in_bounded_queues() -> None:
    """A page that started threads directly would wait in the unbounded queue of the event loop."""
    folder = Path(dashboard.__file__).parent
    starts = re.compile(r"\b(?:to|in)_thread\b")
    found = {str(path.relative_to(folder)) for path in folder.rglob("*.py") if starts.search(path.read_text())}
    # They run in slots of bounded queues.
    assert found == {"insight/queries.py", "page_request.py"}
