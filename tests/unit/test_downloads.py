"""Downloads: links for those who may, files for links that stand, and how fresh they are."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from msgspec.structs import replace as changed_to

from daybreak import downloads
from daybreak.access import api_tokens, operators, sessions
from daybreak.access.trail import TrailBuffer
from daybreak.credentials import keyring, signed_link
from daybreak.credentials.signed_link import LinkTarget
from daybreak.domain.errors import Forbidden, NotFound, RequestError
from daybreak.domain.identity import Grant, Principal
from daybreak.domain.snapshot import Freshness, ManifestEntry, Snapshot, SnapshotState, StoredFormat
from daybreak.downloads import (
    DownloadServices,
    DownloadSettings,
    IssuedLink,
    OpenedFile,
    file_at,
    file_named,
)
from daybreak.ports.state import Stores
from daybreak.snapshots.freshness import freshness
from tests.unit.access.house import (
    ALPHA,
    BRAVO,
    CALLER,
    FOREIGN,
    ROSA,
    UNKNOWN,
    House,
    open_house,
)

FORMATS = ("csv", "json")
RUN = "20000000-0000-4000-8000-000000000001"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as opened:
        yield opened


@pytest.fixture
def services(house: House) -> DownloadServices:
    return DownloadServices(
        settings=DownloadSettings(base_url="https://data.example.org"),
        state=house.state,
        keyring=house.services.keyring,
        trail=TrailBuffer(house.state),
        clock=house.services.clock,
        random=secrets.token_bytes,
    )


def publish(house: House, snapshot_id: str = RUN, leaders: tuple[str, ...] = (ALPHA, BRAVO)) -> None:
    """Puts a snapshot of `campaigns` in place: some rows of Alpha, none of the others."""

    def entry(client_id: str) -> ManifestEntry:
        formats = {
            name: StoredFormat(7, "ab" * 32, 9, "cd" * 32, f"{snapshot_id}/{client_id}/{name}") for name in FORMATS
        }
        return ManifestEntry(client_id, "campaigns", 3 if client_id else 0, "ff" * 16, formats)

    def work(stores: Stores) -> None:
        now = house.now[0]
        run = stores.snapshots.begin_manual(
            Snapshot(snapshot_id, SnapshotState.BUILDING, as_of=now, started_at=now), now, 60
        )
        stores.snapshots.add_leaders(snapshot_id, run.fence, leaders)
        stores.snapshots.add_entries(snapshot_id, run.fence, [entry(""), entry(ALPHA)])
        stores.snapshots.finish(snapshot_id, run.fence, SnapshotState.COMPLETE, now, report={})
        stores.snapshots.publish(snapshot_id, run.fence, now)

    house.write(work)


async def principal(house: House) -> Principal:
    return await sessions.authenticate(house.services, (await house.start()).token)


def link(
    house: House,
    services: DownloadServices,
    who: Principal | None = None,
    name: str = "campaigns.csv.gz",
    client_id: str = ALPHA,
) -> IssuedLink:
    async def story() -> IssuedLink:
        asker = who or await principal(house)
        issued = await downloads.issue_link(services, asker, client_id, file_at(name, FORMATS), CALLER)
        await services.trail.flush()
        return issued

    return house.run(story())


def follow(house: House, services: DownloadServices, url: str) -> OpenedFile:
    parts = urlsplit(url)
    *_, client_id, snapshot_id, file_name = parts.path.split("/")

    async def story() -> OpenedFile:
        try:
            opened = await downloads.open_link(
                services,
                client_id=client_id,
                snapshot_id=snapshot_id,
                file_name=file_name,
                parameters=parse_qsl(parts.query, keep_blank_values=True),
                caller=CALLER,
            )
            await downloads.record_fetch(services, opened, CALLER)
            return opened
        finally:
            await services.trail.flush()

    return house.run(story())


def refusal(house: House, services: DownloadServices, url: str) -> str:
    with pytest.raises(RequestError) as told:
        follow(house, services, url)
    return told.value.code


def test_a_link_opens_its_file_and_json_in_the_place_of_csv_opens_the_other(
    house: House, services: DownloadServices
) -> None:
    publish(house)
    issued = link(house, services)
    assert issued.url.startswith(f"https://data.example.org/download/v1/links/{ALPHA}/{RUN}/campaigns.csv.gz?expires=")
    assert issued.expires_at == house.now[0] + timedelta(minutes=15)
    assert follow(house, services, issued.url).file == issued.file
    other = follow(house, services, issued.url.replace("csv", "json"))
    assert other.named.name == "campaigns.json.gz"
    assert (other.file.format, other.file.rows) == ("json", 3)
    assert link(house, services).url != issued.url


def test_a_leader_without_rows_gets_the_header_only_file(house: House, services: DownloadServices) -> None:
    publish(house)

    async def bravo() -> Principal:
        who = await sessions.signed_in(house.services, (await house.start()).token)
        switched = await sessions.switch(house.services, who, BRAVO, CALLER)
        return await sessions.authenticate(house.services, switched.token)

    issued = link(house, services, house.run(bravo()), client_id=BRAVO)
    assert follow(house, services, issued.url).file.rows == 0


@pytest.mark.parametrize("client_id", [BRAVO, FOREIGN, UNKNOWN, "", "\x00", ALPHA + "/"])
def test_other_accounts_foreign_and_unknown_get_one_answer(
    house: House, services: DownloadServices, client_id: str
) -> None:
    publish(house)
    with pytest.raises(Forbidden) as told:
        link(house, services, client_id=client_id)
    assert (told.value.code, told.value.message) == (
        "not_your_account",
        "This credential gives no access to that account.",
    )


def test_data_export_is_needed(house: House, services: DownloadServices) -> None:
    publish(house)
    house.grant(ROSA, ALPHA, data_export=False)
    with pytest.raises(Forbidden) as told:
        link(house, services)
    assert told.value.code == "data_export_required"


def test_no_snapshot_and_no_such_leader_are_told_with_the_time_to_wait(
    house: House, services: DownloadServices
) -> None:
    with pytest.raises(NotFound) as told:
        link(house, services)
    assert told.value.code == "snapshot_not_ready"
    # From 09:00:05 to 04:00 of the next day.
    assert told.value.retry_after_seconds == 19 * 3600 - 5
    house.now[0] += timedelta(microseconds=1)
    with pytest.raises(NotFound) as told:
        link(house, services)
    # Whoever comes back when told must not be too early.
    assert told.value.retry_after_seconds == 19 * 3600 - 5
    publish(house, leaders=(BRAVO,))
    house.now[0] += timedelta(seconds=1)
    who = house.run(principal(house))
    with pytest.raises(NotFound, match="does not know this account"):
        link(house, services, changed_to(who, account=changed_to(who.account, client_id=FOREIGN)), client_id=FOREIGN)


@pytest.mark.parametrize(
    ("take_away", "code"),
    [
        (lambda h: h.later(minutes=14, seconds=59), None),
        (lambda h: h.later(minutes=15), "link_expired"),
        (lambda h: h.write(lambda s: s.directory.remove_grants(Grant(ROSA, ALPHA))), "link_revoked"),
        (lambda h: h.grant(ROSA, ALPHA, data_export=False), "link_revoked"),
        (lambda h: h.account(ALPHA, active=False), "link_revoked"),
        (lambda h: h.account(ALPHA, second_factor_required=True), "link_revoked"),
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
def test_a_link_ends_with_its_time_and_with_what_it_came_from(
    house: House,
    services: DownloadServices,
    take_away: Callable[[House], object],
    code: str | None,
) -> None:
    publish(house)
    url = link(house, services).url
    take_away(house)
    if code is None:
        follow(house, services, url)
    else:
        assert refusal(house, services, url) == code


def test_a_link_does_not_outlive_its_session(house: House, services: DownloadServices) -> None:
    publish(house)
    settings = replace(house.services.settings, session_lifetime=timedelta(minutes=5))
    house.services = replace(house.services, settings=settings)
    url = link(house, services).url
    house.later(minutes=4, seconds=59)
    follow(house, services, url)
    house.later(seconds=1)
    assert refusal(house, services, url) == "link_revoked"


def test_a_link_of_an_api_token_ends_with_the_token(house: House, services: DownloadServices) -> None:
    publish(house)

    async def story() -> tuple[Principal, Principal]:
        person = await principal(house)
        minted = await api_tokens.create(house.services, person, name="job", expires_at=None, caller=CALLER)
        return person, await api_tokens.authenticate(house.services, minted.secret)

    person, who = house.run(story())
    url = link(house, services, who).url
    house.write(lambda stores: stores.sessions.end_all(ROSA, house.now[0], "logout"))
    follow(house, services, url)
    assert who.token is not None
    token_id = who.token.token_id
    house.run(api_tokens.revoke(house.services, person, token_id, CALLER))
    assert refusal(house, services, url) == "link_revoked"


def test_a_link_to_an_account_that_the_credential_is_not_of_opens_nothing(
    house: House, services: DownloadServices
) -> None:
    publish(house, leaders=(ALPHA, BRAVO, FOREIGN))

    async def token() -> str:
        minted = await api_tokens.create(
            house.services, await principal(house), name="job", expires_at=None, caller=CALLER
        )
        return f"token:{minted.token.token_id}"

    # As if the service had signed it by mistake: the seat reaches Bravo, its token does not.
    for subject, client_id in ((house.run(token()), BRAVO), (house.run(principal(house)).subject, FOREIGN)):
        target = LinkTarget(client_id, RUN, "campaigns", subject, int(house.now[0].timestamp()) + 60)
        query = signed_link.sign(target, keyring=services.keyring.current(), random=secrets.token_bytes)
        url = f"https://data.example.org/download/v1/links/{client_id}/{RUN}/campaigns.csv.gz?{query}"
        assert refusal(house, services, url) == "link_revoked"


def test_changed_links_are_refused(house: House, services: DownloadServices) -> None:
    publish(house)
    url = link(house, services).url
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
        assert refusal(house, services, changed) == code, changed


def test_a_snapshot_that_is_gone_is_told_as_such(house: House, services: DownloadServices) -> None:
    publish(house)
    url = link(house, services).url
    house.later(minutes=1)
    publish(house, UNKNOWN)
    assert follow(house, services, url).file.snapshot_id == RUN
    house.write(lambda stores: stores.snapshots.forget(RUN))
    assert refusal(house, services, url) == "file_gone"


def test_links_survive_a_rotation_of_the_keys(house: House, services: DownloadServices) -> None:
    publish(house)
    url = link(house, services).url
    path = house.path / "keyring.json"
    for _ in range(2):
        ring = keyring.load(path).rotate(house.now[0], secrets.token_bytes, lifetime=timedelta(days=7))
        keyring.save(path, ring)
        follow(house, services, url)


def test_the_trail_says_who_got_which_link_and_file(house: House, services: DownloadServices) -> None:
    publish(house)
    url = link(house, services).url
    follow(house, services, url)
    events = [event for event in house.audit() if event.action in {"link.issued", "file.fetched"}]
    assert [event.action for event in events] == ["link.issued", "file.fetched"]
    for event in events:
        assert (event.actor, event.client_id, event.result) == ("rosa@example.org", ALPHA, "ok")
        assert event.subject is not None
        assert event.subject.startswith("session:")
        assert event.details["file"] == "campaigns.csv.gz"
        assert event.details["snapshot_id"] == RUN
        assert urlsplit(url).query not in repr(event)
    assert events[1].details["bytes"] == 7


def test_every_documented_path_and_short_name_is_a_file() -> None:
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


def fresh(house: House, now: datetime) -> Freshness:
    settings = DownloadSettings(base_url="x")
    return house.state.read(lambda stores: freshness(stores.snapshots, now, settings.publish_at))


def test_freshness_is_told_to_the_minute(house: House) -> None:
    house.now[0] = at(4)
    publish(house)
    on_time = fresh(house, at(12))
    assert (on_time.late, on_time.reason) == (False, None)
    assert on_time.next_expected_at == at(4, day=21)
    assert fresh(house, at(3, 59, day=21)).next_expected_at == at(4, day=21)
    assert not fresh(house, at(4, 1, day=21)).late
    late = fresh(house, at(4, 2, day=21))
    assert late.late
    assert late.snapshot is not None
    assert late.next_expected_at == at(4, day=22)
    assert late.reason is not None
    assert "not been started" in late.reason


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (None, "still being made"),
        (SnapshotState.COMPLETE, "about to be published"),
        (SnapshotState.HELD, "held back"),
        (SnapshotState.FAILED, "failed; it is tried again"),
    ],
)
def test_a_late_publication_says_why_without_internals(house: House, state: SnapshotState | None, said: str) -> None:
    def work(stores: Stores) -> None:
        run = stores.snapshots.claim_day(
            Snapshot(RUN, SnapshotState.BUILDING, at(4), at(3), day=date(2026, 11, 20)),
            at(3, 30),
            7200,
        )
        assert run is not None
        if state is not None:
            stores.snapshots.finish(RUN, run.fence, state, at(4), report={}, failure="/secret/path: no space")

    house.write(work)
    told = fresh(house, at(4, 5))
    assert told.late
    assert told.reason is not None
    assert said in told.reason
    assert "secret" not in told.reason


def test_the_manifest_is_for_those_who_may_download(house: House, services: DownloadServices) -> None:
    publish(house)

    async def story() -> downloads.Manifest:
        return await downloads.manifest(services, await principal(house), ALPHA)

    found = house.run(story())
    assert [(entry.resource, entry.rows) for entry in found.entries] == [("campaigns", 3)]
    assert found.freshness.snapshot is not None
    house.grant(ROSA, ALPHA, data_export=False)
    with pytest.raises(Forbidden):
        house.run(story())
