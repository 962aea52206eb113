"""S3 server that verifies signatures: OpenStack Swift with its S3 API.

It consists of four servers on free ports and keeps its data in a temporary folder. It refuses tampered and expired
requests, wrong secrets and wrong methods, and supports ranges, multipart uploads and conditional puts.
"""

import contextlib
import getpass
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path

import httpx
import obstore
import pytest
from obstore.store import S3Store

from tests.parts.ports import free_port, listens
from tests.parts.presence import absent
from tests.parts.processes import Running, running
from tests.parts.waiting import wait_until

ACCESS_KEY = "test:tester"
SECRET_KEY = "testing"
REGION = "us-east-1"

SWIFT_CONF = """\
[swift-hash]
swift_hash_path_suffix = daybreak
[storage-policy:0]
name = one
default = yes
[swift-constraints]
max_header_size = 32768
"""

STORAGE_CONF = """\
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
user = {user}
swift_dir = {folder}
devices = {folder}
mount_check = false
log_level = WARNING
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""

PROXY_CONF = """\
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
user = {user}
swift_dir = {folder}
log_level = WARNING
[pipeline:main]
pipeline = catch_errors cache listing_formats s3api tempauth copy slo dlo versioned_writes symlink proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
s3_acl = false
min_segment_size = 5242880
max_bucket_listing = 25
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
paste.filter_factory = tests.parts.swift_cache:filter_factory
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
[filter:versioned_writes]
use = egg:swift#versioned_writes
allow_object_versioning = true
[filter:symlink]
use = egg:swift#symlink
"""


@dataclass(frozen=True)
class S3Server:
    """Running S3 server with one user."""

    endpoint: str
    program: Running
    _serial: "count[int]"

    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY
    region: str = REGION

    def store(self, bucket: str) -> S3Store:
        """Return a client of a bucket."""
        return S3Store(
            bucket,
            endpoint=self.endpoint,
            access_key_id=self.access_key,
            secret_access_key=self.secret_key,
            region=self.region,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )

    def fresh_bucket(self) -> str:
        """Create an empty bucket and return its name."""
        bucket = f"fresh-{os.getpid()}-{next(self._serial)}"
        # obstore cannot create buckets, but it can sign the PUT request that does.
        link = obstore.sign(self.store(bucket), "PUT", "", timedelta(minutes=10))
        httpx.put(link, trust_env=False, timeout=60).raise_for_status()
        return bucket


@dataclass(frozen=True)
class S3Bucket:
    """An empty bucket."""

    server: S3Server
    name: str

    @property
    def url(self) -> str:
        """Return the `s3://` URL of the bucket."""
        return f"s3://{self.name}"

    @property
    def secret(self) -> str:
        """Return the secret that no output may contain."""
        return self.server.secret_key

    def keep_versions(self) -> None:
        """Turn versioning on."""
        import boto3

        client = boto3.client(
            "s3",
            endpoint_url=self.server.endpoint,
            region_name=self.server.region,
            aws_access_key_id=self.server.access_key,
            aws_secret_access_key=self.server.secret_key,
        )
        client.put_bucket_versioning(Bucket=self.name, VersioningConfiguration={"Status": "Enabled"})

    def environment(self) -> dict[str, str]:
        """Return the environment variables that S3 clients read."""
        return {
            "AWS_ACCESS_KEY_ID": self.server.access_key,
            "AWS_SECRET_ACCESS_KEY": self.server.secret_key,
            "AWS_REGION": self.server.region,
            "AWS_ENDPOINT_URL": self.server.endpoint,
            "AWS_ALLOW_HTTP": "true",
        }


def _folder_with_attributes() -> str:
    """Return a temporary folder with extended attributes, in which Swift stores metadata."""
    for folder in (tempfile.gettempdir(), "/var/tmp", str(Path(__file__).parent)):
        with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(dir=folder) as probe:
            os.setxattr(probe.fileno(), "user.daybreak", b"1")
            return folder
    absent("a file system with extended attributes", "Swift needs them in /tmp or /var/tmp")


@contextlib.contextmanager
def running_s3() -> Iterator[S3Server]:
    """Run an S3 server."""
    if importlib.util.find_spec("swift") is None:
        absent("OpenStack Swift", "pip install swift 'setuptools<81'")
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(
                    prefix="daybreak-s3-", dir=_folder_with_attributes(), ignore_cleanup_errors=True
                )
            )
        )
        (folder / "disk").mkdir()
        (folder / "swift.conf").write_text(SWIFT_CONF, encoding="utf-8")
        ports = {kind: free_port() for kind in ("account", "container", "object", "proxy")}
        for kind, port in ports.items():
            text = PROXY_CONF if kind == "proxy" else STORAGE_CONF
            file = folder / f"{kind}.conf"
            file.write_text(text.format(port=port, folder=folder, user=getpass.getuser(), kind=kind), encoding="utf-8")
        command: list[str | Path] = [sys.executable, Path(__file__).with_name("swift_servers.py"), folder]
        program = stack.enter_context(
            running(
                [*command, *(str(ports[kind]) for kind in ("account", "container", "object"))],
                log_file=folder / "swift.log",
                environment={"PYTHONPATH": str(Path(__file__).parents[2])},
            )
        )

        def up() -> bool:
            assert program.alive(), f"a Swift server ended:\n{program.log()}"
            return all(listens(port) for port in ports.values())

        wait_until(up, 120, what=f"Swift on ports {ports}")
        yield S3Server(f"http://127.0.0.1:{ports['proxy']}", program, count(1))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Return an S3 server for the whole test run."""
    with running_s3() as server:
        yield server


@pytest.fixture
def s3_bucket(s3_server: S3Server) -> S3Bucket:
    """Return an empty bucket."""
    return S3Bucket(s3_server, s3_server.fresh_bucket())
