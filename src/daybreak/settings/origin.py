"""The origin of a configuration: its file and variables, for validators and sources of values.

Pydantic passes no context to the constructor of a settings model, so a context variable carries it:
https://docs.pydantic.dev/latest/concepts/validators/#validation-context
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Origin:
    """The configuration file, if any, and the environment variables that override it."""

    file: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder that relative paths are resolved against."""
        return self.file.parent if self.file is not None else Path.cwd()


_origin: ContextVar[Origin] = ContextVar("origin", default=Origin())  # noqa: B039 - frozen


def current_origin() -> Origin:
    """Return the origin of the configuration that is being validated."""
    return _origin.get()


@contextmanager
def reading_from(origin: Origin) -> Iterator[None]:
    """Validate settings in this block as settings of `origin`."""
    token = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(token)
