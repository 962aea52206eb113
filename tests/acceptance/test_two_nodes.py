"""Two nodes on one PostgreSQL and one bucket are one service."""

import gzip
import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from daybreak.filestore.clouds import BucketAddress
from daybreak.filestore.object_store import ObjectStore
from tests.acceptance.service import AUTH, Service, serving
from tests.acceptance.world import CARL, MAYA, NORTH, SOUTH, World, rows_of_csv, totp_code
from tests.parts.buckets import KINDS, fresh_bucket
from tests.parts.postgresql import PostgreSQLServer
from tests.parts.s3 import REGION

Nodes = tuple[Service, Service]


@pytest.fixture(scope="module", params=KINDS)
def nodes(
    request: pytest.FixtureRequest, postgresql_server: PostgreSQLServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nodes]:
    """Two nodes with one worker each."""
    bucket = fresh_bucket(request)
    folder = Path(tmp_path_factory.mktemp("nodes")) / "world"
    database = postgresql_server.fresh_database()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in bucket.environment().items():
            patch.setenv(name, value)
        store = ObjectStore(BucketAddress(f"{bucket.url}/exports", bucket.server.endpoint, REGION, True))
        world = World(folder, postgresql_server.url(database), store)
        world.make()
        settings = {
            "files.url": f"{bucket.url}/exports",
            "files.endpoint": bucket.server.endpoint,
            "files.region": REGION,
            "files.path_style": True,
            # One address for both, as a balancer in front would have it.
            "base_url": "http://export.example.org",
        }
        with serving(world, settings=settings, workers=1) as one, serving(world, settings=settings, workers=1) as other:
            yield one, other
    postgresql_server.drop(database)


def test_what_one_node_gave_the_other_takes_and_ends(nodes: Nodes) -> None:
    one, other = nodes
    token = one.token(MAYA, NORTH)
    south = other.switched(token, SOUTH)
    links = [one.link(south, SOUTH), other.link(token, NORTH)]
    assert [other.get(links[0].replace(one.address, other.address)).status_code, one.get(links[1]).status_code] == [
        302,
        302,
    ]
    assert other.request("DELETE", f"{AUTH}/logout", token=south).status_code == 204
    for node in nodes:
        assert node.ask(token, NORTH).status_code == 401
        assert node.get(urlsplit(links[0])._replace(netloc=f"127.0.0.1:{node.port}").geturl()).status_code == 403


def test_a_code_is_used_up_on_both(nodes: Nodes) -> None:
    one, other = nodes
    one.world.begin_again(CARL)
    waiting = [one.log_in(CARL).json()["token"], other.log_in(CARL).json()["token"]]
    code = totp_code()
    assert one.answer_second_factor(waiting[0], code).status_code == 200
    assert other.answer_second_factor(waiting[1], code).status_code == 401


@pytest.mark.parametrize("accept", [None, "text/csv"])
def test_the_bucket_answers_as_the_disk_does(nodes: Nodes, accept: str | None) -> None:
    service = nodes[0]
    token = service.token(MAYA, NORTH)
    data = service.ask(token, NORTH, "members.csv.gz").json()["data"]
    link = data["url"].replace(service.base_url, service.address)
    headers = {} if accept is None else {"Accept": accept}
    redirect = service.get(link, headers=headers)
    assert redirect.status_code == 302
    assert redirect.headers["Cache-Control"] == "no-store"
    store_link = redirect.headers["Location"]
    query = {name: values[0] for name, values in parse_qs(urlsplit(store_link).query).items()}
    if "X-Amz-Expires" in query:
        assert int(query["X-Amz-Expires"]) <= 60
    else:
        assert datetime.fromisoformat(query["se"]) <= datetime.now(UTC) + timedelta(seconds=60)
    found = service.get(store_link)
    assert found.status_code == 200
    name = "members.csv.gz" if accept is None else "members.csv"
    assert found.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    if accept is None:
        assert found.headers["Content-Type"] == "application/gzip"
        assert "Content-Encoding" not in found.headers
        assert hashlib.sha256(found.content).hexdigest() == data["sha256"]
        content = gzip.decompress(found.content)
        part = service.get(store_link, headers={"Range": "bytes=10-19"})
        assert (part.status_code, part.content) == (206, found.content[10:20])
    else:
        assert found.headers["Content-Type"] == "text/csv; charset=utf-8; header=present"
        assert found.headers["Content-Encoding"] == "gzip"
        content = found.content
    assert len(rows_of_csv(content)) == data["rows"] + 1
    head = service.request("HEAD", link, headers=headers)
    assert head.status_code == 302
    assert service.request("HEAD", head.headers["Location"]).status_code == 200
    assert service.get(link, allow_redirects=True, headers=headers).content == found.content


def test_both_are_ready_and_one_revocation_is_enough(nodes: Nodes) -> None:
    one, other = nodes
    assert [node.get("/readyz").status_code for node in nodes] == [200, 200]
    secret, token_id = one.world.mint_token(MAYA, NORTH, expires_at=datetime.now(UTC) + timedelta(days=1))
    assert [node.ask(secret, NORTH).status_code for node in nodes] == [302, 302]
    one.world.change(lambda stores: stores.api_tokens.revoke(token_id, datetime.now(UTC), "test"))
    assert [other.ask(secret, NORTH).status_code, one.ask(secret, NORTH).status_code] == [401, 401]
