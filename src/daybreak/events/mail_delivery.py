"""One attempt to deliver a mail, and its result in the state database."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from email.headerregistry import Address, BaseHeader, HeaderRegistry, UnstructuredHeader
from email.message import EmailMessage
from email.policy import SMTP, Policy
from email.utils import format_datetime
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import structlog
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from daybreak.access.passwords import LINK_LIFETIMES, create_reset, has_password_login
from daybreak.access.services import apply_revocations
from daybreak.credentials.keyring import Keyring
from daybreak.credentials.mail_tokens import unsubscribe_token
from daybreak.domain.delta import Chain
from daybreak.domain.display import display_for
from daybreak.domain.email_address import is_email_address
from daybreak.domain.events import ACCOUNT_EVENTS, OPERATOR_EVENTS, Attempt, Delivery, DeliveryState, EventType
from daybreak.domain.identity import GrantedAccount, Seat
from daybreak.domain.visible_text import HIDDEN_CHARACTERS
from daybreak.events.context import DeliveryContext
from daybreak.events.mail_content import (
    MAX_ACCOUNTS,
    MailContent,
    MailSubject,
    content_of,
    content_with_link,
    no_password,
)
from daybreak.events.mail_server import MailServer
from daybreak.settings import Settings
from daybreak.snapshots.brief import publication_brief
from daybreak.state.stores import Stores
from daybreak.state.throttle import ThrottleRule

_log = structlog.get_logger("daybreak.events")
MAX_PER_DAY = 10
MAX_ROUTINE_PER_DAY = 7
"""Mails about runs, files and expiring tokens: they must not suppress the one about a changed password."""
_ALARMING = frozenset({EventType.TOKEN_LEAKED, EventType.SECOND_FACTOR_CHANGED, EventType.PASSWORD_CHANGED})
_DAY_SECONDS = 86_400

UNSUBSCRIBE_PATH = "/dashboard/unsubscribe"
# Without those of security: a forwarded mail, or a link scanner, must not end them. Seats choose them in the dashboard.
_WITH_UNSUBSCRIBE_LINK = frozenset({*ACCOUNT_EVENTS, *OPERATOR_EVENTS})
# Mail servers quote the recipient. The log names the seat instead.
_ADDRESS = re.compile(r"[^\s@]+@[^\s@]+")


class _UnfoldedHeader(UnstructuredHeader, BaseHeader):
    """Header on one line. In others, Python replaces a long word such as a URL by encoded words (RFC 2047), which no
    mail program decodes there.
    """

    def fold(self, *, policy: Policy) -> str:
        return f"{self.name}: {self}{policy.linesep}"


_HEADERS = HeaderRegistry()
_HEADERS.map_to_type("list-unsubscribe", _UnfoldedHeader)
# ASCII only, which every mail server accepts. `smtplib` sends UTF-8 in headers if an address needs it (RFC 6531).
_POLICY = SMTP.clone(cte_type="7bit", header_factory=_HEADERS)


class MailDelivery:
    """Attempts deliveries of mails, one at a time."""

    def __init__(self, context: DeliveryContext) -> None:
        self._context = context
        self._server = MailServer(context.settings.mail)
        # Chain and number of files by account and snapshot, read once for the recipients of a batch.
        self._published: dict[tuple[str, str], tuple[Chain | None, int]] = {}

    async def attempt(self, delivery: Delivery) -> bool:
        """Send a mail and record the result, or end a delivery that is no longer wanted. Raises Unavailable.

        Return False if the mail server cannot be used.
        """
        context, now, timings = self._context, self._context.clock(), self._context.timings
        subject = await context.state.aread(lambda stores: self._subject(stores, delivery))
        refusal = await self._refusal(delivery, subject)
        if subject is None or refusal:
            await context.state.awrite(lambda stores: stores.deliveries.skip(delivery, now, refusal))
            return True
        with display_for(subject.seat):
            content = await self._content(delivery, subject)
        keyring = context.keyring.current()
        message = mail_message(context.settings, keyring, delivery, subject.seat, content, context.clock())
        began = context.ticks()
        outcome = await asyncio.to_thread(self._server.send, message)
        milliseconds = round((context.ticks() - began) * 1000)
        attempt = Attempt(delivery.attempts + 1, now, outcome.status, outcome.detail, milliseconds)
        state, retry_at = DeliveryState.DELIVERED, None
        if not outcome.is_success:
            longest = timings.mail_server_after if outcome.is_server_fault else timings.refused_mail_after
            retry_at = timings.retry_at(attempt.number, delivery.created_at, now, longest)
            retry_at = None if outcome.is_permanent else retry_at
            state = DeliveryState.FAILED if retry_at is None else DeliveryState.PENDING
        await context.state.awrite(
            lambda stores: stores.deliveries.record(delivery, attempt, state, next_attempt_at=retry_at)
        )
        _log.info(
            "mail.attempted",
            delivery_id=delivery.delivery_id,
            seat_id=delivery.seat_id,
            type=delivery.type,
            attempt=attempt.number,
            status=outcome.status,
            detail=_ADDRESS.sub("…", outcome.detail),
            milliseconds=milliseconds,
        )
        return not outcome.is_server_fault

    async def end_batch(self) -> None:
        """Close the connection to the mail server, and forget what its mails had in common."""
        self._published.clear()
        await asyncio.to_thread(self._server.disconnect)

    def _subject(self, stores: Stores, delivery: Delivery) -> MailSubject | None:
        """Return what the mail is about. None for a seat that was disabled or removed."""
        apply_revocations(self._context.keyring, stores)
        seat = stores.seats.by_id(delivery.seat_id or "")
        if seat is None or seat.disabled:
            return None
        accounts = [
            each
            for each in stores.seats.granted_accounts(seat.seat_id)
            if each.account.active and each.grant.data_export
        ]
        data = msgspec.json.decode(delivery.body)
        with display_for(seat):
            briefs = self._briefs(stores, data, accounts) if delivery.type is EventType.SNAPSHOT_PUBLISHED else {}
        return MailSubject(self._context.settings, data, seat, accounts, briefs)

    def _briefs(
        self, stores: Stores, data: Mapping[str, object], accounts: Sequence[GrantedAccount]
    ) -> dict[str, tuple[str, ...]]:
        """Return what changed for the accounts that the mail names, by client id."""
        snapshot_id = str(data["snapshot_id"])
        briefs = {}
        for client_id in [each.account.client_id for each in accounts[:MAX_ACCOUNTS]]:
            found = self._published.get((client_id, snapshot_id))
            if found is None:
                found = stores.deltas.chain(client_id), len(stores.snapshots.manifest(snapshot_id, client_id))
                self._published[client_id, snapshot_id] = found
            briefs[client_id] = publication_brief(found[0], snapshot_id, found[1])
        return briefs

    async def _refusal(self, delivery: Delivery, subject: MailSubject | None) -> str:
        """Return why the mail must not be sent, empty if it may be."""
        if subject is None:
            return "The seat is disabled."
        if not self._context.settings.mail.enabled:
            return "Mail is off."
        if not is_email_address(subject.seat.email):
            return "The seat's email address is invalid. Correct it in the directory."
        now = self._context.clock()
        if delivery.type in LINK_LIFETIMES:
            if now >= delivery.created_at + LINK_LIFETIMES[delivery.type]:
                return "The request expired."
            seat_id, since = subject.seat.seat_id, subject.at
            ended = await self._context.state.aread(lambda stores: stores.seats.links_ended(seat_id, since=since))
            return "The credentials of the seat ended after the request." if ended else ""
        if delivery.attempts:
            return ""
        rules = [ThrottleRule(f"mail:{subject.seat.seat_id}", MAX_PER_DAY, _DAY_SECONDS)]
        if delivery.type not in _ALARMING:
            rules.append(ThrottleRule(f"mail:{subject.seat.seat_id}:routine", MAX_ROUTINE_PER_DAY, _DAY_SECONDS))
        refused = await self._context.state.awrite(lambda stores: stores.throttle.count(rules, now))
        return f"The seat received {refused.rule.limit} mails within a day." if refused is not None else ""

    async def _content(self, delivery: Delivery, subject: MailSubject) -> MailContent:
        if delivery.type not in LINK_LIFETIMES:
            return content_of(delivery, subject)
        context = self._context
        if not await context.state.aread(lambda stores: has_password_login(stores, subject.seat)):
            return no_password(subject)
        # Created here, because a secret must not be in the outbox. Another attempt creates another one.
        token, reset = create_reset(subject.seat, delivery.type, subject.at, context.clock(), context.random)
        await context.state.awrite(lambda stores: stores.password_resets.replace(reset))
        return content_with_link(delivery, subject, token)


def mail_message(
    settings: Settings, keyring: Keyring, delivery: Delivery, seat: Seat, content: MailContent, now: datetime
) -> EmailMessage:
    """Return the message of a delivery. Mails about files and runs have an unsubscribe link, those about
    security have none.

    The link also works with one click, without a sign-in (RFC 8058).
    """
    unsubscribe_url = ""
    if delivery.type in _WITH_UNSUBSCRIBE_LINK:
        token = unsubscribe_token(seat.seat_id, delivery.type, keyring=keyring)
        unsubscribe_url = f"{settings.base_url}{UNSUBSCRIBE_PATH}/{token}"
    variables = {"content": content, "base_url": settings.base_url, "unsubscribe_url": unsubscribe_url}
    message = EmailMessage(policy=_POLICY)
    message["From"] = Address("Daybreak", addr_spec=settings.mail.sender)
    local, _, domain = seat.email.rpartition("@")
    message["To"] = Address(username=local, domain=domain)
    # Without line breaks and encoded words (RFC 2047 §2), which Python would decode to anything, line breaks included.
    message["Subject"] = " ".join(HIDDEN_CHARACTERS.sub(" ", content.subject).replace("=?", "= ?").split())
    message["Date"] = format_datetime(now)
    # The same on every attempt, so that a mail server can recognize a repetition.
    message["Message-ID"] = f"<{delivery.delivery_id}@{urlsplit(settings.base_url).hostname}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834 §5
    if unsubscribe_url:
        message["List-Unsubscribe"] = f"<{unsubscribe_url}>"
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message.set_content(_templates().get_template("mail.txt").render(variables))
    message.add_alternative(_templates().get_template("mail.html").render(variables), subtype="html")
    return message


@cache
def _templates() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=select_autoescape(("html",)),
        undefined=StrictUndefined,
        # Without characters that change how the rest of a mail is read.
        finalize=lambda value: HIDDEN_CHARACTERS.sub(" ", value) if isinstance(value, str) else value,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
