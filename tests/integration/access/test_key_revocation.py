"""Revocation of a key that ends at any point, and values that are encrypted with it in the meantime."""

import secrets
from pathlib import Path
from typing import Any

import pytest

from daybreak.access import keys
from daybreak.cli.main import run
from daybreak.credentials import keyring, totp
from daybreak.credentials.keyring import KeyringFile
from daybreak.domain.errors import OperatorError
from daybreak.state.stores import Stores
from tests.unit.access.instance import INES, OMAR, Instance, open_instance


class Killed(BaseException):
    """The end of the process."""


@pytest.fixture
def instance(tmp_path: Path) -> Any:
    with open_instance(tmp_path) as opened:
        (tmp_path / "daybreak.toml").write_text('[source]\nlocation = "platform.duckdb"\n')
        yield opened


def revoke(instance: Instance, kid: str, *options: str) -> int:
    return run(["keys", "revoke", kid, *options, "--config", str(instance.path / "daybreak.toml")])


def seed_of(instance: Instance, seat_id: str) -> bytes:
    sealed = instance.state.read(lambda stores: stores.seats.sealed_seed(seat_id))
    assert sealed is not None
    return totp.decrypt_seed(sealed, seat_id=seat_id, keyring=keyring.load(instance.path / "keyring.json"))


@pytest.mark.parametrize("step", range(8))
async def test_killed_revocation_is_completed_by_the_next(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    seed, kid = instance.enrol_second_factor(), instance.services.keyring.current().signing_kid
    await instance.log_in()
    steps = [0]
    with monkeypatch.context() as patch:
        # Before and after the two changes of the file and the two of the state database.
        for owner, name in ((keyring, "save"), (type(instance.state), "write")):
            original = getattr(owner, name)

            def killable(*arguments: Any, original: Any = original) -> Any:
                for work in (lambda: original(*arguments), lambda: None):
                    if steps[0] == step:
                        raise Killed
                    steps[0] += 1
                    result = work() or locals().get("result")
                return result

            patch.setattr(owner, name, killable)
        with pytest.raises(Killed):
            revoke(instance, kid, "--yes")
    assert revoke(instance, kid, "--yes") == 0
    assert seed_of(instance, OMAR) == seed
    ring = keyring.load(instance.path / "keyring.json")
    assert [(key.state, key.secret) for key in ring.keys if key.kid == kid] == [("gone", b"")]
    assert len(instance.audit("key.revoked")) == 1
    assert instance.state.read(lambda stores: stores.revoked_keys.kids()) == {kid}


def test_value_encrypted_during_the_revocation_is_kept(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = instance.services.keyring.current()
    revoke_key = keys.revoke_key

    def revoke_and_write(stores: Stores, *arguments: Any, **options: Any) -> keys.KeyRevocation:
        done = revoke_key(stores, *arguments, **options)
        sealed = totp.encrypt_seed(b"s" * 20, seat_id=INES, keyring=stale, random=secrets.token_bytes)
        stores.seats.begin_second_factor(INES, sealed, instance.now[0])
        stores.seats.confirm_second_factor(INES, 1, [], instance.now[0])
        return done

    monkeypatch.setattr(keys, "revoke_key", revoke_and_write)
    assert revoke(instance, stale.signing_kid, "--yes") == 0
    assert seed_of(instance, INES) == b"s" * 20


def test_revocation_must_be_confirmed(instance: Instance, capfd: pytest.CaptureFixture[str]) -> None:
    kid, before = instance.services.keyring.current().signing_kid, (instance.path / "keyring.json").read_bytes()
    assert revoke(instance, kid) == 1
    assert "ends all sessions" in capfd.readouterr().err
    assert revoke(instance, "0000", "--yes") == 1
    assert (instance.path / "keyring.json").read_bytes() == before


def test_node_without_a_usable_key_signs_nothing(instance: Instance) -> None:
    """Both keys of the old file were revoked elsewhere."""
    file = KeyringFile(instance.path / "keyring.json")
    file.revoke(frozenset(key.kid for key in file.current().keys))
    with pytest.raises(OperatorError, match="Copy the keyring"):
        file.current().signing_key("session-jwt")


def test_each_state_of_a_key_can_be_revoked(instance: Instance) -> None:
    path = instance.path / "keyring.json"
    assert run(["keys", "rotate", "--config", str(instance.path / "daybreak.toml")]) == 0
    ring = keyring.load(path)
    assert [event.details["key"] for event in instance.audit("key.rotated")] == [ring.signing_kid]
    for key in ring.keys:
        assert revoke(instance, key.kid, "--yes") == 0
    after = keyring.load(path)
    assert {key.kid for key in after.keys if key.secret}.isdisjoint(key.kid for key in ring.keys)
    assert sorted(key.state for key in after.keys) == ["gone", "gone", "gone", "next", "signing"]
