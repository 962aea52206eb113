"""Errors of the system as errors of the file store."""

import errno
import os

from daybreak.domain.errors import FileStoreError, StoreFull

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class translated_os_errors:  # noqa: N801 - used as `with translated_os_errors(...):`
    """Context manager that raises FileStoreError or StoreFull in place of errors of the system. `failure` is the first
    part of the message.
    """

    __slots__ = ("_failure",)

    def __init__(self, failure: str) -> None:
        self._failure = failure

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            reason = os.strerror(error.errno) if error.errno else str(error)
            if error.errno in _FULL:
                raise StoreFull(
                    f"{self._failure}: {reason}. Free disk space or inodes (`df -i`), then run again."
                ) from error
            raise FileStoreError(f"{self._failure}: {reason}.") from error
