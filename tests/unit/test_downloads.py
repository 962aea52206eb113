"""Downloads: issuing links, opening them, and the freshness of the files."""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from dataclasses import replace as services_with
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from msgspec.structs import replace as changed_to

from daybreak import downloads
from daybreak.access import api_tokens, operators, sessions
from daybreak.access.link_usage import LinkRate
from daybreak.access.services import Services
from daybreak.credentials import keyring, signed_link
from daybreak.credentials.signed_link import LinkRequest, LinkTarget
from daybreak.domain.audit import EventOrigin
from daybreak.domain.errors import Forbidden, NotFound, RequestError
from daybreak.domain.identity import Caller, Grant, Principal, ServeGzipAs
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import Freshness, ManifestEntry, Snapshot, SnapshotState, StoredFormat
from daybreak.downloads import IssuedLink, OpenedFile, file_at, file_named
from daybreak.snapshots.freshness import freshness
from daybreak.state.stores import Stores
from tests.configured import DEFAULTS, configured
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


async def api_token(instance: Instance, **options: Any) -> Principal:
    """Return the principal of a new API token with these options."""
    created = await api_tokens.create(
        instance.services, await principal(instance), api_tokens.TokenOptions("job", **options), CALLER
    )
    return await api_tokens.authenticate(instance.services, created.secret, CALLER)


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


async def test_link_opens_its_csv_and_its_json_file(instance: Instance, services: Services) -> None:
    publish(instance)
    issued = await link(instance, services)
    assert issued.url.startswith(f"https://data.example.org/download/v1/links/{ALPHA}/{RUN}/campaigns.csv.gz?expires=")
    assert issued.expires_at == instance.now[0] + timedelta(minutes=15)
    assert (await follow(instance, services, issued.url)).file == issued.file
    other = await follow(instance, services, issued.url.replace("csv", "json"))
    assert other.named.name == "campaigns.json.gz"
    assert (other.file.format, other.file.rows) == ("json", 3)
    assert (await link(instance, services)).url != issued.url


async def test_account_without_rows_gets_the_header_only_file(instance: Instance, services: Services) -> None:
    publish(instance)
    active = await sessions.active_session(instance.services, (await instance.log_in()).token)
    switched = await sessions.switch(instance.services, active, BRAVO, CALLER)
    issued = await link(instance, services, await sessions.authenticate(instance.services, switched), client_id=BRAVO)
    assert (await follow(instance, services, issued.url)).file.rows == 0


async def test_own_account_needs_the_context_of_the_session(instance: Instance, services: Services) -> None:
    publish(instance)
    with pytest.raises(Forbidden) as caught:
        await link(instance, services, client_id=BRAVO)
    assert (caught.value.code, caught.value.message) == (
        "wrong_context",
        "This token is for another of your accounts; switch with PUT /download/v2/auth/context.",
    )

    with pytest.raises(Forbidden) as caught:
        await link(instance, services, await api_token(instance), client_id=BRAVO)
    assert caught.value.code == "not_your_account", "an API token cannot switch"


async def test_inactive_account_of_the_seat_is_named(instance: Instance, services: Services) -> None:
    publish(instance)
    instance.change_account(BRAVO, active=False)
    with pytest.raises(Forbidden) as caught:
        await link(instance, services, client_id=BRAVO)
    assert caught.value.code == "account_inactive"


@pytest.mark.parametrize("client_id", [FOREIGN, UNKNOWN, "", "\x00", ALPHA + "/"])
async def test_foreign_and_unknown_accounts_get_the_same_error(
    instance: Instance, services: Services, client_id: str
) -> None:
    publish(instance)
    with pytest.raises(Forbidden) as caught:
        await link(instance, services, client_id=client_id)
    assert (caught.value.code, caught.value.message) == (
        "not_your_account",
        "This credential does not give access to that account.",
    )


async def test_data_export_is_required(instance: Instance, services: Services) -> None:
    publish(instance)
    instance.put_grant(ROSA, ALPHA, data_export=False)
    with pytest.raises(Forbidden) as caught:
        await link(instance, services)
    assert caught.value.code == "data_export_required"


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


@pytest.mark.parametrize(
    ("revoke", "code"),
    [
        (lambda h: h.advance(minutes=14, seconds=59), None),
        (lambda h: h.advance(minutes=15), "link_expired"),
        (lambda h: h.write(lambda s: s.directory.remove_grants(Grant(ROSA, ALPHA))), "link_revoked"),
        (lambda h: h.put_grant(ROSA, ALPHA, data_export=False), "link_revoked"),
        (lambda h: h.change_account(ALPHA, active=False), "link_revoked"),
        (lambda h: h.change_account(ALPHA, second_factor_required=True), "link_revoked"),
        (lambda h: h.write(lambda s: s.seats.set_disabled(ROSA, disabled=True)), "link_revoked"),
        (lambda h: h.write(lambda s: s.sessions.end_all(ROSA, h.now[0], "logout")), "link_revoked"),
        (
            lambda h: h.write(
                lambda s: operators.set_password_hash(s, h.seat(ROSA), "$argon2id$x", h.now[0], actor="operator")
            ),
            "link_revoked",
        ),
    ],
    ids=[
        "in time",
        "time",
        "grant",
        "data_export",
        "account",
        "second factor",
        "seat",
        "logout",
        "password",
    ],
)
async def test_link_expires_and_is_revoked_with_its_credential(
    instance: Instance, services: Services, revoke: Callable[[Instance], object], code: str | None
) -> None:
    publish(instance)
    url = (await link(instance, services)).url
    revoke(instance)
    if code is None:
        await follow(instance, services, url)
    else:
        assert await error_code(instance, services, url) == code


async def test_link_ends_with_its_session(instance: Instance, services: Services) -> None:
    publish(instance)
    settings = configured(instance.services.settings, access={"session_lifetime": timedelta(minutes=5)})
    instance.services = replace(instance.services, settings=settings)
    url = (await link(instance, services)).url
    instance.advance(minutes=4, seconds=59)
    await follow(instance, services, url)
    instance.advance(seconds=1)
    assert await error_code(instance, services, url) == "link_revoked"


async def test_link_of_an_api_token_ends_with_the_token(instance: Instance, services: Services) -> None:
    publish(instance)
    user = await principal(instance)
    created = await api_tokens.create(instance.services, user, api_tokens.TokenOptions("job"), CALLER)
    credential = await api_tokens.authenticate(instance.services, created.secret, CALLER)
    url = (await link(instance, services, credential)).url
    instance.write(lambda stores: stores.sessions.end_all(ROSA, instance.now[0], "logout"))
    await follow(instance, services, url)
    assert credential.token is not None
    token_id = credential.token.token_id
    await api_tokens.revoke(instance.services, user, token_id, CALLER)
    assert await error_code(instance, services, url) == "link_revoked"


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


async def test_changed_links_are_refused(instance: Instance, services: Services) -> None:
    publish(instance)
    url = (await link(instance, services)).url
    for changed, code in (
        (url.replace(ALPHA, BRAVO), "invalid_link"),
        (url.replace(RUN, UNKNOWN), "invalid_link"),
        (url.replace("campaigns", "members"), "invalid_link"),
        (url.replace("campaigns", "campaign"), "unknown_file"),
        (url.replace("csv.gz", "parquet"), "unknown_file"),
        (url.replace("csv.gz", "csv"), "unknown_file"),
        (url.replace("expires=1", "expires=2"), "invalid_link"),
        (url.replace("nonce=", "nonce=%20"), "invalid_link"),
        (url + "&kid=00000000", "invalid_link"),
        (url + "&extra=1", "invalid_link"),
        (url.partition("?")[0], "invalid_link"),
    ):
        assert await error_code(instance, services, changed) == code, changed


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


async def test_api_token_decides_how_its_files_are_sent(instance: Instance, services: Services) -> None:
    publish(instance)
    choices: tuple[ServeGzipAs | None, ...] = (None, "file", "encoding")
    for choice in choices:
        url = (await link(instance, services, await api_token(instance, serve_gzip_as=choice))).url
        assert (await follow(instance, services, url)).serve_gzip_as == choice
    assert (await follow(instance, services, (await link(instance, services)).url)).serve_gzip_as is None


async def test_link_of_a_token_works_from_its_allowed_addresses(instance: Instance, services: Services) -> None:
    publish(instance)
    token = await api_token(instance, allowed_networks=(f"{CALLER.address}/32",))
    url = (await link(instance, services, token)).url
    await follow(instance, services, url)
    with pytest.raises(Forbidden) as caught:
        await follow(instance, services, url, Caller("198.51.100.7"))
    assert caught.value.code == "address_not_allowed"
    assert instance.audit("file.fetched")[-1].result == "address_not_allowed"


async def test_link_to_a_deleted_snapshot_reports_file_gone(instance: Instance, services: Services) -> None:
    publish(instance)
    url = (await link(instance, services)).url
    instance.advance(minutes=1)
    publish(instance, UNKNOWN)
    assert (await follow(instance, services, url)).file.snapshot_id == RUN
    instance.write(lambda stores: stores.snapshots.forget(RUN, at_most=10_000))
    assert await error_code(instance, services, url) == "file_gone"


async def test_links_work_after_a_key_rotation(instance: Instance, services: Services) -> None:
    publish(instance)
    url = (await link(instance, services)).url
    path = instance.path / "keyring.json"
    for _ in range(2):
        ring = keyring.load(path).rotate(instance.now[0], secrets.token_bytes, lifetime=timedelta(days=7))
        keyring.save(path, ring)
        await follow(instance, services, url)


async def test_audit_trail_records_links_and_downloads(instance: Instance, services: Services) -> None:
    publish(instance)
    url = (await link(instance, services)).url
    await follow(instance, services, url)
    events = [event for event in instance.audit() if event.action in {"link.issued", "file.fetched"}]
    assert [event.action for event in events] == ["link.issued", "file.fetched"]
    for event in events:
        assert (event.actor, event.client_id, event.result) == ("rosa@example.org", ALPHA, "ok")
        assert event.subject is not None
        assert event.subject.startswith("session:")
        assert event.details["file"] == "campaigns.csv.gz"
        assert event.details["snapshot_id"] == RUN
        assert urlsplit(url).query not in repr(event)
    assert events[1].details["bytes"] == 7


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


def at(hour: int, minute: int = 0, day: int = 20) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


def fresh(instance: Instance, now: datetime) -> Freshness:
    return instance.state.read(lambda stores: freshness(stores.snapshots, now, DEFAULTS.snapshot.publish_at))


def test_files_are_late_one_minute_after_publication(instance: Instance) -> None:
    instance.now[0] = at(4)
    publish(instance)
    on_time = fresh(instance, at(12))
    assert (on_time.late, on_time.reason) == (False, None)
    assert on_time.next_expected_at == at(4, day=21)
    assert fresh(instance, at(3, 59, day=21)).next_expected_at == at(4, day=21)
    assert not fresh(instance, at(4, 1, day=21)).late
    late = fresh(instance, at(4, 2, day=21))
    assert late.late
    assert late.snapshot is not None
    assert late.next_expected_at == at(4, day=22)
    assert late.reason is not None
    assert "has not started" in late.reason


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (None, "still being built"),
        (SnapshotState.COMPLETE, "about to be published"),
        (SnapshotState.HELD, "held until"),
        (SnapshotState.FAILED, "failed to build"),
    ],
)
def test_reason_for_late_files_has_no_internals(instance: Instance, state: SnapshotState | None, expected: str) -> None:
    def work(stores: Stores) -> None:
        run = stores.snapshots.claim_day(
            Snapshot(RUN, SnapshotState.BUILDING, at(4), at(3), day=date(2026, 11, 20)),
            at(3, 30),
            7200,
        )
        assert run is not None
        if state is not None:
            stores.snapshots.finish(RUN, run.fence, state, at(4), report=RunReport(), failure="/secret/path: no space")

    instance.write(work)
    late = fresh(instance, at(4, 5))
    assert late.late
    assert late.reason is not None
    assert expected in late.reason
    assert "secret" not in late.reason


async def test_manifest_requires_data_export(instance: Instance, services: Services) -> None:
    publish(instance)

    async def scenario() -> downloads.Manifest:
        return await downloads.manifest(services, await principal(instance), ALPHA)

    found = await scenario()
    assert [(entry.resource, entry.rows) for entry in found.entries] == [("campaigns", 3)]
    assert found.freshness.snapshot is not None
    instance.put_grant(ROSA, ALPHA, data_export=False)
    with pytest.raises(Forbidden):
        await scenario()


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
