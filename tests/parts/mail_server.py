"""A mail server that keeps what it receives: SMTP with STARTTLS or TLS, authentication, and scripted replies."""

import asyncio
import email
import email.policy
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Any, cast

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from tests.parts.ports import free_port
from tests.parts.waiting import wait_until


@dataclass
class MailServer:
    """A running server. `reply` returns the reply to the nth mail, such as `550 no such user`; None accepts it.
    `closes` ends the connection after each mail.
    """

    url: str
    mails: list[EmailMessage] = field(default_factory=list)
    contents: list[bytes] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    was_encrypted: list[bool] = field(default_factory=list)
    reply: Callable[[int], str | None] = lambda _number: None
    closes: bool = False
    attempts: int = 0

    def wait_for(self, count: int) -> list[EmailMessage]:
        """Wait for that many mails and return them."""
        wait_until(lambda: len(self.mails) >= count, 120)
        return list(self.mails)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd
        self.attempts += 1
        if self.closes:
            asyncio.get_running_loop().call_soon(cast("asyncio.Transport", server.transport).close)
        refusal = self.reply(self.attempts)
        if refusal is not None:
            return refusal
        content = cast("bytes", envelope.content)
        parsed: Any = email.message_from_bytes(content, policy=email.policy.default)
        self.contents.append(content)
        self.mails.append(parsed)
        self.recipients += envelope.rcpt_tos
        self.was_encrypted.append(session.ssl is not None or self.url.startswith("smtps:"))
        return "250 kept"

    def authenticate(self, _server: object, _session: object, _envelope: object, _kind: str, data: Any) -> AuthResult:
        user, password = data.login.decode(), data.password.decode()
        self.logins.append((user, password))
        return AuthResult(success=password == "correct horse", handled=False)


def content_of(mail: EmailMessage, kind: str = "plain") -> str:
    """Return the text of a mail, or its HTML."""
    body = mail.get_body((kind,))
    assert body is not None
    content: str = body.get_content()
    return content


@contextmanager
def mail_server(
    certificate: Path | None = None,
    *,
    implicit_tls: bool = False,
    password_required: bool = False,
    letters: bool = True,
    host: str = "127.0.0.1",
) -> Iterator[MailServer]:
    """Start a server on this machine: plain without a certificate, else with STARTTLS or TLS. `letters` outside of
    ASCII are accepted in addresses.
    """
    port = free_port()
    server = MailServer(f"{'smtps' if implicit_tls else 'smtp'}://{host}:{port}")
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    options: dict[str, Any] = {"enable_SMTPUTF8": letters}
    if password_required:
        options |= {
            "authenticator": server.authenticate,
            "auth_required": True,
            "auth_require_tls": context is not None and not implicit_tls,
        }
    if context is not None and not implicit_tls:
        options |= {"tls_context": context, "require_starttls": True}
    controller = Controller(server, hostname=host, port=port, ssl_context=context if implicit_tls else None, **options)
    controller.start()
    try:
        yield server
    finally:
        controller.stop()
