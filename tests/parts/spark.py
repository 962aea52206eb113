"""Spark for tests: a readable platform, settings for a fast start, and a cluster of separate processes."""

import contextlib
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import duckdb
import psutil
import pyspark

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from tests.parts.presence import absent
from tests.parts.processes import Running, running

PATIENCE_SECONDS = 300
_HOME = Path(pyspark.__file__).parent
# Tests are too short for the optimizing compiler and parallel garbage collectors of Java to pay off.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
# Tests have so few rows that compiling the code of a query takes most of its time.
INTERPRETED = {**SETTINGS, "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def require_java() -> None:
    """End the test if Java is not installed."""
    if shutil.which("java") is None:
        absent("Java", "apt-get install default-jre-headless")


def text_platform(folder: Path, *, leaders: int, members: int, messages: int, as_of: datetime) -> None:
    """Write the demo platform as Parquet with identifiers as text."""
    make_platform(folder, PlatformSizes(leaders=leaders, members=members, messages=messages), as_of=as_of)
    convert_identifiers(folder)


def convert_identifiers(folder: Path) -> None:
    """Write identifiers of a Parquet folder as text, because Spark reads no Parquet UUIDs."""
    with closing(duckdb.connect()) as engine:
        for table in SOURCE_TABLES:
            columns = ", ".join(
                f"CAST({c.name} AS VARCHAR) AS {c.name}" if c.type is ColumnType.UUID else c.name for c in table.columns
            )
            path = folder / f"{table.name}.parquet"
            engine.execute(f"CREATE OR REPLACE TABLE rows AS SELECT {columns} FROM read_parquet('{path}')")
            engine.execute(f"COPY rows TO '{path}'")


@dataclass(frozen=True)
class Cluster:
    """Running cluster. `url` is the value of `spark.master`."""

    url: str
    workers: list[Running]

    def executors(self) -> dict[str, int]:
        """Return the process ids of the executors by their Spark ids."""
        found: dict[str, int] = {}
        for worker in self.workers:
            for child in psutil.Process(worker.pid).children():
                # A worker also starts short-lived processes, which may have exited.
                with contextlib.suppress(psutil.NoSuchProcess):
                    words = child.cmdline()
                    if "--executor-id" in words:
                        found[words[words.index("--executor-id") + 1]] = child.pid
        return found


@contextlib.contextmanager
def cluster(folder: Path, *, workers: int) -> Iterator[Cluster]:
    """Run a standalone cluster. Each worker has one core and its own loopback address, as on a separate host.

    Executors write to `folder`.
    """
    require_java()
    start, deploy = _HOME / "bin/spark-class", "org.apache.spark.deploy"
    environment = {
        "SPARK_HOME": str(_HOME),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
    }
    with contextlib.ExitStack() as stack:

        def started(kind: str, host: str, *arguments: str | Path, ready: str) -> Running:
            command = [start, f"{deploy}.{kind}", "--host", host, "--webui-port", "0", *arguments]
            own = environment | {"SPARK_LOCAL_IP": host}
            program = stack.enter_context(running(command, environment=own))
            program.wait_for_log(ready, PATIENCE_SECONDS)
            return program

        master = started("master.Master", "127.0.0.1", "--port", "0", ready="I have been elected leader")
        found = re.search(r"spark://127\.0\.0\.1:\d+", master.log())
        assert found is not None, master.log()
        own = ("--cores", "1", "--memory", "1g", "-d", folder, found[0])
        registered = "Successfully registered with master"
        hosts = (f"127.0.0.{number + 2}" for number in range(workers))
        yield Cluster(found[0], [started("worker.Worker", host, *own, ready=registered) for host in hosts])
