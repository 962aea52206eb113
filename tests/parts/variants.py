"""Parameters of tests, of which `make test` takes one and `make test-release` the others."""

import pytest


def one_of(first: object, *others: object) -> list[object]:
    """Return the parameters for `make test` and `make test-release`. A tuple has the values of several names."""
    rest = [other if isinstance(other, tuple) else (other,) for other in others]
    return [first, *(pytest.param(*other, marks=pytest.mark.release) for other in rest)]
