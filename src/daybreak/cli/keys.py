"""`daybreakd keys`: the keyring."""

import secrets
import sys
from typing import Annotated

from cyclopts import App, Parameter

from daybreak.access import keys
from daybreak.cli.options import AsJson, Config, Flag, prompt, settings_of, state_of
from daybreak.cli.output import fields_of, format_instant, print_json, print_note, print_table, print_text
from daybreak.credentials import keyring
from daybreak.domain.clock import now_utc
from daybreak.domain.display import format_count
from daybreak.domain.errors import OperatorError

app = App(name="keys", help="Manage the keyring.")


@app.command(name="list")
def list_(*, config: Config = None, json: AsJson = False) -> None:
    """List the keys and their states. Secrets are not shown."""
    ring = keyring.load(settings_of(config).keys.file)
    if json:
        print_json([fields_of(key, "kid", "state", "created_at", "retired_at") for key in ring.keys])
        return
    print_table(
        ("KEY", "STATE", "CREATED (UTC)", "STOPPED SIGNING (UTC)"),
        [(key.kid, key.state, format_instant(key.created_at), format_instant(key.retired_at)) for key in ring.keys],
    )


@app.command
def rotate(*, config: Config = None) -> None:
    """Sign with the next key and create a new next key. Old keys verify until everything they signed has expired.

    Running processes reload the file. With several nodes, copy the file to all of
    them before the next rotation: every node has the new signing key since the
    previous rotation, so no request fails in the meantime.
    """
    settings = settings_of(config)
    ring = keyring.load(settings.keys.file)
    with state_of(settings) as state:
        state.read(lambda stores: keys.require_no_revoked_key(ring, stores))
        now, lifetime = now_utc(), max(settings.access.session_lifetime, settings.access.link_lifetime)
        in_use = state.read(keys.kids_in_use)
        if settings.attach.s3:
            in_use |= state.read(lambda stores: keys.kids_of_s3_keys(stores, ring, now, lifetime))
        rotated = ring.rotate(now, secrets.token_bytes, lifetime=lifetime, kids_in_use=in_use)
        keyring.save(settings.keys.file, rotated)
        found = state.write(lambda stores: keys.record_rotation(stores, rotated, secrets.token_bytes, now))
    print_text(f"{rotated.signing_kid} signs now.")
    print_note(f"{found.seeds} second-factor seeds and {found.webhook_secrets} secrets of webhooks were re-encrypted.")
    print_note(f"Copy {settings.keys.file} to every other node.")


@app.command
def revoke(
    kid: Annotated[str, Parameter(help="The key, as `keys list` prints it.")],
    *,
    yes: Annotated[Flag, Parameter(help="Do not ask for confirmation.")] = False,
    config: Config = None,
) -> None:
    """Revoke a key that others may have: what it signed is refused from the next request on, on all nodes.

    All sessions end. Stored seeds and secrets of webhooks are re-encrypted before
    the secret of the key is destroyed. API tokens and links that set a password do
    not depend on keys. The command can be repeated after a failure.
    """
    settings = settings_of(config)
    ring = keyring.load(settings.keys.file)
    found = next((key for key in ring.keys if key.kid == kid), None)
    if found is None:
        raise OperatorError(f"The keyring has no key {kid}. `daybreakd keys list` prints the keys.")
    with state_of(settings) as state:
        if not yes:
            _confirm(found)
        revoked = ring.revoke(kid, now_utc(), secrets.token_bytes)
        # The new signing key must be in the file before it encrypts anything.
        keyring.save(settings.keys.file, revoked)
        done = state.write(lambda stores: keys.revoke_key(stores, kid, revoked, secrets.token_bytes, now_utc()))
        # Requests that began before the revocation may have encrypted more.
        late = state.write(lambda stores: keys.reencrypt(stores, revoked, secrets.token_bytes))
        keyring.save(settings.keys.file, revoked.destroy(kid))
    seeds, webhooks = (done.reencrypted.seeds + late.seeds, done.reencrypted.webhook_secrets + late.webhook_secrets)
    ended = format_count(sum(done.sessions.values()), "session")
    print_text(f"{kid} is revoked. {revoked.signing_kid} signs now.")
    print_note(f"{ended} of {format_count(len(done.sessions), 'seat')} ended. Links that {kid} signed are refused.")
    print_note(
        f"{seeds} second-factor seeds and {webhooks} secrets of webhooks were re-encrypted. API tokens are valid."
    )
    print_note(f"Copy {settings.keys.file} to every other node, and delete old backups of it.")


def _confirm(key: keyring.Key) -> None:
    """Ask whether to revoke a key. Raises OperatorError for any other answer than yes."""
    print_note(f"Revoking {key.kid} ({key.state}) ends all sessions and refuses all links that it signed.")
    if not sys.stdin.isatty():
        raise OperatorError("Not confirmed. Run the command in a terminal, or with --yes.")
    if prompt("Revoke this key? [y/N] ").lower() not in ("y", "yes"):
        raise OperatorError("Not confirmed. Nothing was changed.")
