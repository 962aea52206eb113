"""What the access services work with: one frozen bundle, made once per process."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from daybreak.access.hashing import PasswordHashing
from daybreak.access.throttle import Limits
from daybreak.credentials.keyring import KeyringFile
from daybreak.ports.state import State


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """`issuer` is the `base_url`: tokens of one service are none in another."""

    issuer: str
    session_lifetime: timedelta = timedelta(days=7)
    waiting_lifetime: timedelta = timedelta(minutes=10)
    reauthentication_lifetime: timedelta = timedelta(minutes=10)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class AccessServices:
    """`clock` gives aware UTC instants, `random` that many random bytes."""

    settings: AccessSettings
    state: State
    keyring: KeyringFile
    hashing: PasswordHashing
    clock: Callable[[], datetime]
    random: Callable[[int], bytes]

    def new_id(self) -> str:
        """A random UUID as lower-case text."""
        return new_id(self.random)


def new_id(random: Callable[[int], bytes]) -> str:
    """A random UUID as lower-case text."""
    return str(uuid.UUID(bytes=random(16), version=4))
