"""The class hierarchy of the service's errors.

DaybreakError
├── RequestError                a client's error; `web` maps each code to one HTTP status
│   ├── InvalidRequest          invalid_request (with the fields at fault)
│   ├── Unauthenticated         invalid_credentials, invalid_token, session_ended, ...
│   ├── Forbidden               not_your_account, account_inactive, no_active_account, ...
│   ├── NotFound                not_found, snapshot_not_ready, ...
│   ├── RateLimited             rate_limited
│   ├── Conflict                conflict
│   │   └── StatementsOutdated  the signed statements are not those of the publication
│   └── ChainClosed             chain_closed
├── Unavailable                 state_unavailable, files_unavailable, busy (transient: try again)
│   └── ProviderUnavailable     provider_unavailable
├── SourceError                 the platform's data cannot be read or violates the contract
│   └── SourceUnavailable       the source is unavailable (transient)
├── RunError                    a run cannot continue: disk short, verification failed, ...
│   ├── ReuseFailed             an earlier file cannot be reused (transient)
│   └── RunFenced               another builder took over the run
├── FileStoreError              a file cannot be written, read or verified
│   ├── StoreFull               disk_short
│   └── FileDamaged             file_damaged
└── OperatorError               an operator's request cannot be carried out; the message names the fix
    └── WrongUse                arguments of a command are invalid

`web.http.problems` and docs/reference/errors.md list every code that a client can receive, with its status.
"""

import os
import re
from dataclasses import dataclass

_ERROR_NUMBER = re.compile(r"\[(?:Errno -?\d+|SSL: \w+)\] | \(_ssl\.c:\d+\)")
# A number, or from the first quote or bracket. Servers quote in their own language.
_VALUE = re.compile(r"""(?:\bvalue +[\d-]|["'«„“(]).*""")


class DaybreakError(Exception):
    """Base of all errors. `code` is stable; the message is written for the person who receives it."""

    code: str = "internal_error"
    transient: bool = False

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


@dataclass(frozen=True, slots=True)
class FieldFault:
    """One invalid field of a request: `pointer` is its JSON Pointer, `detail` the fix."""

    pointer: str
    detail: str


class RequestError(DaybreakError):
    """The request is invalid."""

    code = "invalid_request"


class InvalidRequest(RequestError):
    """A body, field or parameter is invalid (400)."""

    def __init__(self, message: str, *, code: str | None = None, faults: tuple[FieldFault, ...] = ()) -> None:
        super().__init__(message, code=code)
        self.faults = faults


class Unauthenticated(RequestError):
    """The credential is missing or invalid (401)."""

    code = "invalid_token"


class Forbidden(RequestError):
    """The credential is valid, but the action is not allowed (403)."""

    code = "not_your_account"


class NotFound(RequestError):
    """The resource does not exist (404). `retry_after_seconds` is set if it will exist later."""

    code = "not_found"

    def __init__(self, message: str, *, code: str | None = None, retry_after_seconds: int | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after_seconds = retry_after_seconds


class Conflict(RequestError):
    """The request conflicts with the current state, such as an object that already exists (409)."""

    code = "conflict"


class StatementsOutdated(Conflict):
    """The signed statements of a snapshot are not those of its publication. Sign them again."""


class ChainClosed(RequestError):
    """A consumer's version is not in the chain of deltas (410). `manifest` is the path of the full files' manifest."""

    code = "chain_closed"

    def __init__(self, message: str, *, reason: str, manifest: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.manifest = manifest


class RateLimited(RequestError):
    """Too many attempts (429). `retry_after_seconds` is the time until the next one is allowed."""

    code = "rate_limited"
    transient = True

    def __init__(self, message: str, *, retry_after_seconds: int, limit: int = 0, window_seconds: int = 0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.limit = limit
        self.window_seconds = window_seconds


class Unavailable(DaybreakError):
    """A required component is unavailable or busy (503)."""

    code = "unavailable"
    transient = True

    def __init__(self, message: str, *, code: str | None = None, retry_after_seconds: int = 5) -> None:
        super().__init__(message, code=code)
        self.retry_after_seconds = retry_after_seconds


class ProviderUnavailable(Unavailable):
    """The provider of single sign-on cannot be reached or sends invalid responses. `detail` is for operators."""

    code = "provider_unavailable"

    def __init__(self, detail: str) -> None:
        super().__init__("The sign-in provider does not respond correctly. Try again shortly.", retry_after_seconds=30)
        self.detail = detail


class SourceError(DaybreakError):
    """The platform's data cannot be read or violates the contract. Lists every fault."""

    code = "source_fault"


class SourceUnavailable(SourceError):
    """The source became unavailable or canceled a query. The run is retried."""

    code = "source_unavailable"
    transient = True


class RunError(DaybreakError):
    """A run cannot continue. Codes: `run_failed`, `disk_short`, `verification_failed`, `run_stopped` (the process is
    stopping)."""

    code = "run_failed"


class ReuseFailed(RunError):
    """A file of an earlier snapshot cannot be reused. The next attempt writes all files."""

    code = "carry_failed"
    transient = True


class RunFenced(RunError):
    """Another builder took over the run. This one must stop writing."""

    code = "run_fenced"


class FileStoreError(DaybreakError):
    """A file cannot be written, read or verified."""

    code = "file_store_fault"


class StoreFull(FileStoreError):
    """The disk is full or its quota is exhausted."""

    code = "disk_short"


class FileDamaged(FileStoreError):
    """A stored file does not match its digest in the manifest. It is not served."""

    code = "file_damaged"


class OperatorError(DaybreakError):
    """An operator's request cannot be carried out. The message names the setting and the fix. Also `directory_faults`
    (invalid accounts, seats or grants), `directory_sync_refused` (a sync would remove too much), `weak_password`."""

    code = "operator_error"


class WrongUse(OperatorError):
    """The arguments of a command are invalid."""

    code = "wrong_use"


CONNECTION_ADVICE = "Check host, port, database, role and sslmode. A password may come from PGPASSWORD or ~/.pgpass."


class ReasonError(Exception):
    """An error that its caller handles. `reason` is a short stable word."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic of a compiled library. Its class cannot be imported, and is not an Exception,
    so that `except Exception` does not catch it.
    """
    return type(error).__name__ == "PanicException"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without the numbers of system errors.

    Drivers and engines append hints and positions in further lines.
    """
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return _ERROR_NUMBER.sub("", line)


def without_value(error: BaseException) -> str:
    """Return the first line of an error about a value, up to the value. No message may contain a cell of a row."""
    return _VALUE.sub("…", first_line(error))


def root_cause(error: BaseException) -> str:
    """Return why a connection failed, which the errors of HTTP libraries hide, else its first line."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, ConnectionError) and inner.errno:
            return os.strerror(inner.errno)
        inner = inner.__cause__ or inner.__context__
    return first_line(error)
