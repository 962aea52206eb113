"""Mails as messages with a plain text part and an HTML part (RFC 5322, RFC 2046 §5.1.4)."""

from __future__ import annotations

import re
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTPUTF8
from email.utils import format_datetime
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from daybreak.credentials.keyring import Keyring
from daybreak.credentials.mail_tokens import unsubscribe_token
from daybreak.domain.events import ACCOUNT_EVENTS, OPERATOR_EVENTS, Delivery
from daybreak.domain.identity import Seat
from daybreak.events.mail_content import MailContent
from daybreak.settings import Settings

UNSUBSCRIBE_PATH = "/dashboard/unsubscribe"
# Without those of security: a forwarded mail, or a link scanner, must not end them. Seats choose them in the dashboard.
_WITH_UNSUBSCRIBE_LINK = frozenset({*ACCOUNT_EVENTS, *OPERATOR_EVENTS})
# Characters that reorder or end the text around them: bidirectional controls and line separators (UAX 9, UAX 14).
_HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


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
    message = EmailMessage(policy=SMTPUTF8)
    message["From"] = Address("Daybreak", addr_spec=settings.mail.sender)
    local, _, domain = seat.email.rpartition("@")
    message["To"] = Address(username=local, domain=domain)
    message["Subject"] = _one_line(content.subject)
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
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def _one_line(text: str) -> str:
    """Return a text without line breaks, which headers must not contain."""
    return " ".join(_HIDDEN.sub(" ", text).split())


def _visible(value: object) -> object:
    """Return a text without characters that change how the rest of a mail is read."""
    return _HIDDEN.sub(" ", value) if isinstance(value, str) else value
