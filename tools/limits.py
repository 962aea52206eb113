"""The page of limits: every value is read from the code or from the default of its setting."""

from datetime import timedelta

from daybreak.access.api_tokens import MAX_LIVE_TOKENS
from daybreak.access.authorization import MAX_NETWORKS
from daybreak.access.cleanup import DEVICES_KEPT, EVENTS_KEPT, NODES_KEPT, SESSIONS_KEPT, TOKENS_KEPT
from daybreak.access.login import PENDING_LOGIN_LIFETIME
from daybreak.access.names import MAX_NAME_LENGTH
from daybreak.access.passkeys import CHALLENGE_LIFETIME, MAX_PASSKEYS
from daybreak.access.passwords import LINK_LIFETIMES
from daybreak.access.sessions import REAUTHENTICATION_LIFETIME
from daybreak.access.single_sign_on import REQUEST_LIFETIME
from daybreak.access.throttle import CHANGES_PER_ACCOUNT, CHANGES_PER_SEAT, MAX_KNOWN_DEVICES, TEST_EVENTS_PER_ACCOUNT
from daybreak.attached_files import SESSION_LIFETIME
from daybreak.credentials.passwords import MAXIMUM_LENGTH, MINIMUM_LENGTH, QUEUE_LENGTH, TIMEOUT_SECONDS
from daybreak.credentials.totp import RECOVERY_CODES, STEP_SECONDS
from daybreak.domain.email_address import MAX_EMAIL_LENGTH
from daybreak.domain.events import EventType
from daybreak.events.addresses import MAX_URL_LENGTH
from daybreak.events.context import DeliveryTimings
from daybreak.events.mail_delivery import MAX_PER_DAY, MAX_ROUTINE_PER_DAY
from daybreak.events.mail_server import MAIL_SECONDS
from daybreak.events.webhooks import MAX_WEBHOOKS, PREVIOUS_SECRET_LIFETIME
from daybreak.export.parquet_parts import MAX_FILE_BYTES
from daybreak.insight.campaigns import MAXIMUM_LINKS
from daybreak.insight.published_tables import MEMORY_BYTES
from daybreak.settings import Rate
from daybreak.settings.reference import known_settings
from daybreak.settings.text_forms import duration_in_words as _span
from daybreak.settings.text_forms import format_size
from daybreak.snapshots.freshness import GRACE
from daybreak.snapshots.retention import LINK_MARGIN
from daybreak.snapshots.schedule import MAX_LEAD, RunTimings
from daybreak.web.app import BODY_DEADLINE_SECONDS, BODY_LIMIT_BYTES
from daybreak.web.dashboard.activity.handlers import BATCH_EVENTS, MAXIMUM_BATCHES
from daybreak.web.dashboard.files.readers import PREVIEW_ROWS
from daybreak.web.dashboard.insight.queries import MAXIMUM_CAMPAIGNS
from daybreak.web.file_sender import INLINE_BYTES, STORE_URL_SECONDS
from daybreak.web.http.bodies import MAX_DEPTH
from daybreak.web.http.files import MAX_RANGES
from daybreak.web.middleware.refusals import MAX_HEADER_BYTES, MAX_METHOD_LENGTH, MAX_TARGET_BYTES
from daybreak.web.server import HEAD_BUFFER_BYTES, HEAD_TIMEOUT_MILLISECONDS, MAX_CONNECTIONS, MAX_HEADERS
from daybreak.web.streams import MAX_STREAMS
from tools.reference_text import LIMITS, table

Row = tuple[str, str, str]
FIXED = "fixed"


def limits() -> str:
    """Return the page of limits."""
    parts = [LIMITS]
    for title, about, rows in (
        ("Publication", "", _publication()),
        ("Lifetimes", "", _lifetimes()),
        ("Rates", "Requests over a limit get `429 rate_limited` with `Retry-After`.", _rates()),
        ("Requests", "", _requests()),
        ("Downloads", "", _downloads()),
        ("Webhooks and mail", "", _events()),
        ("Names and secrets", "", _names()),
        ("Dashboard", "", _dashboard()),
        ("Retention", "The builder deletes expired data once an hour.", _retention()),
    ):
        parts.append(f"## {title}\n" + (f"\n{about}\n" if about else ""))
        parts.append(table(("Limit", "Value", "Setting"), rows))
    return "\n".join(parts)


def _publication() -> list[Row]:
    timings = RunTimings()
    return [
        _setting("Publication of new files, UTC", "snapshot.publish_at"),
        ("Time after which missing files count as late", _span(GRACE), FIXED),
        _setting("Memory of the builder", "snapshot.memory_limit"),
        _setting("Safety margin of a run", "snapshot.margin"),
        _setting("Statement on a PostgreSQL source", "source.statement_timeout"),
        ("Earliest start of a run before its publication", _span(MAX_LEAD), FIXED),
        ("Lease of a builder, after which another one takes over", _seconds(timings.lease_seconds), FIXED),
        ("Attempts of one run after transient errors", str(timings.attempts), FIXED),
    ]


def _lifetimes() -> list[Row]:
    return [
        _setting("Session", "access.session_lifetime"),
        ("Login that waits for its second factor", _span(PENDING_LOGIN_LIFETIME), FIXED),
        ("Sign-in at the single sign-on provider", _span(REQUEST_LIFETIME), FIXED),
        ("Code of an authenticator app", _seconds(STEP_SECONDS), FIXED),
        ("Challenge of a passkey", _span(CHALLENGE_LIFETIME), FIXED),
        ("Password confirmation before a sensitive action", _span(REAUTHENTICATION_LIFETIME), FIXED),
        _setting("Dashboard session without activity", "access.dashboard_idle"),
        _setting("Download link", "access.link_lifetime"),
        ("S3 session key", _span(SESSION_LIFETIME), FIXED),
        ("URL of a bucket that a link redirects to", _seconds(STORE_URL_SECONDS), FIXED),
        ("API token", "until its expiry date, or until it is revoked", "chosen at its creation"),
    ]


def _rates() -> list[Row]:
    changes = f"{_rate(CHANGES_PER_SEAT)}, or {CHANGES_PER_ACCOUNT} for each of its accounts if that is more"
    return [
        _setting("Requests for links with one session or API token", "access.link_rate"),
        _setting("Downloads with one session or API token; the parts of a download count once", "access.link_rate"),
        _setting("Bytes of files in 24 hours with one session or API token", "access.daily_bytes"),
        _setting("Requests to the S3 endpoint with one API token", "attach.request_rate"),
        _setting("Login attempts for one seat from one address", "access.login_per_seat"),
        _setting("Login attempts from one address (IPv6: one /64)", "access.login_per_address"),
        _setting("Login attempts from one network (IPv4: one /24, IPv6: one /48)", "access.login_per_network"),
        _setting("Login attempts in total", "access.login_overall"),
        _setting("Second-factor attempts for one seat from unknown devices", "access.second_factor_per_seat"),
        _setting("Second-factor attempts for one seat from one known device", "access.second_factor_per_seat"),
        ("Forms and switches of the account of one seat", changes, FIXED),
        ("Test events to webhooks of one account", _rate(TEST_EVENTS_PER_ACCOUNT), FIXED),
        ("Known devices of one seat, those used last", str(MAX_KNOWN_DEVICES), FIXED),
        ("Password checks that wait or run in one worker, then `503 busy`", str(QUEUE_LENGTH), FIXED),
        ("Time for a password check, waiting included, then `503 busy`", _seconds(TIMEOUT_SECONDS), FIXED),
    ]


def _requests() -> list[Row]:
    return [
        ("Versions of HTTP, else `400`", "1.0 and 1.1", FIXED),
        ("Request method, then `400`", f"{MAX_METHOD_LENGTH} characters", FIXED),
        ("Request target (path and query), then `414`", _size(MAX_TARGET_BYTES), FIXED),
        ("Request headers, then `431`", f"{MAX_HEADERS} headers, {_size(MAX_HEADER_BYTES)} in total", FIXED),
        ("Incomplete head, then `431` for a long target too", _size(HEAD_BUFFER_BYTES), FIXED),
        ("Request body, then `413`", _size(BODY_LIMIT_BYTES), FIXED),
        ("Nesting of a JSON body", f"{MAX_DEPTH} levels", FIXED),
        ("Time to send the headers, then the connection is closed", _seconds(HEAD_TIMEOUT_MILLISECONDS / 1000), FIXED),
        ("Time to send the body, then `408`", _seconds(BODY_DEADLINE_SECONDS), FIXED),
        ("Connections of one worker", f"{MAX_CONNECTIONS:,}, or half of its file descriptors", FIXED),
        _setting("Wait for the state database, then `503`", "state.wait"),
    ]


def _downloads() -> list[Row]:
    return [
        ("Size of a file", "unlimited", ""),
        ("Parquet file that Iceberg, Delta Sharing and S3 list in parts", f"over {format_size(MAX_FILE_BYTES)}", FIXED),
        ("Duration of a download", "unlimited: a link is checked when the download starts", ""),
        ("Ranges in one request", str(MAX_RANGES), FIXED),
        _setting(
            f"Files over {_size(INLINE_BYTES)} that one worker sends at the same time, then `503 busy`",
            "files.max_transfers",
        ),
        (
            "Archives, workbooks, spreadsheet-safe copies, audit trails that one worker generates",
            str(MAX_STREAMS),
            FIXED,
        ),
        ("Share of one account in either limit", "up to the number that others could still begin: alone, half", FIXED),
    ]


def _events() -> list[Row]:
    timings = DeliveryTimings()
    return [
        ("Webhooks of one account", str(MAX_WEBHOOKS), FIXED),
        ("URL of a webhook", f"{MAX_URL_LENGTH:,} characters", FIXED),
        ("Response of a receiver, connection and lookup included", _seconds(timings.timeout_seconds), FIXED),
        ("Waits before further attempts", ", ".join(_span(each) for each in timings.retry_after), FIXED),
        ("Failures after which a webhook is disabled", _span(timings.give_up_after), FIXED),
        ("Signatures with the secret before a rotation", _span(PREVIOUS_SECRET_LIFETIME), FIXED),
        ("One mail: connection, sign-in and all answers of the mail server", _seconds(MAIL_SECONDS), FIXED),
        ("Mails about events to one seat", f"{MAX_PER_DAY} in 1 day, {MAX_ROUTINE_PER_DAY} routine ones", FIXED),
        ("Link that resets a password", f"{_span(LINK_LIFETIMES[EventType.PASSWORD_RESET_REQUESTED])}, one use", FIXED),
        ("Link of an invitation", f"{_span(LINK_LIFETIMES[EventType.SEAT_INVITED])}, one use", FIXED),
    ]


def _names() -> list[Row]:
    return [
        ("Password", f"{MINIMUM_LENGTH} to {MAXIMUM_LENGTH} characters", FIXED),
        ("Email address", f"{MAX_EMAIL_LENGTH} characters", FIXED),
        ("Name of an API token or passkey", f"{MAX_NAME_LENGTH} characters", FIXED),
        ("Live API tokens of one seat on one account", str(MAX_LIVE_TOKENS), FIXED),
        ("Allowed addresses of an API token", str(MAX_NETWORKS), FIXED),
        ("Recovery codes", str(RECOVERY_CODES), FIXED),
        ("Passkeys of one seat", str(MAX_PASSKEYS), FIXED),
    ]


def _dashboard() -> list[Row]:
    return [
        ("Rows of a preview", str(PREVIEW_ROWS), FIXED),
        ("Campaigns in a file of Insight, largest first", f"{MAXIMUM_CAMPAIGNS:,}", FIXED),
        ("Links, home states and communities in a file of Insight; the rest is one row", f"{MAXIMUM_LINKS:,}", FIXED),
        ("Memory of a computation for Insight, besides one line of a file", f"{MEMORY_BYTES // 10**6} MB", FIXED),
        ("Events in a downloaded audit trail", f"{BATCH_EVENTS * MAXIMUM_BATCHES:,}", FIXED),
    ]


def _retention() -> list[Row]:
    return [
        _setting("Published snapshots", "snapshot.keep"),
        ("Older snapshot with valid links", f"until the links have expired, plus {_span(LINK_MARGIN)}", FIXED),
        _setting("Audit events", "audit.keep"),
        ("Sessions, after their end", _span(SESSIONS_KEPT), FIXED),
        ("API tokens, after their end", _span(TOKENS_KEPT), FIXED),
        ("Devices, after their last login", _span(DEVICES_KEPT), FIXED),
        ("Heartbeats of nodes", _span(NODES_KEPT), FIXED),
        ("Events and their deliveries", _span(EVENTS_KEPT), FIXED),
    ]


def _setting(limit: str, key: str) -> Row:
    value = known_settings()[key].default
    match value:
        case timedelta():
            written = _span(value)
        case Rate():
            written = _rate(value)
        case tuple():
            written = ", ".join(_rate(rate) for rate in value)
        case int() if key in ("snapshot.memory_limit", "access.daily_bytes"):
            written = format_size(value)
        case _:
            written = f"{value:%H:%M}" if key == "snapshot.publish_at" else str(value)
    return limit, written, f"`{key}`"


def _rate(rate: Rate) -> str:
    return f"{rate.attempts:,} in {_span(rate.window)}"


def _seconds(seconds: float) -> str:
    return _span(timedelta(seconds=seconds))


def _size(size_bytes: int) -> str:
    return f"{size_bytes // 1024} KiB"
