"""Every error of the service, one tree.

DaybreakError
├── RequestError                what a client did; the web floor maps each code to one HTTP status
│   ├── InvalidRequest          invalid_request (with the fields at fault)
│   ├── Unauthenticated         invalid_credentials, invalid_token, session_ended, ...
│   ├── Forbidden               not_your_account, account_inactive, no_active_account, ...
│   ├── NotFound                not_found, snapshot_not_ready, ...
│   ├── RateLimited             rate_limited
│   └── Conflict                conflict
├── Unavailable                 state_unavailable, files_unavailable, busy (transient: try again)
├── SourceError                 the platform's data cannot be read, or is not what was promised
│   └── SourceUnavailable       it went away (transient)
├── RunError                    a run that cannot go on: disk short, verification failed, ...
│   ├── CarryFailed             an earlier file cannot be used again (transient)
│   └── RunFenced               another builder has the run
├── FileStoreError              a file cannot be written, read or verified
│   ├── StoreFull               disk_short
│   └── FileDamaged             file_damaged
└── OperatorError               what an operator asked for cannot be done; says what to do

Every code that a client can meet, with its status, stands in `web.problems` and in docs/errors.md.
"""

from __future__ import annotations

from dataclasses import dataclass


class DaybreakError(Exception):
    """Base of the tree. `code` is stable; the message is fit for the person who gets it."""

    code: str = "internal_error"
    transient: bool = False

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


@dataclass(frozen=True, slots=True)
class FieldFault:
    """One field of a request that is wrong: `pointer` names it, `detail` says what to send."""

    pointer: str
    detail: str


class RequestError(DaybreakError):
    """The request cannot be answered as it was sent."""

    code = "invalid_request"


class InvalidRequest(RequestError):
    """A body, field or parameter has the wrong shape."""

    def __init__(self, message: str, *, code: str | None = None, faults: tuple[FieldFault, ...] = ()) -> None:
        super().__init__(message, code=code)
        self.faults = faults


class Unauthenticated(RequestError):
    """No credential, or one that is not good (401)."""

    code = "invalid_token"


class Forbidden(RequestError):
    """The credential is good, the act is not allowed (403)."""

    code = "not_your_account"


class NotFound(RequestError):
    """Nothing is there (404); `retry_after_seconds` when it will be."""

    code = "not_found"

    def __init__(self, message: str, *, code: str | None = None, retry_after_seconds: int | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after_seconds = retry_after_seconds


class Conflict(RequestError):
    """Something is already there or already decided (409)."""

    code = "conflict"


class RateLimited(RequestError):
    """Too many attempts (429); `retry_after_seconds` says when the next one is counted."""

    code = "rate_limited"
    transient = True

    def __init__(
        self,
        message: str,
        *,
        retry_after_seconds: int,
        limit: int = 0,
        window_seconds: int = 0,
    ) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.limit = limit
        self.window_seconds = window_seconds


class Unavailable(DaybreakError):
    """A part the answer needs is away or busy (503)."""

    code = "unavailable"
    transient = True

    def __init__(self, message: str, *, code: str | None = None, retry_after_seconds: int = 5) -> None:
        super().__init__(message, code=code)
        self.retry_after_seconds = retry_after_seconds


class SourceError(DaybreakError):
    """The platform's data cannot be read, or is not what the contract says. Lists every fault."""

    code = "source_fault"


class SourceUnavailable(SourceError):
    """The source went away or cancelled the reading; the run is tried again."""

    code = "source_unavailable"
    transient = True


class RunError(DaybreakError):
    """A run that cannot go on. Codes: `run_failed`, `disk_short`, `verification_failed`,
    `run_stopped` (the process is ending)."""

    code = "run_failed"


class CarryFailed(RunError):
    """A file of an earlier snapshot cannot be carried over; the run is tried again and writes all files anew."""

    code = "carry_failed"
    transient = True


class RunFenced(RunError):
    """Another builder took the run over: this one must not write any more."""

    code = "run_fenced"


class FileStoreError(DaybreakError):
    """A file cannot be written, read or verified. `file_damaged` when its digest is wrong."""

    code = "file_store_fault"


class StoreFull(FileStoreError):
    """No room, or no leave, to write more: the disk or its quota is full."""

    code = "disk_short"


class FileDamaged(FileStoreError):
    """A stored file does not match the digest in the manifest; it is not served."""

    code = "file_damaged"


class OperatorError(DaybreakError):
    """What the operator asked for cannot be done; the message names the setting and the fix. Also `wrong_use` (what was
    typed is at fault), `directory_faults` (accounts, seats or grants are), `directory_sync_refused` (a sync would take
    too much away), `weak_password`."""

    code = "operator_error"
