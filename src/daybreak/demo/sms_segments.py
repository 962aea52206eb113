"""Number of SMS segments of a text: GSM-7 (3GPP TS 23.038) if every character fits, otherwise UCS-2.

A message has 160 septets or 70 UTF-16 units. Longer texts are split into parts of 153 or 67, because each part has a
header of six bytes (3GPP TS 23.040). Characters of the GSM extension table take two septets, characters outside the
Basic Multilingual Plane two UTF-16 units. Parts are computed from the total length, as carriers bill.
"""

GSM7_BASIC = (
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿"
    "abcdefghijklmnopqrstuvwxyzäöñüà"
)
GSM7_EXTENSION = "\f^{}\\[~]|€"


def segment_count_sql(text: str) -> str:
    """Return the number of segments of the SQL expression `text`, as an expression of DuckDB. NULL counts as empty. An
    empty text takes one.
    """
    basic = "".join(rf"\x{{{ord(character):x}}}" for character in GSM7_BASIC + GSM7_EXTENSION)
    extension = "".join(rf"\x{{{ord(character):x}}}" for character in GSM7_EXTENSION)
    value = f"coalesce({text}, '')"
    septets = f"length({value}) + length(regexp_replace({value}, '[^{extension}]', '', 'g'))"
    units = rf"length({value}) + length(regexp_replace({value}, '[^\x{{10000}}-\x{{10FFFF}}]', '', 'g'))"
    return (
        f"CASE WHEN regexp_full_match({value}, '[{basic}]*') THEN {_segments(septets, 160, 153)}"
        f" ELSE {_segments(units, 70, 67)} END"
    )


def _segments(length: str, single: int, joined: int) -> str:
    return f"(CASE WHEN {length} <= {single} THEN 1 ELSE ({length} + {joined - 1}) // {joined} END)::BIGINT"
