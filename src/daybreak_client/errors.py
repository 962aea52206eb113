"""Every error of the client, one tree.

ClientError
├── WrongUse            an address, account or file that cannot be meant; says what to write
├── Refused             the service said no: `code`, `status` and `request_id` are the service's own
│   └── NotPublished    there are no files of the account yet; `retry_after_seconds` says when to ask again
├── Unreachable         the service or the store of its files does not answer, or is busy; worth another try later
└── Damaged             what came is not what was published
"""

from __future__ import annotations


class ClientError(Exception):
    """Base of the tree. The message is fit for the person who gets it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class WrongUse(ClientError):
    """What was asked for cannot be meant."""


class Refused(ClientError):
    """The service refused a request. Its codes stand on the service's page of errors."""

    def __init__(self, message: str, *, code: str, status: int, request_id: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.request_id = request_id


class NotPublished(Refused):
    """No snapshot holds files of this account yet."""

    def __init__(self, message: str, *, request_id: str = "", retry_after_seconds: float = 60.0) -> None:
        super().__init__(message, code="snapshot_not_ready", status=404, request_id=request_id)
        self.retry_after_seconds = retry_after_seconds


class Unreachable(ClientError):
    """No answer, or one that says to come back later."""


class Damaged(ClientError):
    """The octets that came do not have the digest that was published."""
