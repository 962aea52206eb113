"""A revoked key, on the node that revoked it and on one that still has it in its keyring."""

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
import requests
from botocore.config import Config
from botocore.exceptions import ClientError

from daybreak.cli.main import run
from daybreak.credentials import keyring, mail_tokens, signed_link, webhook_secret
from daybreak.credentials.keyring import Keyring
from daybreak.credentials.s3_keys import AccessKey, session_key, static_key
from daybreak.domain.events import Webhook
from daybreak.sharing import refresh_token
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import CARL, MAYA, NORTH, Installation, seat_id
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving

ENDPOINT = "30000000-0000-4000-8000-000000000001"
SECRET = webhook_secret.generate(os.urandom)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[Service, Service]]:
    """Start two nodes on one state database. The second one has its own copy of the keyring."""
    installation = new_installation(tmp_path, parquet=True)
    shutil.copy(installation.keyring_file, installation.folder / "copy.json")
    sealed = webhook_secret.encrypt(
        SECRET, endpoint_id=ENDPOINT, keyring=keyring.load(installation.keyring_file), random=os.urandom
    )
    webhook = Webhook(
        endpoint_id=ENDPOINT, client_id=NORTH, url="https://example.org/", sealed_secret=sealed,
        created_at=datetime.now(UTC), created_by=seat_id(MAYA), created_by_email=MAYA,
    )  # fmt: skip
    installation.change(lambda stores: stores.webhooks.add(webhook))
    # One URL for both, as with a load balancer.
    shared = {
        "base_url": "http://127.0.0.1:1", "attach.s3": True, "sharing.enabled": True,
        "snapshot.formats": ["csv", "json", "parquet"],
    }  # fmt: skip
    with (
        serving(installation, workers=1, settings=shared) as one,
        serving(installation, workers=1, settings={**shared, "keys.file": "copy.json"}) as other,
    ):
        yield one, other


def revoke(installation: Installation, kid: str) -> None:
    assert run(["keys", "revoke", kid, "--yes", "--config", str(installation.folder / "daybreak.toml")]) == 0


def sign_in_form(service: Service) -> tuple[dict[str, str], str]:
    """Return the cookies and the token of the form of the sign-in page."""
    page = requests.get(f"{service.address}/dashboard/sign-in", timeout=PATIENCE_SECONDS)
    return dict(page.cookies), page.text.split('name="csrf" value="')[1].split('"')[0]


def forged_link(service: Service, ring: Keyring, token_id: str) -> str:
    """Return a link to a file of North that someone with the keyring signs for the API token of a user."""
    link = service.link(service.installation.create_token(MAYA, NORTH)[0], NORTH)
    snapshot_id = link.split("/")[-2]
    expires = int(datetime.now(UTC).timestamp()) + 600
    target = signed_link.LinkTarget(NORTH, snapshot_id, "campaigns", f"token:{token_id}", expires)
    return link.split("?")[0] + "?" + signed_link.sign(target, keyring=ring, random=os.urandom)


def codes_at_doors(node: Service, ring: Keyring, api_token: str, token_id: str) -> list[int]:
    """Return the status of a link, of both keys of S3 and of a refresh token of Delta Sharing, signed with a keyring
    for an API token.
    """
    expires_at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    keys = static_key(token_id, keyring=ring), session_key(token_id, version=1, expires_at=expires_at, keyring=ring)
    table = f"{node.address}/sharing/v1/shares/{NORTH}/schemas/daybreak/tables/communities"
    query = {"refreshToken": refresh_token(NORTH, "communities", 1, keyring=ring)}
    headers = {"Authorization": f"Bearer {api_token}"}
    return [
        node.get(forged_link(node, ring, token_id).removeprefix(node.address)).status_code,
        *(read_over_s3(node, key) for key in keys),
        requests.post(f"{table}/query", json=query, headers=headers, timeout=PATIENCE_SECONDS).status_code,
    ]


def read_over_s3(node: Service, key: AccessKey) -> int:
    """Return the status of a request with an access key."""
    client: Any = boto3.client(
        "s3", endpoint_url=node.address, region_name="eu-central-1", aws_access_key_id=key.access_key_id,
        aws_secret_access_key=key.secret, aws_session_token=key.session_token or None,
        config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip
    try:
        found = client.get_object(Bucket=NORTH, Key="latest/communities.csv.gz")
    except ClientError as error:
        return int(error.response["ResponseMetadata"]["HTTPStatusCode"])
    return int(found["ResponseMetadata"]["HTTPStatusCode"])


def test_what_a_revoked_key_signed_is_refused_on_all_nodes(nodes: tuple[Service, Service]) -> None:
    one, other = nodes
    installation = one.installation
    stolen = keyring.load(installation.keyring_file)
    kid = stolen.signing_kid
    # A keyring in which the next key signs, as on a node after a rotation.
    next_signs = stolen.rotate(datetime.now(UTC), os.urandom, lifetime=timedelta(days=7))
    api_token, token_id = installation.create_token(MAYA, NORTH)
    session, pending = one.token(MAYA, NORTH), one.log_in(CARL).json()["token"]
    links = [one.link(session, NORTH), one.link(api_token, NORTH), forged_link(one, stolen, token_id)]
    mail_token = mail_tokens.unsubscribe_token(seat_id(MAYA), "snapshot.late", keyring=stolen)
    unsubscribe = f"/dashboard/unsubscribe/{mail_token}"
    paths = [link.removeprefix(one.address) for link in links]
    form_cookies, form_token = sign_in_form(one)
    for node in nodes:
        assert node.request_file(session, NORTH).status_code == 302
        assert [node.get(path).status_code for path in paths] == [200, 200, 200]
        assert node.get(unsubscribe).status_code == 200
        for ring in (stolen, next_signs):
            assert codes_at_doors(node, ring, api_token, token_id) == [200, 200, 200, 200]

    revoke(installation, kid)

    for node in reversed(nodes):
        assert node.request_file(session, NORTH).json()["code"] == "invalid_token"
        assert node.answer_second_factor(pending).status_code == 401
        assert [node.get(path).json()["code"] for path in paths] == ["invalid_link"] * 3
        assert node.get(unsubscribe).status_code == 404
        assert codes_at_doors(node, stolen, api_token, token_id) == [403, 403, 400, 400]
        assert codes_at_doors(node, next_signs, api_token, token_id) == [200, 200, 200, 200], "another key"
        posted = requests.post(
            f"{node.address}/dashboard/sign-in",
            data={"csrf": form_token, "email": MAYA, "password": "x"},
            cookies=form_cookies,
            timeout=PATIENCE_SECONDS,
        )
        assert "has expired" in posted.text
        assert node.get(node.link(api_token, NORTH)).status_code == 200, "API tokens do not depend on keys"
    assert one.answer_second_factor(other.log_in(CARL).json()["token"]).status_code == 200, "the seed is readable"
    tokens = [node.token(MAYA, NORTH) for node in nodes]
    assert {node.request_file(token, NORTH).status_code for node in nodes for token in tokens} == {302}

    keys = {key["kid"]: key for key in json.loads(installation.keyring_file.read_text())["keys"]}
    assert (keys[kid]["state"], keys[kid]["secret"]) == ("gone", "")
    copied = keyring.load(installation.folder / "copy.json")
    state = installation.state()
    webhook = state.read(lambda stores: stores.webhooks.get(ENDPOINT))
    state.close()
    assert webhook is not None
    sealed = webhook.sealed_secret
    assert webhook_secret.decrypt(sealed, endpoint_id=ENDPOINT, keyring=copied) == SECRET
    assert not sealed.startswith(kid)


def test_revoked_key_in_the_file_is_refused(nodes: tuple[Service, Service], capfd: pytest.CaptureFixture[str]) -> None:
    installation = nodes[0].installation
    kid = keyring.load(installation.keyring_file).signing_kid
    revoke(installation, kid)
    shutil.copy(installation.folder / "copy.json", installation.keyring_file)
    config = ["--config", str(installation.folder / "daybreak.toml")]
    assert run(["keys", "rotate", *config]) == 1
    run(["doctor", *config])
    output = "".join(capfd.readouterr())
    assert output.count(f"keys.file contains the revoked key {kid}") == 2
    revoke(installation, kid)
    assert run(["keys", "rotate", *config]) == 0
