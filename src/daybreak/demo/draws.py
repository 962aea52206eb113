"""Random values as SQL expressions of a row number.

A draw hashes the row number plus a constant derived from the seed and the name of the draw. Expressions depend only on
their row, so the same seed produces the same rows with any number of threads.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from daybreak.export.sql import literal


def text_list(texts: Iterable[str | None]) -> str:
    """Return texts as a SQL list literal. None becomes NULL."""
    return "[" + ", ".join("NULL" if text is None else literal(text) for text in texts) + "]::VARCHAR[]"


def number_list(numbers: Iterable[int]) -> str:
    """Return numbers as a SQL list literal of BIGINT."""
    return "[" + ", ".join(str(number) for number in numbers) + "]::BIGINT[]"


def instant_sql(micros: str) -> str:
    """Return the TIMESTAMPTZ of a SQL expression in microseconds since 1970-01-01 UTC."""
    return f"make_timestamp({micros})::TIMESTAMPTZ"


@dataclass(frozen=True, slots=True)
class Draws:
    """Draws of one seed. `name` distinguishes the draws of a row; `row` is a SQL expression of type BIGINT."""

    seed: int

    def bits(self, name: str, row: str) -> str:
        """Return 64 random bits (UBIGINT)."""
        shift = int.from_bytes(sha256(f"{self.seed}/{name}".encode()).digest()[:8], "big") >> 2
        return f"hash(({row})::BIGINT + {shift})"

    def share(self, name: str, row: str) -> str:
        """Return a uniform DOUBLE in [0, 1)."""
        return f"(({self.bits(name, row)} >> 11)::BIGINT / 9007199254740992.0)"

    def below(self, name: str, row: str, limit: str | int) -> str:
        """Return a uniform BIGINT from 0 to `limit` - 1. `limit` must be positive."""
        return f"(({self.bits(name, row)} >> 1)::BIGINT % ({limit}))"

    def chance(self, name: str, row: str, probability: float) -> str:
        """Return a BOOLEAN that is true with this probability."""
        return f"({self.share(name, row)} < {probability!r})"

    def one_of(self, name: str, row: str, texts: Sequence[str | None]) -> str:
        """Return one of the texts, all equally likely."""
        return f"({text_list(texts)})[1 + {self.below(name, row, len(texts))}]"

    def uuid(self, name: str, row: str) -> str:
        """Return a version 4 UUID. Equal row numbers produce equal UUIDs."""
        high = f"(({self.bits(name + '/high', row)} & 18446744073709490175) | 16384)::UHUGEINT"
        low = f"(({self.bits(name + '/low', row)} & 4611686018427387903) | 9223372036854775808)"
        return f"(({high} * 18446744073709551616::UHUGEINT) + {low})::UUID"
