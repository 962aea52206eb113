"""Delta Sharing: shares, tables, and the files of a query."""

import secrets
from collections.abc import Coroutine, Iterator
from dataclasses import replace as services_with
from pathlib import Path
from typing import Any

import pytest

from daybreak import sharing
from daybreak.access import api_tokens
from daybreak.access.api_tokens import TokenOptions
from daybreak.access.link_usage import LinkRate
from daybreak.access.services import Services
from daybreak.domain.errors import InvalidRequest, NotFound, RateLimited
from daybreak.domain.identity import Principal
from daybreak.domain.snapshot import FileStatistics, ManifestEntry, StoredFormat, TableVersion
from daybreak.settings import Rate
from daybreak.sharing import Query, TableName
from tests.configured import DEFAULTS
from tests.unit.access.instance import ALPHA, BRAVO, CALLER, ROSA, Instance, open_instance

RUN = "20000000-0000-4000-8000-000000000001"
MEMBERS = TableName(ALPHA, "daybreak", "members")


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    with open_instance(tmp_path) as opened:
        opened.change_account(ALPHA, api_tokens_enabled=True)
        opened.put_grant(ROSA, ALPHA, async_rest_api=True)
        yield opened


@pytest.fixture
def services(instance: Instance) -> Services:
    return services_of(instance, DEFAULTS.access.link_rate)


def services_of(instance: Instance, rate: Rate) -> Services:
    return services_with(instance.services, link_rate=LinkRate(instance.state, rate, instance.services.clock))


def publish(instance: Instance, snapshot_id: str = RUN, *, statistics: bool = True) -> None:
    """Publish members of Alpha and no rows of Bravo."""

    def entry(client_id: str, rows: int) -> ManifestEntry:
        found = FileStatistics(rows, (0,) * 16) if statistics else None
        stored = StoredFormat(7, "ab" * 32, 9, "cd" * 32, f"{snapshot_id}/{client_id}/parquet", found)
        return ManifestEntry(client_id, "members", rows, "ff" * 16, {"parquet": stored})

    instance.publish(snapshot_id, [ALPHA, BRAVO], [entry("", 0), entry(ALPHA, 3)])


async def principal_of(instance: Instance) -> Principal:
    created = api_tokens.new_token(
        instance.seat(ROSA), ALPHA, TokenOptions("sharing"), now=instance.now[0], random=secrets.token_bytes
    )
    instance.write(lambda stores: stores.api_tokens.add(created.token))
    return await api_tokens.authenticate(instance.services, created.secret, CALLER)


def audited(services: Services, work: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    async def scenario() -> Any:
        try:
            return await work
        finally:
            await services.audit_buffer.flush()

    return scenario()


async def test_query_is_one_statement(instance: Instance, services: Services) -> None:
    publish(instance)
    principal = await principal_of(instance)
    for at in (TableVersion(), TableVersion(number=1), TableVersion(not_after=instance.now[0])):
        query = sharing.query(services, principal, MEMBERS, Query(at=at), CALLER)
        assert len(await instance.statements_of(audited(services, query))) == 1


async def test_queries_count_as_links(instance: Instance) -> None:
    publish(instance)
    services = services_of(instance, Rate(2, DEFAULTS.access.link_rate.window))
    principal = await principal_of(instance)

    async def scenario() -> None:
        for _ in range(3):
            await sharing.query(services, principal, MEMBERS, Query(), CALLER)

    with pytest.raises(RateLimited):
        await audited(services, scenario())
    assert sorted(event.result for event in instance.audit("table.queried")) == ["ok", "ok", "rate_limited"]


async def test_missing_version_names_the_kept_ones(instance: Instance, services: Services) -> None:
    principal = await principal_of(instance)

    async def read(at: TableVersion) -> object:
        return await sharing.table_files(services, principal, MEMBERS, at)

    with pytest.raises(NotFound) as not_ready:
        await read(TableVersion())
    assert not_ready.value.code == "snapshot_not_ready"
    publish(instance, statistics=False)
    with pytest.raises(InvalidRequest) as nothing:
        await read(TableVersion(number=1))
    assert nothing.value.message == "No version of this table is kept."
    for number in (2, 3):
        instance.advance(hours=1)
        publish(instance, RUN[:-1] + str(number))
    with pytest.raises(InvalidRequest) as missing:
        await read(TableVersion(number=1))
    assert missing.value.code == "version_not_kept"
    assert "The oldest version is 2, the current one is 3." in missing.value.message
