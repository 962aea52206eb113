"""Spark's errors in the operator's terms."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException

from daybreak.domain.errors import SourceError, SourceUnavailable, without_value

_AFTER_TRACEBACK = re.compile(r"\s*(SQLSTATE|JVM stacktrace|Driver stacktrace|at [\w.$]+\()")
# The class of errors about a value.
_DATA_EXCEPTION = "SQLSTATE: 22"
# `raise_error` and `assert_true` in a view or model.
_RAISED = "SQLSTATE: P0"
_RAISED_IN_TASK = f"{SourceError.__module__}.{SourceError.__qualname__}: "


@contextmanager
def spark_faults(subject: str) -> Iterator[None]:
    """Convert Spark's errors: SourceError for SQL that the analyzer rejects and for rows that a task rejects,
    SourceUnavailable for any other failed job, which may succeed when repeated. `subject` begins the message.
    """
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise SourceError(f"{subject} (Spark): {error_message(error)}") from error
    except (PySparkException, Py4JError) as error:
        message = error_message(error)
        if message.startswith(_RAISED_IN_TASK):
            raise SourceError(f"{subject} (Spark): {message.removeprefix(_RAISED_IN_TASK)}") from error
        raise SourceUnavailable(f"{subject} (Spark): {message}") from error


def error_message(error: Exception) -> str:
    """Return the first line of an error without values, or the last line of a traceback from a task's Python."""
    # An exception of Java that pyspark does not convert, such as that of a file that cannot be read.
    text = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
    lines = text.strip().splitlines()
    tracebacks = [number for number, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    if not tracebacks and _RAISED in text:
        return "the SQL raised an error, whose text may quote a row. Run the query in Spark to see it"
    if not tracebacks:
        return without_value(error) if _DATA_EXCEPTION in text else lines[0] if lines else type(error).__name__
    traceback = takewhile(lambda line: not _AFTER_TRACEBACK.match(line), lines[tracebacks[0] + 1 :])
    return next((line for line in reversed([*traceback]) if line[:1].strip()), lines[0])
