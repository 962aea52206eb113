"""Posted forms: parsing, protection against cross-site request forgery, and redirect target.

A form is accepted if the browser reports our own origin and the form holds a valid token. The token is bound to the
login, or to the form cookie before sign-in. It differs on every page, so that response sizes under compression do not
reveal it (BREACH, CVE-2013-3587).
"""

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from urllib.parse import parse_qsl, quote_plus, urlsplit

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from daybreak.credentials import signed_text
from daybreak.credentials.strict_json import RepeatedMember, unique_members
from daybreak.domain.errors import Forbidden, InvalidRequest
from daybreak.domain.identity import Session
from daybreak.web.dashboard.browser_session import FORM_COOKIE_SECONDS, set_signed_cookie, signed_cookie
from daybreak.web.dashboard.context import DashboardRequest
from daybreak.web.dashboard.rendering import PageOutcome, render_template
from daybreak.web.http.bodies import read_body

_MAXIMUM_FIELDS = 40
# Of a path in a query parameter. This service and nginx accept URLs of up to 8 KiB.
_MAXIMUM_ENCODED_LENGTH = 7500
CSRF_FIELD = "csrf"
NOT_KEPT = frozenset(
    {CSRF_FIELD, "username", "password", "current", "new", "repeated", "code", "response", "confirmation"}
)
"""Fields of forms that are secret or belong to one page. No URL contains them."""

# Of all fields in the URL of the sign-in page, which has them in a path in a query parameter.
_MAXIMUM_KEPT_LENGTH = 7000


class ExpiredForm(Forbidden):
    """The token of a form from our own page is of an earlier login. `form` has its fields."""

    def __init__(self, form: Mapping[str, str]) -> None:
        super().__init__(
            "This form has expired. Nothing was saved. Open the page again and resend it.", code="cross_site"
        )
        self.form = form


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


def login_of(session: Session) -> str:
    """Return what binds the forms of a session. It stays when the session gets a new id: another tab has open forms."""
    return f"{session.seat_id} {session.started_at.isoformat()}"


async def read_verified_form(page: DashboardRequest, binding: str) -> dict[str, str]:
    """Parse a form and check that it was sent from our own page with a token for `binding`.

    Raises Forbidden(cross_site), ExpiredForm or InvalidRequest.
    """
    services = page.services
    if not is_same_origin(page.request, services.settings.base_url):
        raise Forbidden("This form was not sent from a page of this service.", code="cross_site")
    form = await read_form(page.request)
    token, keyring = form.get(CSRF_FIELD, ""), services.keyring.current()
    if signed_text.verify(token, binding, purpose="csrf", keyring=keyring) is None:
        raise ExpiredForm(form)
    return form


def kept_fields(form: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a form for a URL. The ellipsis makes an incomplete list of values invalid, not shorter."""
    kept, left = {}, _MAXIMUM_KEPT_LENGTH
    for name, value in form.items():
        if value and name not in NOT_KEPT:
            lengths = list(accumulate((len(quote_plus(quote_plus(each))) for each in value), initial=0))
            fitting = bisect_right(lengths, left) - 1
            kept[name] = value if fitting == len(value) else value[:fitting] + "\N{HORIZONTAL ELLIPSIS}"
            left -= lengths[fitting]
    return kept


def csrf_field(page: DashboardRequest, binding: str) -> Markup:
    """Return the hidden field with a new form token for `binding`, which is `login_of` or the form cookie's value."""
    services = page.services
    token = signed_text.sign(services.random(16).hex(), binding, purpose="csrf", keyring=services.keyring.current())
    return Markup('<input type="hidden" name="{}" value="{}">').format(CSRF_FIELD, token)


def render_public_form(
    page: DashboardRequest, template: str, context: Mapping[str, object], outcome: PageOutcome
) -> Response:
    """Render a page whose form a browser without a session sends. A cookie binds the form to the browser."""
    binding = signed_cookie(page, "form") or page.services.random(16).hex()
    contact = page.services.settings.operator_contact
    shared = {"csrf_field": lambda: csrf_field(page, binding), "operator_contact": contact}
    response = render_template(page, template, {**shared, **context}, outcome)
    set_signed_cookie(page, response, "form", binding, FORM_COOKIE_SECONDS)
    return response


def safe_redirect_path(text: str | None, *, fallback: str) -> str:
    """Return the path to open after sign-in if it is a path of the dashboard, else the fallback.

    Rejects other hosts (`//`, backslashes), control characters, `..`, the sign-in and sign-out pages, and paths that
    are too long for a query parameter.
    """
    if not text or not text.startswith("/dashboard/") or len(quote_plus(text)) > _MAXIMUM_ENCODED_LENGTH:
        return fallback
    if "\\" in text or "//" in text or "/.." in text or "/./" in text:
        return fallback
    if any(ord(character) <= 0x20 or ord(character) == 0x7F for character in text):
        return fallback
    if text.startswith(("/dashboard/sign-", "/dashboard/second-factor", "/dashboard/enrol")):
        return fallback
    return text


def salt_of(token: str) -> str:
    """Return the part of a valid token that identifies its form."""
    return token.split(".")[1]


def is_same_origin(request: Request, base_url: str) -> bool:
    """Return whether the browser reports that the form was sent from our own origin.

    `Sec-Fetch-Site`, if sent, must be `same-origin`, or `none` (the user typed or reloaded the URL).
    `Origin`, if sent, must be that of `base_url`; over plain http also that of the Host header,
    because a service on the loopback has several names. Our pages send no referrer, so browsers send
    `Origin: null` with a form (Fetch Standard, "append a request Origin header"); that is accepted
    only together with `Sec-Fetch-Site`, which no script can set. A client that sends neither header
    is not a current browser: the form token alone decides.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True
    if origin == "null":
        return site is not None
    own = urlsplit(base_url)
    hosts = {own.netloc} | ({request.headers.get("host", "")} if own.scheme == "http" else set())
    return origin in {f"{own.scheme}://{host}" for host in hosts}
