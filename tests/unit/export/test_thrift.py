"""Thrift's compact protocol."""

import pytest

from daybreak.export.thrift import Struct, decode, encode

FIELDS: Struct = {1: (6, -3), 2: (8, b"name"), 20: (9, (12, [{1: (1, True)}, {3: (8, b"12345678")}])), 21: (3, 200)}


def test_fields_are_read_as_they_were_written() -> None:
    assert decode(encode(FIELDS)) == FIELDS


def test_cut_content_is_refused() -> None:
    content = encode(FIELDS)
    for length in range(len(content)):
        with pytest.raises(ValueError, match="end of the content"):
            decode(content[:length])
