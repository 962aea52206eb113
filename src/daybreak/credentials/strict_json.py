"""JSON that has one reading: members that are repeated are refused."""

import json
from typing import Any


class StrictDecoder(json.JSONDecoder):
    """JSON decoder that rejects repeated members, `NaN` and `Infinity`, which Python's own accepts."""

    def __init__(self) -> None:
        super().__init__(object_pairs_hook=unique_members, parse_constant=_reject_constant)


class RepeatedMember(ValueError):
    """An object has two members of one name. `name` is at most 60 printable characters."""

    def __init__(self, name: str) -> None:
        self.name = json.dumps(name)[1:-1][:60]
        super().__init__(f"the field {self.name} appears twice in one object")


def unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object. Raises RepeatedMember."""
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise RepeatedMember(name)
        members[name] = value
    return members


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
