"""Pages that name what a change ends before the user confirms it. `routes.py` declares them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest


@dataclass(frozen=True, slots=True)
class ConfirmationField:
    """Text that the user enters to confirm."""

    name: str
    label: str
    hint: str
    maximum_length: int
    is_multiline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """Content of a confirmation.

    Attributes:
        title: The change, as a heading without its question mark: `Remove webhook`.
        name: Name of the changed thing, which the heading quotes; "" for none.
        about: Line below the heading.
        text: What the change does.
        button: Label of the button.
        cancel: Path of the page to return to.
        facts: Labels and values that identify the changed thing.
        ends: What ends: the heading of each list, and its lines.
        fields: What the user enters.
        hidden: Names of request values that the form sends again.
        is_dangerous: Whether the change takes something away.
    """

    title: str
    text: str
    button: str
    cancel: str
    name: str = ""
    about: str = ""
    facts: Sequence[tuple[str, str]] = ()
    ends: Sequence[tuple[str, Sequence[str]]] = ()
    fields: Sequence[ConfirmationField] = ()
    hidden: Sequence[str] = ()
    is_dangerous: bool = True


def confirmation_page(
    describe: Callable[[PageRequest], Awaitable[Confirmation | Response]],
) -> Callable[[PageRequest, PageOutcome], Awaitable[Response]]:
    """Return the handler of a page that shows a confirmation. `describe` may return another page instead."""

    async def show(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
        found = await describe(page)
        if isinstance(found, Response):
            return found
        context: dict[str, object] = {
            "confirmation": found,
            "values": page.fields,
            "action_url": page.dashboard.root + page.form_path(),
            "cancel_url": page.url(found.cancel),
        }
        return render_page(page, "layout/confirmation.html", context, outcome)

    return show
