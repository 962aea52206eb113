"""Jobs, their options, and the figures of a snapshot run."""

import re
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from benchmarks import first_files
from benchmarks.__main__ import JOBS
from benchmarks.job import Job
from benchmarks.snapshot_run import make_service, snapshot_run
from benchmarks.source import AS_OF, Shape, changed_copy, even_shape, make_shape, with_text_ids
from tests.parts.documentation import OWN_PLATFORM, runs


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_every_job_has_default_options(job: Job) -> None:
    assert job.parse([]).rounds == job.rounds
    assert job.parse(["--write", "--rounds", "7"]).rounds == 7


def test_command_on_the_page_has_no_local_paths() -> None:
    arguments = ["--folder", "/srv/bench", "--rounds", "1", "--write"]
    assert JOBS[0].command(arguments) == "python -m benchmarks members --rounds 1"


def test_jobs_have_unique_names_and_headings() -> None:
    assert len({job.name for job in JOBS}) == len({job.heading for job in JOBS}) == len(JOBS)


def test_tutorial_has_the_steps_of_first_files() -> None:
    script = first_files.timed_script(runs(OWN_PLATFORM), 9)
    timed = re.findall(r'^echo "instant .*\n(\S+) (\S+)', script, re.MULTILINE)
    assert [" ".join(words) for words in timed] == [
        "daybreakd doctor", "snapshot=$(daybreakd snapshot", "daybreakd serve", "account=$(psql -qtA"
    ]  # fmt: skip
    assert "generate_series(1, 9)" in script
    assert "member erase" not in script


def test_copies_of_a_platform_differ_where_they_should(tmp_path: Path) -> None:
    source = make_shape(tmp_path, even_shape(100, 4))
    changed = changed_copy(source, "changed", "phone_number LIKE '%7'", ["members"])
    moved = f"SELECT count(*) FROM '{changed}/members.parquet' WHERE city = 'New Town'"
    kept = f"SELECT count(*) FROM (FROM '{source}/members.parquet' EXCEPT FROM '{changed}/members.parquet')"
    ids = f"SELECT typeof(member_id) FROM '{with_text_ids(source)}/members.parquet' LIMIT 1"
    with duckdb.connect() as connection:
        found = [connection.execute(query).fetchall() for query in (moved, kept, ids)]
    assert found == [[(10,)], [(10,)], [("VARCHAR",)]]
    assert {path.name for path in source.iterdir()} == {path.name for path in changed.iterdir()}


@pytest.mark.release
def test_snapshot_run_reports_written_and_reused_leaders(tmp_path: Path) -> None:
    rows = "SELECT n, n % 4 AS leader FROM range(100) AS t(n)"
    before = make_shape(tmp_path, Shape("before", "four Leaders", 5, rows))
    town = "CASE WHEN leader = 2 THEN 'New Town' ELSE 'Town ' || n % 307 END"
    moved = make_shape(tmp_path, Shape("moved", "four Leaders, one moved", 5, rows, town))
    config = make_service(tmp_path / "service")
    first = snapshot_run(config, before, AS_OF)
    second = snapshot_run(config, moved, AS_OF + timedelta(days=1))
    members = [run.resources["members"] for run in (first, second)]
    assert [(one.rows, one.leaders, one.carried) for one in members] == [(100, 4, 0), (100, 4, 3)]
    assert first.usage.peak_bytes > 10_000_000
