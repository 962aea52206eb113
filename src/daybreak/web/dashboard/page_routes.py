"""Routes of pages, each with its policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response
from starlette.routing import Route

from daybreak.web.dashboard.confirmation import Confirmation, confirmation_page
from daybreak.web.dashboard.context import DashboardContext
from daybreak.web.dashboard.outcome import SUCCESS
from daybreak.web.dashboard.page_handlers import (
    FormHandler,
    Handler,
    PageHandler,
    PublicHandler,
    ShowForm,
    form_handler,
    page_handler,
    public_handler,
)
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.policy import Policy

Method = Literal["GET", "POST"]


class PageRoute(Route):
    """A route of a page."""

    def __init__(self, method: Method, path: str, handler: Handler, policy: Policy) -> None:
        super().__init__(path, handler, methods=[method])
        self.policy = policy


@dataclass(frozen=True, slots=True)
class PageRoutes:
    """Creates the routes of pages."""

    dashboard: DashboardContext

    def public(self, path: str, handle: PublicHandler, method: Method = "GET") -> PageRoute:
        """Return the route of a page that needs no session."""
        return PageRoute(method, path, public_handler(self.dashboard, handle), Policy(audience="public"))

    def get(self, path: str, handle: PageHandler, policy: Policy) -> PageRoute:
        """Return the route of a page."""
        return PageRoute("GET", path, page_handler(self.dashboard, handle, policy), policy)

    def post(self, path: str, handle: FormHandler, policy: Policy, show: ShowForm | None = None) -> PageRoute:
        """Return the route of a form that is on the page `show`."""
        return PageRoute("POST", path, page_handler(self.dashboard, form_handler(handle, show), policy), policy)

    def form(self, path: str, show: ShowForm, handle: FormHandler, policy: Policy) -> list[PageRoute]:
        """Return the routes of a page whose form is sent to the same path."""

        async def show_new(page: PageRequest) -> Response:
            return await show(page, SUCCESS)

        return [self.get(path, show_new, policy), self.post(path, handle, policy, show)]

    def confirmation(
        self,
        path: str,
        describe: Callable[[PageRequest], Awaitable[Confirmation | Response]],
        handle: FormHandler,
        policy: Policy,
    ) -> list[PageRoute]:
        """Return the routes of a change, and of the page that asks for its confirmation."""
        return self.form(path, confirmation_page(describe), handle, policy)
