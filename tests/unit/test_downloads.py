"""Downloads: issuing links, and opening them."""

import secrets
from collections.abc import Iterator
from dataclasses import replace as services_with
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from msgspec.structs import replace as changed_to

from daybreak import downloads
from daybreak.access import api_tokens, sessions
from daybreak.access.link_usage import LinkRate
from daybreak.access.services import Services
from daybreak.credentials import signed_link
from daybreak.credentials.signed_link import LinkRequest, LinkTarget
from daybreak.domain.audit import EventOrigin
from daybreak.domain.errors import Forbidden, NotFound, RequestError
from daybreak.domain.identity import Caller, Principal
from daybreak.domain.snapshot import ManifestEntry, StoredFormat
from daybreak.downloads import IssuedLink, OpenedFile, file_at, file_named
from tests.configured import DEFAULTS
from tests.unit.access.instance import ALPHA, BRAVO, CALLER, FOREIGN, ROSA, UNKNOWN, Instance, open_instance

FORMATS = ("csv", "json")
RUN = "20000000-0000-4000-8000-000000000001"


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    with open_instance(tmp_path) as opened:
        yield opened


@pytest.fixture
def services(instance: Instance) -> Services:
    rate = DEFAULTS.access.link_rate
    return services_with(instance.services, link_rate=LinkRate(instance.state, rate, instance.services.clock))


def publish(instance: Instance, snapshot_id: str = RUN, leaders: tuple[str, ...] = (ALPHA, BRAVO)) -> None:
    """Publish a snapshot of `campaigns` with rows of Alpha only."""

    def entry(client_id: str) -> ManifestEntry:
        formats = {
            name: StoredFormat(7, "ab" * 32, 9, "cd" * 32, f"{snapshot_id}/{client_id}/{name}") for name in FORMATS
        }
        return ManifestEntry(client_id, "campaigns", 3 if client_id else 0, "ff" * 16, formats)

    instance.publish(snapshot_id, leaders, [entry(""), entry(ALPHA)])


async def principal(instance: Instance) -> Principal:
    return await sessions.authenticate(instance.services, (await instance.log_in()).token)


async def link(
    instance: Instance,
    services: Services,
    credential: Principal | None = None,
    name: str = "campaigns.csv.gz",
    client_id: str = ALPHA,
) -> IssuedLink:
    used = credential or await principal(instance)
    issued = await downloads.issue_link(services, used, client_id, file_at(name, FORMATS), CALLER)
    await services.audit_buffer.flush()
    return issued


async def follow(instance: Instance, services: Services, url: str, caller: Caller = CALLER) -> OpenedFile:
    parts = urlsplit(url)
    *_, client_id, snapshot_id, file_name = parts.path.split("/")
    request = LinkRequest(client_id, snapshot_id, file_name, parse_qsl(parts.query, keep_blank_values=True))
    try:
        opened = await downloads.open_link(services, request, caller)
        origin = EventOrigin(services.clock(), caller, opened.seat, client_id, opened.subject)
        await downloads.record_download(services, origin, "file.fetched", "ok", opened.details)
        return opened
    finally:
        await services.audit_buffer.flush()


async def error_code(instance: Instance, services: Services, url: str) -> str:
    with pytest.raises(RequestError) as caught:
        await follow(instance, services, url)
    return caught.value.code


async def test_missing_files_have_a_retry_time(instance: Instance, services: Services) -> None:
    with pytest.raises(NotFound) as caught:
        await link(instance, services)
    assert caught.value.code == "snapshot_not_ready"
    # From 09:00:05 to 04:00 of the next day.
    assert caught.value.retry_after_seconds == 19 * 3600 - 5
    instance.now[0] += timedelta(microseconds=1)
    with pytest.raises(NotFound) as caught:
        await link(instance, services)
    # A client that returns at that time must not be too early.
    assert caught.value.retry_after_seconds == 19 * 3600 - 5
    publish(instance, leaders=(BRAVO,))
    instance.now[0] += timedelta(seconds=1)
    credential = await principal(instance)
    with pytest.raises(NotFound, match="has no such account"):
        await link(
            instance,
            services,
            changed_to(credential, account=changed_to(credential.account, client_id=FOREIGN)),
            client_id=FOREIGN,
        )


async def test_link_beyond_the_credentials_account_is_refused(instance: Instance, services: Services) -> None:
    publish(instance, leaders=(ALPHA, BRAVO, FOREIGN))
    # Signed by the service, but the token is for Alpha, and the seat has no grant on Foreign.
    created = await api_tokens.create(
        instance.services, await principal(instance), api_tokens.TokenOptions("job"), CALLER
    )
    for subject, client_id in (
        ((f"token:{created.token.token_id}"), BRAVO),
        ((await principal(instance)).subject, FOREIGN),
    ):
        target = LinkTarget(client_id, RUN, "campaigns", subject, int(instance.now[0].timestamp()) + 60)
        query = signed_link.sign(target, keyring=services.keyring.current(), random=secrets.token_bytes)
        url = f"https://data.example.org/download/v1/links/{client_id}/{RUN}/campaigns.csv.gz?{query}"
        assert await error_code(instance, services, url) == "link_revoked"


async def test_link_ends_with_the_file_name(instance: Instance, services: Services) -> None:
    publish(instance)
    url = (await link(instance, services)).url
    assert url.endswith("&name=campaigns.csv.gz")
    unnamed = url.removesuffix("&name=campaigns.csv.gz")
    for accepted in (
        unnamed,
        url.replace("csv", "json"),
        f"{unnamed}&name=campaigns.json.gz",
        unnamed.replace("?", "?name=campaigns.csv.gz&"),
    ):
        await follow(instance, services, accepted)
    for name in ("", "members.csv.gz", "campaigns.parquet", "campaigns", "campaigns.csv.gz&name=campaigns.csv.gz"):
        assert await error_code(instance, services, f"{unnamed}&name={name}") == "invalid_link", name


async def test_link_to_a_deleted_snapshot_reports_file_gone(instance: Instance, services: Services) -> None:
    publish(instance)
    url = (await link(instance, services)).url
    instance.advance(minutes=1)
    publish(instance, UNKNOWN)
    assert (await follow(instance, services, url)).file.snapshot_id == RUN
    instance.write(lambda stores: stores.snapshots.forget(RUN, at_most=10_000))
    assert await error_code(instance, services, url) == "file_gone"


def test_documented_and_short_paths_name_files() -> None:
    usage = "outbound_message_type_usage"
    assert file_at(f"{usage}.csv.gz/segment-based-subscription", FORMATS).resource.name == usage
    assert file_at(f"{usage}.json.gz/segment-based-subscription", FORMATS).format.name == "json"
    assert file_at(f"{usage}.csv.gz", FORMATS).name == f"{usage}.csv.gz"
    assert file_named("members.json.gz", FORMATS).format.name == "json"
    for text in (
        "",
        "members",
        "members.csv",
        "MEMBERS.csv.gz",
        "../members.csv.gz",
        "members.parquet",
        f"{usage}.csv.gz/other",
    ):
        with pytest.raises(NotFound):
            file_at(text, FORMATS)


async def test_link_of_a_key_that_was_revoked_on_another_node_is_refused(
    instance: Instance, services: Services
) -> None:
    """The file of this node still has the key, and the session is still open."""
    publish(instance)
    used = await principal(instance)
    issued, kid = await link(instance, services, used), services.keyring.current().signing_kid
    assert (await follow(instance, services, issued.url)).client_id == ALPHA
    instance.write(lambda stores: stores.revoked_keys.add(kid, instance.now[0]))
    with pytest.raises(Forbidden) as refused:
        await follow(instance, services, issued.url)
    assert refused.value.code == "invalid_link"
    assert services.keyring.current().signing_kid != kid
    assert (await follow(instance, services, (await link(instance, services, used)).url)).client_id == ALPHA


async def test_api_token_receives_links_of_a_valid_key(instance: Instance, services: Services) -> None:
    publish(instance)
    seat, now = instance.seat(ROSA), instance.now[0]
    options = api_tokens.TokenOptions("t")
    created = api_tokens.new_token(seat, ALPHA, options, now=now, random=secrets.token_bytes)
    instance.write(lambda stores: stores.api_tokens.add(created.token))
    kid = services.keyring.current().signing_kid
    instance.write(lambda stores: stores.revoked_keys.add(kid, now))
    used = await api_tokens.authenticate(instance.services, created.secret, CALLER)
    assert f"kid={kid}" not in (await link(instance, services, used)).url
