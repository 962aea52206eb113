"""What a page requires of a request. `routes.py` declares it next to the path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from daybreak.access.authorization import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Conditions that are checked before the handler of a page runs.

    Attributes:
        audience: `account` is a seat with a grant on the account in the path. `operator` is an operator with a second
            factor. `public` needs no session; its handlers check the binding of their form.
        permission: Action that the seat must be allowed to perform on the account.
        explains_refusal: Without the permission, the page is shown and explains why: see `PageRequest.refusal`.
        recent_password: The password must have been entered recently. The user enters it, and returns to the form.
        once: Page to show when the same form is sent twice, with the message of its query parameter `done`;
            "" to process it again. A form that was rejected can be sent again.
        return_to: Page of the form, which the user returns to after signing in or confirming the password, with all
            fields; "" for the path of the route.
        section: Navigation link to mark as current.
        is_activity: False for a partial that pages request at intervals, which must not keep an idle session open.
        is_slow: The work ends when the client leaves. A slow page is never a streamed response: Granian cuts off the
            body of a response if the application waited for a disconnection before it.
    """

    audience: Literal["public", "account", "operator"] = "account"
    permission: Action | None = None
    explains_refusal: bool = False
    recent_password: bool = False
    once: str = ""
    return_to: str = ""
    section: str = ""
    is_activity: bool = True
    is_slow: bool = False
