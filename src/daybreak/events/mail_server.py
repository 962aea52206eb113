"""Connection to the mail server (SMTP, RFC 5321), with TLS.

`smtps://` uses TLS from the start (RFC 8314 §3.3), `smtp://` STARTTLS (RFC 3207), which is required unless the server
is on this machine: mails contain links that set a password.
"""

import contextlib
import smtplib
import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from urllib.parse import urlsplit

from daybreak.domain.errors import OperatorError, first_line
from daybreak.settings import MailSettings
from daybreak.settings.text_forms import LOOPBACK_HOSTS

TIMEOUT_SECONDS = 15.0
_OK, _CLOSING = 250, 421
_DEFAULT_PORTS = {"smtp": 587, "smtps": 465}


@dataclass(frozen=True, slots=True)
class MailOutcome:
    """Result of sending a mail. `status` is the SMTP reply code, None without one."""

    status: int | None
    detail: str
    is_success: bool = False
    is_permanent: bool = False


class MailServer:
    """One connection at a time, opened for the first mail and kept until `disconnect`. Used by one thread at a time."""

    def __init__(self, settings: MailSettings) -> None:
        self._settings = settings
        self._connection: smtplib.SMTP | None = None

    def send(self, message: EmailMessage) -> MailOutcome:
        """Send a mail. Problems of the server are results, not errors.

        Only a refusal of the recipient or the content is permanent. Any other concerns the settings or the server.
        """
        is_reused = self._connection is not None
        try:
            self._open().send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            return self._refused(*next(iter(error.recipients.values())))
        except smtplib.SMTPDataError as error:
            return self._refused(error.smtp_code, error.smtp_error)
        except (smtplib.SMTPException, OSError) as error:
            # The address has letters that the server does not accept (RFC 6531).
            is_permanent = isinstance(error, smtplib.SMTPNotSupportedError) and self._connection is not None
            self.disconnect()
            status = error.smtp_code if isinstance(error, smtplib.SMTPResponseException) else None
            if is_reused and status == _CLOSING:
                return self.send(message)
            return MailOutcome(status, f"The mail server cannot be used: {_reason(error)}.", is_permanent=is_permanent)
        return MailOutcome(250, "Accepted.", is_success=True)

    def _open(self) -> smtplib.SMTP:
        """Return the open connection, or a new one if the server ended it, as some do after each mail."""
        if self._connection is not None:
            with contextlib.suppress(smtplib.SMTPException, OSError):
                if self._connection.rset()[0] == _OK:
                    return self._connection
            self.disconnect()
        self._connection = self._connect()
        return self._connection

    def check(self) -> str:
        """Connect and sign in, and return a description. Raises OperatorError that names the setting."""
        try:
            connection = self._connect()
            connection.noop()
            connection.quit()
        except (smtplib.SMTPException, OSError) as error:
            raise OperatorError(f"mail.url: {self._settings.url} cannot be used: {_reason(error)}.") from None
        user = f" as {self._settings.username}" if self._settings.username else ""
        return f"{self._settings.url}{user}, from {self._settings.sender}"

    def disconnect(self) -> None:
        """Close the connection, if any."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _refused(self, status: int, reply: bytes | str) -> MailOutcome:
        self.disconnect()
        return MailOutcome(status, _one_line(reply), is_permanent=500 <= status < 600)

    def _connect(self) -> smtplib.SMTP:
        parts = urlsplit(self._settings.url)
        host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme]
        context = ssl.create_default_context()
        if parts.scheme == "smtps":
            connection: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_SECONDS, context=context)
        else:
            connection = smtplib.SMTP(host, port, timeout=TIMEOUT_SECONDS)
        try:
            connection.ehlo()
            if parts.scheme == "smtp" and (connection.has_extn("starttls") or host not in LOOPBACK_HOSTS):
                connection.starttls(context=context)
                connection.ehlo()
            if self._settings.username:
                connection.login(self._settings.username, self._settings.password.get_secret_value())
        except (smtplib.SMTPException, OSError):
            connection.close()
            raise
        return connection


def _one_line(reply: bytes | str) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return " ".join(text.split())[:200]


def _reason(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{error.smtp_code} {_one_line(error.smtp_error)}"
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "the port does not begin with TLS. Use smtp://, which requires STARTTLS"
    return first_line(error).rstrip(".")
