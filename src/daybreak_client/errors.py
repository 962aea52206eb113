"""The class hierarchy of the client's errors, and the exit codes of the command.

ClientError
├── WrongUse            an invalid URL, account or file name; the message names the fix
├── Refused             the service refused the request: `code`, `status` and `request_id` are the service's own
│   └── NotPublished    the account has no files yet; `retry_after_seconds` is the time until the next attempt
├── Late                the files of the day are not published yet
│   └── Expired         the statement or certificate of the files is no longer valid: they are late, or an old copy
├── Unreachable         the service or its file store does not answer or is busy; try again later
├── Busy                another fetch or sync uses the folder or database
├── Damaged             received or stored content is not the published one
├── NotProved           a statement, signature or trust file is wrong, or files differ from their statement
├── Unsigned            the files have no signed statement
└── DatabaseFailed      the database of a sync reported an error
"""

import re

_ERROR_NUMBER = re.compile(r"\[(?:Errno -?\d+|(?:SSL|X509)[^\]]*)\] | \(_ssl\.c:\d+\)")
LEFT_OVER = 9

EXIT_CODES = {
    0: "success",
    1: "failure, such as a full disk or an error of the database",
    2: "invalid use",
    3: "refused: the service does not accept the token, or does not permit the request",
    4: "late: the files of the day are not published yet, or the statement of the files has expired",
    5: "unreachable: the service or its file store does not answer or is busy; try again later",
    6: "wrong: content differs from its published digest, or a signature or statement is not valid for it",
    7: "unsigned: the files have no signed statement",
    8: "busy: another fetch or sync uses the folder or database",
    LEFT_OVER: "left over: a folder or database contains an account that you can no longer access; see `--prune`",
    130: "interrupted",
}


class ClientError(Exception):
    """Base of all errors. The message is written for the user. `exit_code` is the exit code of the command."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class WrongUse(ClientError):
    """An invalid argument."""

    exit_code = 2


class Refused(ClientError):
    """The service refused a request. The service's error reference lists the codes."""

    exit_code = 3

    def __init__(self, message: str, *, code: str, status: int, request_id: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.request_id = request_id


class NotPublished(Refused):
    """No snapshot contains files of this account yet."""

    exit_code = 4

    def __init__(self, message: str, *, request_id: str = "", retry_after_seconds: float = 60.0) -> None:
        super().__init__(message, code="snapshot_not_ready", status=404, request_id=request_id)
        self.retry_after_seconds = retry_after_seconds


class Late(ClientError):
    """The files of the day are not published yet."""

    exit_code = 4


class Expired(Late):
    """The statement or the certificate of the files is no longer valid."""


class NotProved(ClientError):
    """The files are not proved to be those that the service published for the account."""

    exit_code = 6


class Unsigned(ClientError):
    """The files have no signed statement."""

    exit_code = 7


class Unreachable(ClientError):
    """The service does not answer, or requests a later retry."""

    exit_code = 5


class Busy(ClientError):
    """Another process uses the folder or database."""

    exit_code = 8


class Damaged(ClientError):
    """Received or stored content does not have the published digest."""

    exit_code = 6


class DatabaseFailed(ClientError):
    """The database of a sync is unavailable or reported an error. Its tables are unchanged."""


def reason_of(error: Exception) -> str:
    """Return the message of another library's error in one line, without the numbers of system errors."""
    return _ERROR_NUMBER.sub("", " ".join(str(error).split())).rstrip(".") or type(error).__name__
