"""JSON decoder for tokens that rejects documents with more than one reading."""

from __future__ import annotations

import json
from typing import Any


class StrictDecoder(json.JSONDecoder):
    """JSON decoder that rejects repeated members, `NaN` and `Infinity`, which Python's own accepts."""

    def __init__(self) -> None:
        super().__init__(object_pairs_hook=_unique_members, parse_constant=_reject_constant)


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("repeated member")
    return members


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
