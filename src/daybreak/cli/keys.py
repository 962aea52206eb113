"""`daybreakd keys`: the keyring."""

import secrets
from contextlib import closing
from typing import TYPE_CHECKING

from cyclopts import App

from daybreak.cli.examples import examples_of
from daybreak.cli.options import AsJson, Config, settings_of
from daybreak.cli.output import format_instant, print_json, print_note, print_table, print_text

if TYPE_CHECKING:
    from daybreak.state.stores import Stores

app = App(name="keys", help="Manage the keyring.", help_epilogue=examples_of("keys"))


@app.command(name="list")
def list_(*, config: Config = None, json: AsJson = False) -> None:
    """List the keys and their states. Secrets are not shown."""
    from daybreak.credentials import keyring

    ring = keyring.load(settings_of(config).keys.file)
    if json:
        print_json(
            [
                {"kid": key.kid, "state": key.state, "created_at": key.created_at, "retired_at": key.retired_at}
                for key in ring.keys
            ]
        )
        return
    print_table(
        ("KEY", "STATE", "CREATED (UTC)", "STOPPED SIGNING (UTC)"),
        [(key.kid, key.state, format_instant(key.created_at), format_instant(key.retired_at)) for key in ring.keys],
    )


@app.command
def rotate(*, config: Config = None) -> None:
    """Sign with the next key and create a new next key. Old keys verify until everything they signed has expired.

    Running processes reload the file. With several nodes, copy the file to all of them before the next rotation: every
    node has the new signing key since the previous rotation, so no request fails in the meantime.
    """
    from daybreak.access.operators import reseal_seeds
    from daybreak.bootstrap import now_utc, open_state
    from daybreak.credentials import keyring
    from daybreak.events.webhooks import reseal_secrets

    settings = settings_of(config)
    ring = keyring.load(settings.keys.file)
    with closing(open_state(settings)) as state:
        rotated = ring.rotate(
            now_utc(),
            secrets.token_bytes,
            lifetime=max(settings.access.session_lifetime, settings.access.link_lifetime),
            kids_in_use=state.read(_kids_in_use),
        )
        keyring.save(settings.keys.file, rotated)
        seeds = state.write(lambda stores: reseal_seeds(stores, rotated, secrets.token_bytes))
        webhooks = state.write(lambda stores: reseal_secrets(stores, rotated, secrets.token_bytes))
    print_text(f"{rotated.signing_kid} signs now.")
    print_note(f"{seeds} second-factor seeds and {webhooks} secrets of webhooks were re-encrypted.")
    print_note(f"Copy {settings.keys.file} to every other node.")


def _kids_in_use(stores: "Stores") -> frozenset[str]:
    """Return the keys that encrypt stored second-factor seeds and secrets of webhooks."""
    from daybreak.credentials.sealed_text import sealing_kid
    from daybreak.credentials.totp import encryption_kid

    seeds = [
        seed
        for seat in stores.seats.list_all()
        for seed in (stores.seats.sealed_seed(seat.seat_id), stores.seats.pending_seed(seat.seat_id))
    ]
    of_webhooks = {sealing_kid(secret) for secret in stores.webhooks.sealed_secrets()}
    return frozenset(encryption_kid(seed) for seed in seeds if seed is not None) | of_webhooks
