"""Parameters of tests, of which `make test` takes some and `make test-release` the others."""

from collections.abc import Sequence

import pytest


def one_of(first: object, *others: object) -> list[object]:
    """Return the parameters for `make test` and `make test-release`. A tuple has the values of several names."""
    return some_of([first], others)


def some_of(first: Sequence[object], others: Sequence[object]) -> list[object]:
    """Return the parameters for `make test` and `make test-release`. A tuple has the values of several names."""
    rest = [other if isinstance(other, tuple) else (other,) for other in others]
    return [*first, *(pytest.param(*other, marks=pytest.mark.release) for other in rest)]
