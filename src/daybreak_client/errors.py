"""The class hierarchy of the client's errors.

ClientError
├── WrongUse            an invalid URL, account or file name; the message names the fix
├── Refused             the service refused the request: `code`, `status` and `request_id` are the service's own
│   └── NotPublished    the account has no files yet; `retry_after_seconds` is the time until the next attempt
├── Unreachable         the service or its file store does not answer or is busy; try again later
└── Damaged             the received file is not the published one
"""

from __future__ import annotations


class ClientError(Exception):
    """Base of all errors. The message is written for the user."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class WrongUse(ClientError):
    """An invalid argument."""


class Refused(ClientError):
    """The service refused a request. The service's error reference lists the codes."""

    def __init__(self, message: str, *, code: str, status: int, request_id: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.request_id = request_id


class NotPublished(Refused):
    """No snapshot contains files of this account yet."""

    def __init__(self, message: str, *, request_id: str = "", retry_after_seconds: float = 60.0) -> None:
        super().__init__(message, code="snapshot_not_ready", status=404, request_id=request_id)
        self.retry_after_seconds = retry_after_seconds


class Unreachable(ClientError):
    """The service does not answer, or requests a later retry."""


class Damaged(ClientError):
    """The received file does not have the published digest."""
