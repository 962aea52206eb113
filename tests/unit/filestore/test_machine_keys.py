"""Keys that a machine is given for a while: where they are asked for, when again, and what is said without any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daybreak.domain.errors import FileStoreError, Unavailable
from daybreak.filestore import machine_keys
from daybreak.filestore.machine_keys import MachineKeys
from tests.parts.key_giver import KeyGiver, key_giver


@pytest.fixture
def giver() -> Iterator[KeyGiver]:
    with key_giver() as found:
        yield found


def on_instance(giver: KeyGiver, _: Path) -> dict[str, str]:
    return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": giver.url}


def in_container(giver: KeyGiver, folder: Path) -> dict[str, str]:
    (folder / "token").write_text("container-token\n")
    return {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{giver.url}/container",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(folder / "token"),
    }


def with_web_identity(giver: KeyGiver, folder: Path) -> dict[str, str]:
    (folder / "token").write_text("web-token")
    return {
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "token"),
        "AWS_ROLE_ARN": "arn:role",
        "AWS_ENDPOINT_URL_STS": giver.url,
    }


@pytest.mark.parametrize("place", [on_instance, in_container, with_web_identity])
def test_every_giver_is_asked_as_amazons_own_tools_do(
    giver: KeyGiver, tmp_path: Path, place: Callable[[KeyGiver, Path], dict[str, str]]
) -> None:
    machine = MachineKeys(place(giver, tmp_path), "eu-central-1", lambda: datetime.now(UTC))
    assert not machine.fresh()
    keys = machine.keys()
    assert (keys.access_key_id, keys.secret_access_key, keys.session_token) == ("ACCESS", "secret", "token")
    assert keys.expires_at is not None
    assert timedelta(minutes=59) < keys.expires_at - datetime.now(UTC) <= timedelta(hours=1)
    assert machine.fresh()
    asked = len(giver.asked)
    assert machine.for_library()["token"] == "token"
    assert len(giver.asked) == asked, "kept until they are about to expire"


def test_keys_are_asked_for_again_before_they_expire_and_kept_while_nobody_gives_others(
    giver: KeyGiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_keys, "_ASK_AGAIN_SECONDS", 0.0)
    ahead = timedelta()
    machine = MachineKeys(in_container(giver, tmp_path), "eu-central-1", lambda: datetime.now(UTC) + ahead)
    first = machine.keys()
    ahead, giver.refusal = timedelta(minutes=56), 500
    assert machine.keys() is first
    giver.refusal, giver.access_key, giver.lasts = 0, "SECOND", timedelta(hours=2)
    assert machine.keys().access_key_id == "SECOND"
    ahead, giver.refusal = timedelta(hours=3), 500
    with pytest.raises(Unavailable, match="The container's role gives no credentials: 500 not now"):
        machine.keys()


def test_where_nobody_gives_keys_every_place_that_was_looked_at_is_named(giver: KeyGiver, tmp_path: Path) -> None:
    giver.refusal = 404
    for environment in (on_instance(giver, tmp_path), {"AWS_EC2_METADATA_DISABLED": "true"}):
        machine = MachineKeys(environment, "eu-central-1", lambda: datetime.now(UTC))
        with pytest.raises(FileStoreError, match=r"no AWS_ACCESS_KEY_ID .* no role of a container or an instance"):
            machine.keys()
    assert len(giver.asked) == 1
    # Not asked again at once: whoever waits for a link hears the same without waiting.
    again = MachineKeys(on_instance(giver, tmp_path), "eu-central-1", lambda: datetime.now(UTC))
    for _ in range(3):
        with pytest.raises(FileStoreError):
            again.keys()
    assert len(giver.asked) == 2


def test_a_refusal_and_a_missing_token_are_told(giver: KeyGiver, tmp_path: Path) -> None:
    environment = with_web_identity(giver, tmp_path) | {"AWS_ROLE_ARN": "arn:other"}
    with pytest.raises(FileStoreError, match="InvalidIdentityToken"):
        MachineKeys(environment, "eu-central-1", lambda: datetime.now(UTC)).keys()
    (tmp_path / "token").unlink()
    with pytest.raises(FileStoreError, match="token file"):
        MachineKeys(environment, "eu-central-1", lambda: datetime.now(UTC)).keys()
