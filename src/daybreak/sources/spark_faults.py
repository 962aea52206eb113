"""Spark's errors in words for an operator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile

from pyspark.errors import AnalysisException, ParseException, PySparkException

from daybreak.domain.errors import SourceError, SourceUnavailable

_AFTER_TRACE = re.compile(r"\s*(SQLSTATE|JVM stacktrace|Driver stacktrace|at [\w.$]+\()")
_FOUND_IN_A_TASK = f"{SourceError.__module__}.{SourceError.__qualname__}: "


@contextmanager
def spark_faults(what: str) -> Iterator[None]:
    """Spark's errors as ours: what the analyser refuses stays wrong, and so does what a task found wrong with the rows;
    a job that failed otherwise may work again.
    """
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise SourceError(f"{what} (Spark): {words_of(error)}") from error
    except PySparkException as error:
        words = words_of(error)
        if words.startswith(_FOUND_IN_A_TASK):
            raise SourceError(f"{what} (Spark): {words.removeprefix(_FOUND_IN_A_TASK)}") from error
        raise SourceUnavailable(f"{what} (Spark): {words}") from error


def words_of(error: Exception) -> str:
    """The error's first line; of what was raised in a task's Python, its last: before it stands the way there."""
    lines = str(error).strip().splitlines()
    trace = [number for number, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    if not trace:
        return lines[0] if lines else type(error).__name__
    raised = takewhile(lambda line: not _AFTER_TRACE.match(line), lines[trace[0] + 1 :])
    return next((line for line in reversed([*raised]) if line[:1].strip()), lines[0])
