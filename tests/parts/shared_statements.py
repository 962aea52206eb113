"""Compiled SQL for all engines of a test process.

SQLAlchemy keeps it per engine. Each test opens its own database, and would spend a fifth of its time compiling the same
statements again.
"""

from collections import defaultdict
from typing import Any

import sqlalchemy as sa


class _Statements(dict[tuple[Any, ...], Any]):
    """Compiled statements of one kind of database. The first part of a key is the dialect object of an engine."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        super().__setitem__(key[1:], compiled)


_create_engine = sa.create_engine
_statements: defaultdict[tuple[str, str], _Statements] = defaultdict(_Statements)


def _create_engine_with_statements(*arguments: Any, **options: Any) -> sa.Engine:
    engine = _create_engine(*arguments, **options)
    engine.update_execution_options(compiled_cache=_statements[engine.name, engine.driver])
    return engine


def install() -> None:
    """Let engines that are created from now on share what they compile."""
    sa.create_engine = _create_engine_with_statements
