"""Changes of shared tables: which versions have them, and which error names the oldest one."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from daybreak import table_changes
from daybreak.access.services import Services
from daybreak.domain.delta import LeaderDelta, ResourceDelta
from daybreak.domain.errors import InvalidRequest, NotFound, RateLimited
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import Snapshot, SnapshotState, StoredFormat
from daybreak.settings import Rate
from daybreak.sharing import TableName
from daybreak.state.stores import Stores
from daybreak.table_changes import ChangesResult, VersionRange
from tests.configured import DEFAULTS
from tests.unit.access.instance import ALPHA, BRAVO, CALLER, ROSA, Instance, open_instance
from tests.unit.test_sharing import MEMBERS, audited, principal_of, services_of
from tests.unit.test_sharing import publish as publish_files


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    with open_instance(tmp_path) as opened:
        opened.change_account(ALPHA, api_tokens_enabled=True)
        opened.put_grant(ROSA, ALPHA, async_rest_api=True)
        yield opened


@pytest.fixture
def services(instance: Instance) -> Services:
    return services_of(instance, DEFAULTS.access.link_rate)


def snapshot_id(version: int) -> str:
    return f"20000000-0000-4000-8000-{version:012}"


def delta(*formats: str, lines: int = 3, reason: str = "") -> ResourceDelta:
    stored = {name: StoredFormat(7, "ab" * 32, 9, "cd" * 32, f"deltas/{name}") for name in formats}
    return ResourceDelta(9, 9, lines=lines, formats=stored, reason=reason)


FULL = ("csv", "json", "parquet")
LARGE = delta(reason="larger_than_full")
UNSHARED = delta("csv", "json")
CONSTANTS = delta("csv", "json", lines=0)


def publish(instance: Instance, *deltas: ResourceDelta | None) -> list[datetime]:
    """Publish version 1, and a further one an hour later for each delta of Alpha's members. Return their times."""
    times = []
    for version, change in enumerate([None, *deltas], start=1):
        instance.advance(hours=1)
        now = instance.now[0]
        times.append(now)

        def work(
            stores: Stores, version: int = version, change: ResourceDelta | None = change, now: datetime = now
        ) -> None:
            key = snapshot_id(version)
            run = stores.snapshots.begin_manual(Snapshot(key, SnapshotState.BUILDING, now, now), now, 60)
            stores.snapshots.add_leaders(key, run.fence, [ALPHA, BRAVO])
            stores.deltas.begin(key, run.fence, snapshot_id(version - 1) if version > 1 else None)
            stores.deltas.add(key, run.fence, [LeaderDelta(ALPHA, "members", change)] if change else [])
            stores.snapshots.finish(key, run.fence, SnapshotState.COMPLETE, now, report=RunReport())
            stores.snapshots.publish(key, run.fence, now)

        instance.write(work)
    return times


async def read(
    instance: Instance,
    services: Services,
    first: int | datetime,
    last: int | datetime | None = None,
    name: TableName = MEMBERS,
) -> ChangesResult:
    work = table_changes.changes(services, await principal_of(instance), name, VersionRange(first, last), CALLER)
    found = await audited(services, work)
    assert isinstance(found, ChangesResult)
    return found


def versions(result: ChangesResult) -> list[int]:
    return [publication.version for publication, _ in result.files]


async def test_versions_without_changed_rows_have_no_file(instance: Instance, services: Services) -> None:
    publish(instance, delta(*FULL), None, CONSTANTS, delta(*FULL))
    found = await read(instance, services, 2)
    assert (found.first_version, versions(found)) == (2, [2, 5])
    assert versions(await read(instance, services, 3, 4)) == []
    assert versions(await read(instance, services, 2, 4)) == [2]
    assert versions(await read(instance, services, 3, 99)) == [5]
    for publication, file in (await read(instance, services, 2)).files:
        assert f"/{ALPHA}/{publication.snapshot_id}/members.delta.parquet?" in file.url


async def test_times_select_publications(instance: Instance, services: Services) -> None:
    times = publish(instance, delta(*FULL), delta(*FULL), delta(*FULL))
    assert versions(await read(instance, services, times[2])) == [3, 4]
    assert versions(await read(instance, services, times[1], times[2])) == [2, 3]
    with pytest.raises(InvalidRequest) as missing:
        await read(instance, services, times[0])
    assert "from version 1 are not kept. The oldest version with changes is 2" in missing.value.message


@pytest.mark.parametrize("gap", [LARGE, UNSHARED])
async def test_gap_is_an_error_that_names_the_versions_after_it(
    instance: Instance, services: Services, gap: ResourceDelta
) -> None:
    publish(instance, delta(*FULL), gap, delta(*FULL), None)
    assert versions(await read(instance, services, 2, 2)) == [2]
    assert versions(await read(instance, services, 4)) == [4]
    for first in (0, 1, 2, 3):
        with pytest.raises(InvalidRequest) as missing:
            await read(instance, services, first)
        assert missing.value.code == "version_not_kept"
        message = f"The changes from version {first} are not kept. "
        assert missing.value.message == message + "The oldest version with changes is 4, the current one is 5."
    with pytest.raises(InvalidRequest) as last:
        await read(instance, services, 2, 3)
    assert "The changes of version 3 are not kept." in last.value.message


async def test_new_chain_has_no_changes(instance: Instance, services: Services) -> None:
    publish(instance)
    with pytest.raises(InvalidRequest) as missing:
        await read(instance, services, 1)
    assert "The changes of version 1 are not kept." in missing.value.message
    with pytest.raises(InvalidRequest) as after:
        await read(instance, services, 2)
    assert after.value.message == "The changes begin after the current version, which is 1."


async def test_accounts_without_files_and_foreign_ones_are_refused(instance: Instance, services: Services) -> None:
    with pytest.raises(NotFound) as not_ready:
        await read(instance, services, 1)
    assert not_ready.value.code == "snapshot_not_ready"
    publish(instance, delta(*FULL))
    with pytest.raises(NotFound):
        await read(instance, services, 2, name=TableName(BRAVO, "daybreak", "members"))
    results = [(event.result, event.client_id) for event in instance.audit("table.queried")]
    assert results == [("snapshot_not_ready", ALPHA), ("not_found", ALPHA)]


async def test_requests_count_as_links(instance: Instance) -> None:
    publish(instance, delta(*FULL))
    services = services_of(instance, Rate(2, DEFAULTS.access.link_rate.window))
    principal = await principal_of(instance)

    async def scenario() -> None:
        for _ in range(3):
            await table_changes.changes(services, principal, MEMBERS, VersionRange(2), CALLER)

    with pytest.raises(RateLimited):
        await audited(services, scenario())
    events = instance.audit("table.queried")
    assert sorted(event.result for event in events) == ["ok", "ok", "rate_limited"]
    assert next(dict(event.details) for event in events if event.result == "ok") == {
        "table": "members", "from_version": 2, "version": 2, "files": 1,
    }  # fmt: skip


async def test_queries_of_files_record_the_range(instance: Instance, services: Services) -> None:
    publish_files(instance)
    work = table_changes.history(services, await principal_of(instance), MEMBERS, VersionRange(0), CALLER)
    await audited(services, work)
    (event,) = instance.audit("table.queried")
    assert event.details == {"table": "members", "from_version": 1, "version": 1, "files": 1}


async def test_files_are_added_once_around_a_version_without_the_table(instance: Instance, services: Services) -> None:
    for version in (1, 2, 3):
        publish_files(instance, snapshot_id(version), statistics=version != 2)
        instance.advance(hours=1)
    for first, added in ((1, [1]), (2, []), (3, [3])):
        work = table_changes.history(services, await principal_of(instance), MEMBERS, VersionRange(first), CALLER)
        found = await audited(services, work)
        assert [(each.table.version, len(each.added), len(each.removed)) for each in found.revisions] == [
            (version, 1, 0) for version in added
        ]
