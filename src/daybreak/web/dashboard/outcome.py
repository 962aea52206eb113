"""Outcome of a request: the messages, status and headers of the page that reports it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from daybreak.domain.errors import DaybreakError, InvalidRequest, RateLimited, Unauthenticated, Unavailable
from daybreak.web.dashboard.formatting import format_duration
from daybreak.web.http.problems import problem_headers, status_of


@dataclass(frozen=True, slots=True)
class Flash:
    """A message at the top of a page. `kind` is `good`, `warn` or `bad`."""

    kind: str
    title: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class PageOutcome:
    """Status code, extra headers, flash message, error messages by form field, and the error code for the log."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    flash: Flash | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    code: str = ""


SUCCESS = PageOutcome()

FLASH_MESSAGES: Mapping[str, Flash] = {
    "token-revoked": Flash("good", "Token revoked.", "Scripts using it have stopped working."),
    "token-exists": Flash(
        "warn",
        "This form was already sent.",
        "Its token was shown once. If you missed it, revoke it and create another.",
    ),
    "token-changed": Flash("good", "Token changed."),
    "token-gone": Flash("warn", "This token was already revoked."),
    "webhook-exists": Flash(
        "warn", "This form was already sent.", "The secret of its webhook was shown once. If you missed it, rotate it."
    ),
    "secret-exists": Flash(
        "warn", "This form was already sent.", "The new secret was shown once. If you missed it, rotate it again."
    ),
    "webhook-removed": Flash("good", "Webhook removed."),
    "webhook-disabled": Flash("good", "Webhook disabled.", "Events are no longer sent."),
    "webhook-enabled": Flash("good", "Webhook enabled.", "New events are sent again. Retry the ones that failed."),
    "events-saved": Flash("good", "Events saved."),
    "webhook-taken": Flash("good", "You own this webhook now.", "Rotate its secret if others may know it."),
    "test-sent": Flash("good", "Test event queued.", "Its result appears below."),
    "delivery-retried": Flash("good", "Retry queued.", "Its result appears below."),
    "delivery-done": Flash("warn", "Nothing to retry.", "The delivery is pending or was delivered."),
    "display-saved": Flash("good", "Display saved."),
    "notifications-saved": Flash("good", "Notifications saved."),
    "confirm-again": Flash("warn", "Nothing was saved yet.", "You confirmed your password. Send the form again."),
    "password-changed": Flash("good", "Password changed.", "Your other sessions have ended."),
    "factor-on": Flash("good", "Second factor turned on."),
    "passkey-added": Flash("good", "Passkey added.", "You can use it at your next sign-in."),
    "passkey-renamed": Flash("good", "Passkey renamed."),
    "passkey-removed": Flash("good", "Passkey removed."),
    "passkey-gone": Flash("warn", "This passkey was already removed."),
    "codes-exist": Flash(
        "warn",
        "This form was already sent.",
        "Its recovery codes were shown once. If you missed them, create new ones.",
    ),
    "session-ended": Flash("good", "Session ended."),
    "session-gone": Flash("warn", "This session had already ended."),
    "nothing-saved": Flash("warn", "Nothing was saved.", "Your session had ended. Send the form again."),
    "accepted": Flash("good", "Snapshot published."),
    "discarded": Flash("good", "Snapshot discarded.", "The previous snapshot stays published."),
    "run-requested": Flash("good", "Run requested.", "A builder starts it within seconds."),
    "api-tokens-on": Flash("good", "API tokens turned on."),
    "api-tokens-off": Flash("good", "API tokens turned off.", "Tokens of this account are refused."),
    "grant-saved": Flash("good", "Access granted."),
    "grant-invited": Flash("good", "Access granted.", "A person who had no seat receives an invitation by mail."),
    "grant-removed": Flash("good", "Access removed.", "Its API tokens on this account are revoked."),
    "factor-reset": Flash("good", "Second factor reset.", "All sessions have ended, and the seat is not an operator."),
    "seat-signed-out": Flash("good", "All sessions ended.", "API tokens stay valid."),
    "seat-exists": Flash("warn", "This form was already sent.", "If you missed the password of the seat, reset it."),
    "seat-invited": Flash("good", "Invitation sent.", "Its link sets a password. It works once, for 7 days."),
    "seat-disabled": Flash("good", "Seat disabled."),
    "seat-enabled": Flash("good", "Seat enabled."),
    "decided": Flash("warn", "A decision on this snapshot was already made."),
}
"""Messages that a redirect can leave for the page it leads to. See `rendering.redirect`."""


def rejected(error: DaybreakError, field_name: str) -> PageOutcome:
    """Return the outcome of a form that an error rejected.

    A wrong value is reported at the field `field_name`, anything else at the top of the page.
    """
    status, headers = status_of(error), error_headers(error)
    if isinstance(error, InvalidRequest):
        message = "\n".join(fault.detail for fault in error.faults) or error.message
        return PageOutcome(status, headers, errors={field_name: message}, code=error.code)
    if isinstance(error, Unauthenticated):
        return PageOutcome(status, headers, errors={field_name: error.message}, code=error.code)
    return PageOutcome(status, headers, flash=_error_flash(error), code=error.code)


def invalid_field(field_name: str, message: str) -> PageOutcome:
    return PageOutcome(400, errors={field_name: message})


def error_headers(error: DaybreakError) -> dict[str, str]:
    """Return an error's headers without `WWW-Authenticate`, which would open the browser's own password dialog."""
    return {name: value for name, value in problem_headers(error).items() if name != "WWW-Authenticate"}


def _error_flash(error: DaybreakError) -> Flash:
    if isinstance(error, RateLimited):
        return Flash("warn", "Too many attempts.", f"Try again in {format_duration(error.retry_after_seconds)}.")
    if isinstance(error, Unavailable):
        return Flash("warn", "Temporarily unavailable.", error.message)
    return Flash("warn", error.message)
