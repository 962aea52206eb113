"""Connection to the mail server (SMTP, RFC 5321), with TLS.

`smtps://` uses TLS from the start (RFC 8314 §3.3), `smtp://` STARTTLS (RFC 3207), which is required unless the server
is on this machine: mails contain links that set a password.
"""

import binascii
import contextlib
import io
import smtplib
import socket
import ssl
import time
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any
from urllib.parse import urlsplit

from daybreak.domain.errors import OperatorError, first_line
from daybreak.domain.visible_text import HIDDEN_CHARACTERS
from daybreak.settings import MailSettings
from daybreak.settings.text_forms import LOOPBACK_HOSTS

MAIL_SECONDS = 25.0
"""Maximum time for one mail, sign-in included. Less than half of the lease of the deliverer."""
_CONNECT_SECONDS = 10.0
_MAX_REPLY_BYTES = 64 * 1024
_OK, _CLOSING = 250, 421
_DEFAULT_PORTS = {"smtp": 587, "smtps": 465}


@dataclass(frozen=True, slots=True)
class MailOutcome:
    """Result of sending a mail. `status` is the SMTP reply code, None without one. `is_server_fault`: no mail can be
    sent.
    """

    status: int | None
    detail: str
    is_success: bool = False
    is_permanent: bool = False
    is_server_fault: bool = False


class _Replies(io.RawIOBase):
    """What a server sends until an instant in monotonic seconds, up to a number of bytes."""

    def __init__(self, source: socket.socket, until: float) -> None:
        self._source, self._until, self._left = source, until, _MAX_REPLY_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        seconds = self._until - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("timed out")
        if self._left <= 0:
            raise OSError("the server sent too much")
        self._source.settimeout(seconds)
        received = self._source.recv_into(buffer)
        self._left -= received
        return received


class _Connection(smtplib.SMTP):
    """Connection whose replies arrive until an instant. `smtplib` alone waits for each byte of a reply separately."""

    def __init__(self, host: str, port: int, until: float, **options: Any) -> None:
        self._until = until
        super().__init__(host, port, timeout=_CONNECT_SECONDS, **options)

    def extend(self, until: float) -> None:
        """Use the connection for another mail, until that instant."""
        self._until, self.file = until, None

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = io.BufferedReader(_Replies(self.sock, self._until))
        status, text = super().getreply()
        if status < 0:
            self.close()
            raise smtplib.SMTPServerDisconnected("it does not answer with SMTP")
        return status, text


class _TlsConnection(_Connection, smtplib.SMTP_SSL):
    """The same with TLS from the start."""


class MailServer:
    """One connection at a time, opened for the first mail and kept until `disconnect`. Used by one thread at a time."""

    def __init__(self, settings: MailSettings, *, mail_seconds: float = MAIL_SECONDS) -> None:
        self._settings, self._mail_seconds = settings, mail_seconds
        self._connection: _Connection | None = None

    def send(self, message: EmailMessage) -> MailOutcome:
        """Send a mail. Problems of the server are results, not errors.

        Only a refusal of the recipient or the content is permanent. Any other concerns the settings or the server.
        """
        return self._send(message, time.monotonic() + self._mail_seconds)

    def _send(self, message: EmailMessage, until: float) -> MailOutcome:
        is_reused = self._connection is not None
        try:
            self._open(until).send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            return self._refused(*next(iter(error.recipients.values())))
        except smtplib.SMTPDataError as error:
            return self._refused(error.smtp_code, error.smtp_error)
        except (smtplib.SMTPException, OSError) as error:
            # The recipient's address has letters that the server does not accept (RFC 6531).
            is_refused = isinstance(error, smtplib.SMTPNotSupportedError) and self._connection is not None
            is_permanent = is_refused and self._settings.sender.isascii()
            self.disconnect()
            status = error.smtp_code if isinstance(error, smtplib.SMTPResponseException) else None
            if is_reused and status == _CLOSING:
                return self._send(message, until)
            detail = f"The mail server cannot be used: {_reason(error)}."
            return MailOutcome(status, detail, is_permanent=is_permanent, is_server_fault=not is_permanent)
        return MailOutcome(250, "Accepted.", is_success=True)

    def _open(self, until: float) -> _Connection:
        """Return the open connection, or a new one if the server ended it, as some do after each mail."""
        if self._connection is not None:
            self._connection.extend(until)
            with contextlib.suppress(smtplib.SMTPException, OSError):
                if self._connection.rset()[0] == _OK:
                    return self._connection
            self.disconnect()
        self._connection = self._connect(until)
        return self._connection

    def check(self) -> str:
        """Connect, sign in, name the sender, and return a description. Raises OperatorError that names the setting."""
        sender = self._settings.sender
        try:
            connection = self._open(time.monotonic() + self._mail_seconds)
            status, reply = connection.mail(sender, () if sender.isascii() else ("SMTPUTF8",))
            if status != _OK:
                raise smtplib.SMTPSenderRefused(status, reply, sender)
        except (smtplib.SMTPException, OSError) as error:
            raise OperatorError(f"mail.url: {self._settings.url} cannot be used: {_reason(error)}.") from None
        finally:
            self.disconnect()
        user = f" as {self._settings.username}" if self._settings.username else ""
        return f"{self._settings.url}{user}, from {sender}"

    def disconnect(self) -> None:
        """Close the connection, if any."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _refused(self, status: int, reply: bytes | str) -> MailOutcome:
        self.disconnect()
        return MailOutcome(status, _one_line(reply), is_permanent=500 <= status < 600)

    def _connect(self, until: float) -> _Connection:
        parts = urlsplit(self._settings.url)
        host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme]
        context = ssl.create_default_context()
        if parts.scheme == "smtps":
            connection: _Connection = _TlsConnection(host, port, until, context=context)
        else:
            connection = _Connection(host, port, until)
        try:
            connection.ehlo_or_helo_if_needed()
            if parts.scheme == "smtp" and (connection.has_extn("starttls") or host not in LOOPBACK_HOSTS):
                connection.starttls(context=context)
                connection.ehlo_or_helo_if_needed()
            if self._settings.username:
                connection.login(self._settings.username, self._settings.password.get_secret_value())
        except binascii.Error:
            connection.close()
            raise smtplib.SMTPException("it asks for the password in an invalid way") from None
        except (smtplib.SMTPException, OSError):
            connection.close()
            raise
        return connection


def _one_line(reply: bytes | str) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return " ".join(HIDDEN_CHARACTERS.sub(" ", text).split())[:200]


def _reason(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{error.smtp_code} {_one_line(error.smtp_error)}"
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "the port does not begin with TLS. Use smtp://, which requires STARTTLS"
    return first_line(error).rstrip(".")
