"""Posted forms: parsing, verification and redirect target."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from daybreak.credentials.strict_json import RepeatedMember, unique_members
from daybreak.domain.errors import Forbidden, InvalidRequest
from daybreak.web.dashboard import csrf
from daybreak.web.dashboard.browser_session import set_form_cookie, signed_cookie
from daybreak.web.dashboard.context import DashboardRequest
from daybreak.web.dashboard.outcome import PageOutcome
from daybreak.web.dashboard.rendering import render_template
from daybreak.web.http.bodies import read_body

_MAXIMUM_FIELDS = 40
_MAXIMUM_PATH_LENGTH = 4000


async def read_form(request: Request) -> dict[str, str]:
    """Parse an `application/x-www-form-urlencoded` body.

    Raises InvalidRequest for another media type, too many fields, a repeated field, or bytes that
    are not UTF-8; RequestError for a body that is too large or too slow.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise InvalidRequest("This page accepts forms only.", code="unsupported_media_type")
    body = await read_body(request)
    try:
        text = body.decode("ascii")
        fields = unique_members(
            parse_qsl(text, keep_blank_values=True, max_num_fields=_MAXIMUM_FIELDS, errors="strict")
        )
    except RepeatedMember:
        raise InvalidRequest("The form contains a field twice.") from None
    except ValueError:
        raise InvalidRequest("The form cannot be parsed.") from None
    if any("\x00" in value for value in fields.values()):
        raise InvalidRequest("The form contains a NUL character.")
    return fields


async def read_verified_form(page: DashboardRequest, binding: str) -> dict[str, str]:
    """Parse a form and check that it was sent from our own page with a token for `binding`.

    Raises Forbidden(cross_site) or InvalidRequest.
    """
    services = page.services
    if not csrf.is_same_origin(page.request, services.settings.base_url):
        raise Forbidden("This form was not sent from a page of this service.", code="cross_site")
    form = await read_form(page.request)
    if not csrf.verify_form_token(form.get(csrf.FIELD), binding, keyring=services.keyring.current()):
        raise Forbidden("This form has expired. Open the page again and resend it.", code="cross_site")
    return form


def csrf_field(page: DashboardRequest, binding: str) -> Markup:
    """Return the hidden field with a form token."""
    services = page.services
    token = csrf.create_form_token(binding, keyring=services.keyring.current(), random=services.random)
    return Markup('<input type="hidden" name="{}" value="{}">').format(csrf.FIELD, token)


def render_public_form(
    page: DashboardRequest, template: str, context: Mapping[str, object], outcome: PageOutcome
) -> Response:
    """Render a page whose form a browser without a session sends. A cookie binds the form to the browser."""
    binding = signed_cookie(page, "form") or page.services.random(16).hex()
    contact = page.services.settings.operator_contact
    shared = {"csrf_field": lambda: csrf_field(page, binding), "operator_contact": contact}
    response = render_template(page, template, {**shared, **context}, outcome)
    set_form_cookie(page, response, binding)
    return response


def safe_redirect_path(text: str | None, *, fallback: str) -> str:
    """Return the path to open after sign-in if it is a path of the dashboard, else the fallback.

    Rejects other hosts (`//`, backslashes), control characters, `..`, and the sign-in and sign-out
    pages.
    """
    if not text or len(text) > _MAXIMUM_PATH_LENGTH or not text.startswith("/dashboard/"):
        return fallback
    if "\\" in text or "//" in text or "/.." in text or "/./" in text:
        return fallback
    if any(ord(character) <= 0x20 or ord(character) == 0x7F for character in text):
        return fallback
    if text.startswith(("/dashboard/sign-", "/dashboard/second-factor", "/dashboard/enrol")):
        return fallback
    return text
