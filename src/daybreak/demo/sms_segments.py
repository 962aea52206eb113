"""How many SMS segments a text takes: GSM-7 (3GPP TS 23.038) when every character fits, else UCS-2.

One message carries 160 septets or 70 UTF-16 units; a longer one is cut into parts of 153 or 67, since each part gives
up six bytes to the header that joins them. Characters of the GSM extension table cost two septets, characters beyond
the Basic Multilingual Plane two UTF-16 units. Parts are counted by total length, as carriers bill.
"""

GSM7_BASIC = (
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿"
    "abcdefghijklmnopqrstuvwxyzäöñüà"
)
GSM7_EXTENSION = "\f^{}\\[~]|€"

_BASIC = frozenset(GSM7_BASIC)
_EXTENSION = frozenset(GSM7_EXTENSION)


def segment_count(text: str) -> int:
    """Segments that `text` takes; an empty text still takes one."""
    if all(character in _BASIC or character in _EXTENSION for character in text):
        return _parts(sum(2 if character in _EXTENSION else 1 for character in text), single=160, joined=153)
    return _parts(sum(2 if ord(character) > 0xFFFF else 1 for character in text), single=70, joined=67)


def segment_count_sql(text: str) -> str:
    """The same rule as a DuckDB expression over the SQL expression `text`; NULL counts as empty."""
    basic = "".join(rf"\x{{{ord(character):x}}}" for character in GSM7_BASIC + GSM7_EXTENSION)
    extension = "".join(rf"\x{{{ord(character):x}}}" for character in GSM7_EXTENSION)
    whole = f"coalesce({text}, '')"
    septets = f"length({whole}) + length(regexp_replace({whole}, '[^{extension}]', '', 'g'))"
    units = rf"length({whole}) + length(regexp_replace({whole}, '[^\x{{10000}}-\x{{10FFFF}}]', '', 'g'))"
    return (
        f"CASE WHEN regexp_full_match({whole}, '[{basic}]*') THEN {_parts_sql(septets, 160, 153)}"
        f" ELSE {_parts_sql(units, 70, 67)} END"
    )


def _parts(length: int, *, single: int, joined: int) -> int:
    return 1 if length <= single else -(-length // joined)


def _parts_sql(length: str, single: int, joined: int) -> str:
    return f"(CASE WHEN {length} <= {single} THEN 1 ELSE ({length} + {joined - 1}) // {joined} END)::BIGINT"
