"""Random values as SQL over a row number: the same seed gives the same rows, whatever the threads and the row order.

A draw is a hash of the row number shifted by a constant that stands for (seed, name of the draw). Every expression is
a pure function of its row, so the engine may compute rows in any order and spill as it likes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256


def quoted(text: str) -> str:
    """`text` as a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def text_list(texts: Iterable[str | None]) -> str:
    """Texts as a SQL list literal; `None` becomes NULL."""
    return "[" + ", ".join("NULL" if text is None else quoted(text) for text in texts) + "]::VARCHAR[]"


def number_list(numbers: Iterable[int]) -> str:
    """Numbers as a SQL list literal of BIGINT."""
    return "[" + ", ".join(str(number) for number in numbers) + "]::BIGINT[]"


def instant_sql(micros: str) -> str:
    """TIMESTAMP WITH TIME ZONE of a SQL expression in microseconds since 1970-01-01 UTC."""
    return f"make_timestamp({micros})::TIMESTAMPTZ"


@dataclass(frozen=True, slots=True)
class Draws:
    """Draws of one seed. `name` tells two draws for the same row apart; `row` is a SQL expression of type BIGINT."""

    seed: int

    def bits(self, name: str, row: str) -> str:
        """64 random bits (UBIGINT)."""
        shift = int.from_bytes(sha256(f"{self.seed}/{name}".encode()).digest()[:8], "big") >> 2
        return f"hash(({row})::BIGINT + {shift})"

    def share(self, name: str, row: str) -> str:
        """Uniform in [0, 1), DOUBLE."""
        return f"(({self.bits(name, row)} >> 11)::BIGINT / 9007199254740992.0)"

    def below(self, name: str, row: str, limit: str | int) -> str:
        """Uniform in 0 .. limit - 1, BIGINT. `limit` must be positive."""
        return f"(({self.bits(name, row)} >> 1)::BIGINT % ({limit}))"

    def chance(self, name: str, row: str, probability: float) -> str:
        """True in this share of the rows."""
        return f"({self.share(name, row)} < {probability!r})"

    def one_of(self, name: str, row: str, texts: Sequence[str | None]) -> str:
        """One of the texts, each as likely as the others."""
        return f"({text_list(texts)})[1 + {self.below(name, row, len(texts))}]"

    def uuid(self, name: str, row: str) -> str:
        """A version 4 UUID; two rows get the same one only if their numbers are the same."""
        high = f"(({self.bits(name + '/high', row)} & 18446744073709490175) | 16384)::UHUGEINT"
        low = f"(({self.bits(name + '/low', row)} & 4611686018427387903) | 9223372036854775808)"
        return f"(({high} * 18446744073709551616::UHUGEINT) + {low})::UUID"
