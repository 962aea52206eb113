"""SQL for the sum over keys, equal in every engine: the parts of a key become 60-bit numbers, combined by XOR.

A sum does not depend on the order of rows, and differs if one row takes the place of another one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daybreak.catalogue.columns import ColumnType

_MASK = (1 << 60) - 1


def in_range(value: str, kind: str) -> str:
    """Return a condition: an instant or a date, SQL `value` of the type `kind`, is in the range of files. Other
    instants, and the infinities, are exported as NULL.
    """
    return f"{value} BETWEEN CAST('0001-01-01 00:00:00' AS {kind}) AND CAST('9999-12-31 23:59:59.999999' AS {kind})"


@dataclass(frozen=True, slots=True)
class KeySql:
    """Templates of one engine. `identifier`, `text` and `instant` convert a value to a number, `xor` combines two
    numbers, `total` sums numbers without overflow.
    """

    identifier: str
    text: str
    instant: str
    xor: str
    total: str

    def number(self, parts: Sequence[tuple[ColumnType, str]]) -> str:
        """Return SQL for the number of a key, from the types of its parts and their SQL."""
        combined = ""
        for kind, value in parts:
            part = f"coalesce({self._number(kind, value)}, 0)"
            combined = self.xor.format(combined, part) if combined else part
        return combined

    def sum(self, parts: Sequence[tuple[ColumnType, str]]) -> str:
        """Return SQL for the sum over keys."""
        return self.total.format(self.number(parts))

    def _number(self, kind: ColumnType, value: str) -> str:
        if kind is ColumnType.UUID:
            return self.identifier.format(value)
        if kind is ColumnType.TEXT:
            return self.text.format(value)
        return f"CASE WHEN {in_range(value, 'TIMESTAMP')} THEN {self.instant.format(value)} END"


KEY_SQL: Mapping[str, KeySql] = {
    "duckdb": KeySql(
        f"CAST(CAST({{0}} AS UHUGEINT) & {_MASK} AS BIGINT)",
        "CAST('0x' || left(md5({0}), 15) AS BIGINT)",
        "epoch_us({0})",
        "xor({0}, {1})",
        "sum({0})",
    ),
    "postgresql": KeySql(
        "CAST(CAST('x' || right(replace(CAST({0} AS text), '-', ''), 15) AS bit(60)) AS bigint)",
        "CAST(CAST('x' || left(md5({0}), 15) AS bit(60)) AS bigint)",
        "CAST(extract(epoch FROM {0}) * 1000000 AS bigint)",
        "({0} # {1})",
        "sum({0})",
    ),
    "spark": KeySql(
        "CAST(conv(right(replace({0}, '-', ''), 15), 16, 10) AS BIGINT)",
        "CAST(conv(left(md5(CAST({0} AS BINARY)), 15), 16, 10) AS BIGINT)",
        "unix_micros({0})",
        "({0} ^ {1})",
        "sum(CAST({0} AS DECIMAL(20, 0)))",
    ),
}
"""By the value of `source.engine`."""
