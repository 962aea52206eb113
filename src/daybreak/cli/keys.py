"""`daybreakd keys`: the keyring."""

import secrets
from contextlib import closing
from typing import TYPE_CHECKING

from cyclopts import App

from daybreak.cli.examples import examples_of
from daybreak.cli.options import AsJson, Config, settings_of
from daybreak.cli.output import note, say, say_json, say_table, shown_instant

if TYPE_CHECKING:
    from daybreak.ports.state import Stores

app = App(name="keys", help="The keyring.", help_epilogue=examples_of("keys"))


@app.command(name="list")
def list_(*, config: Config = None, json: AsJson = False) -> None:
    """List keys and what each is for now. Secrets are not shown."""
    from daybreak.credentials import keyring

    ring = keyring.load(settings_of(config).keys.file)
    if json:
        say_json(
            [
                {"kid": key.kid, "state": key.state, "created_at": key.created_at, "retired_at": key.retired_at}
                for key in ring.keys
            ]
        )
        return
    say_table(
        ("KEY", "STATE", "CREATED (UTC)", "STOPPED SIGNING (UTC)"),
        [(key.kid, key.state, shown_instant(key.created_at), shown_instant(key.retired_at)) for key in ring.keys],
    )


@app.command
def rotate(*, config: Config = None) -> None:
    """Let the next key sign, and make another next one. Old keys verify until what they signed has ended.

    Running processes take the file up by themselves. With several nodes, copy the file to all of them before the
    next rotation: the key that signs now is known to each of them since the last one, so nothing fails in between.
    """
    from daybreak.access.operators import reseal_seeds
    from daybreak.bootstrap import now_utc, open_state
    from daybreak.credentials import keyring

    settings = settings_of(config)
    ring = keyring.load(settings.keys.file)
    with closing(open_state(settings)) as state:
        rotated = ring.rotate(
            now_utc(),
            secrets.token_bytes,
            lifetime=max(settings.access.session_lifetime, settings.access.link_lifetime),
            kids_in_use=state.read(_sealing_kids),
        )
        keyring.save(settings.keys.file, rotated)
        sealed = state.write(lambda stores: reseal_seeds(stores, rotated, secrets.token_bytes))
    say(f"{rotated.signing_kid} signs now.")
    note(f"{sealed} second-factor seeds sealed anew. Copy {settings.keys.file} to every other node.")


def _sealing_kids(stores: "Stores") -> frozenset[str]:
    """Keys that a stored second-factor seed still needs."""
    from daybreak.credentials.totp import sealing_kid

    seeds = [
        seed
        for seat in stores.seats.list_all()
        for seed in (stores.seats.sealed_seed(seat.seat_id), stores.seats.pending_seed(seat.seat_id))
    ]
    return frozenset(sealing_kid(seed) for seed in seeds if seed is not None)
