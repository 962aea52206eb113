"""The models in other engines' SQL."""

import subprocess
import sys

import pytest

from daybreak.domain.errors import SourceError
from daybreak.sources.dialects import in_dialect


def test_a_select_is_put_into_another_dialect() -> None:
    assert in_dialect("SELECT ifnull(a, 'b') AS a FROM t", "postgres") == "SELECT COALESCE(a, 'b') AS a FROM t"


def test_what_cannot_be_put_so_says_why() -> None:
    with pytest.raises(SourceError, match="cannot be put into the SQL of postgres"):
        in_dialect("SELECT (", "postgres")


def test_a_reading_of_our_own_models_in_postgresql_does_not_wait_for_the_translator() -> None:
    program = "import sys, daybreak.sources.postgresql\nprint('sqlglot' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
