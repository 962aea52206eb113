"""Delta Sharing, and the Iceberg catalog, of snapshots that the builder has made."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import delta_sharing
import pytest
import requests
from pyiceberg.catalog.rest import RestCatalog

from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.cli.main import run
from daybreak.demo.emails import OWNER_EMAIL
from tests.acceptance.service import PATIENCE_SECONDS
from tests.acceptance.test_sharing import as_text, rows_of
from tests.parts.demo_service import AS_OF, make_demo_service
from tests.parts.ports import free_port
from tests.parts.variants import one_of
from tests.parts.warm import printed_by, running_warm


@dataclass(frozen=True)
class Reader:
    """Profiles by account, and the content of its CSV files by version and resource."""

    profiles: dict[str, Path]
    contents: dict[tuple[str, int, str], bytes]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Publish two snapshots of a demo platform and serve them."""
    folder = tmp_path_factory.mktemp("sharing")
    directory = make_demo_service(folder, leaders=4, members=300, messages=600)
    config = ["-c", str(folder / "daybreak.toml")]
    owner = directory.seat(OWNER_EMAIL)
    address = f"127.0.0.1:{free_port()}"
    environment = {
        "DAYBREAK_LISTEN": address,
        "DAYBREAK_BASE_URL": f"http://{address}",
        "DAYBREAK_WORKERS": "1",
        "DAYBREAK_SNAPSHOT__FORMATS": "csv,json,parquet",
        "DAYBREAK_SHARING__ENABLED": "true",
        "DAYBREAK_ATTACH__S3": "true",
        "DAYBREAK_ATTACH__ICEBERG": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        # This would lower the priority of the test process.
        patch.setattr("daybreak.snapshots.builder.take_low_priority", lambda: None)
        enabled = [
            each["client_id"] for each in json.loads(directory.document)["accounts"] if each["api_tokens_enabled"]
        ]
        accounts = [account for account in owner.client_ids if account in enabled][:2]
        assert len(accounts) == 2
        tokens = {
            account: printed_by(folder, "token", "create", "--seat", owner.email, "--account", account)
            for account in accounts
        }
        profiles = {account: folder / f"{account}.share" for account in tokens}
        for account, path in profiles.items():
            content = {
                "shareCredentialsVersion": 1,
                "endpoint": f"http://{address}/sharing/v1",
                "bearerToken": tokens[account],
            }
            path.write_text(json.dumps(content))
        with running_warm(["web", *config], environment=environment) as program:
            program.wait_for_log('"ready"', PATIENCE_SECONDS)
            contents = {}
            for version, as_of in ((1, AS_OF - timedelta(days=30)), (2, AS_OF)):
                assert run(["snapshot", "run", "--as-of", f"{as_of:%Y-%m-%dT%H:%M:%SZ}", *config]) == 0
                for account, token in tokens.items():
                    for resource in RESOURCES:
                        url = f"http://{address}/download/v1/files/{account}/{resource.download_path}"
                        headers = {"Authorization": f"Bearer {token}"}
                        found = requests.get(url, headers=headers, timeout=PATIENCE_SECONDS)
                        contents[account, version, resource.name] = gzip.decompress(found.content)
            yield Reader(profiles, contents)


# The client leaves the folder of an empty table in delta format to the garbage collector.
@pytest.mark.release
@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")
@pytest.mark.parametrize("resource", one_of(*RESOURCES), ids=lambda resource: str(resource.name))
def test_tables_equal_the_csv_files_of_each_version(reader: Reader, resource: Resource) -> None:
    for account, profile in reader.profiles.items():
        url = f"{profile}#{account}.daybreak.{resource.name}"
        assert delta_sharing.get_table_version(url) == 2
        for version in (1, 2):
            expected = rows_of(reader.contents[account, version, resource.name])
            for in_delta_format in (False, True):
                frame = delta_sharing.load_as_pandas(url, version=version, use_delta_format=in_delta_format)
                assert as_text(resource, frame) == expected, (account, version, in_delta_format)
            # Without the option, the client reads the format delta.
            assert delta_sharing.load_as_pandas(url, timestamp=_published_at(profile, account, version)).equals(frame)
        assert delta_sharing.load_as_pandas(url).equals(frame)


@pytest.mark.release
def test_iceberg_tables_equal_the_csv_files_of_each_version(reader: Reader) -> None:
    """The files have field ids. A file that is the same in both versions belongs to the first one."""
    added = set()
    for account, profile in reader.profiles.items():
        credentials = json.loads(profile.read_text())
        catalog = RestCatalog(
            "daybreak",
            uri=credentials["endpoint"].replace("/sharing/v1", "/iceberg"),
            warehouse=account,
            token=credentials["bearerToken"],
        )
        for resource in RESOURCES:
            table = catalog.load_table(("daybreak", resource.name))
            for version in (1, 2):
                frame = table.scan(snapshot_id=version).to_pandas()
                content = reader.contents[account, version, resource.name]
                assert as_text(resource, frame) == rows_of(content), (account, version, resource.name)
            for manifest in table.snapshot_by_name("v2").manifests(table.io):
                same = content == reader.contents[account, 1, resource.name]
                assert manifest.added_snapshot_id == (1 if same else 2)
                added.add(manifest.added_snapshot_id)
    assert added == {1, 2}


def test_versions_have_different_rows(reader: Reader) -> None:
    """Otherwise the other tests could read the wrong version."""
    first, second = (
        {(account, name): content for (account, version, name), content in reader.contents.items() if version == number}
        for number in (1, 2)
    )
    assert first != second


def _published_at(profile: Path, account: str, version: int) -> str:
    """Return when a version was published, as the responses have it."""
    credentials = json.loads(profile.read_text())
    found = requests.post(
        f"{credentials['endpoint']}/shares/{account}/schemas/daybreak/tables/members/query",
        headers={"Authorization": f"Bearer {credentials['bearerToken']}"},
        json={"version": version},
        timeout=PATIENCE_SECONDS,
    )
    milliseconds = json.loads(found.text.splitlines()[2])["file"]["timestamp"]
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
