"""The jobs of `make bench`: all are listed, and a whole run is read as the service tells it."""

from datetime import timedelta
from pathlib import Path

import pytest

from benchmarks.__main__ import JOBS
from benchmarks.job import Job
from benchmarks.source import AS_OF, Shape, make_shape
from benchmarks.whole_run import make_service, snapshot_run


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_every_job_runs_by_its_own_options_alone(job: Job) -> None:
    assert job.parse([]).rounds == job.rounds
    assert job.parse(["--write", "--rounds", "7"]).rounds == 7


def test_the_page_names_no_place_of_one_machine() -> None:
    given = ["--folder", "/srv/bench", "--rounds", "1", "--write"]
    assert JOBS[0].command(given) == "python -m benchmarks members --rounds 1"


def test_jobs_have_names_and_headings_of_their_own() -> None:
    assert len({job.name for job in JOBS}) == len({job.heading for job in JOBS}) == len(JOBS)


def test_a_whole_run_tells_what_it_wrote_and_what_it_carried(tmp_path: Path) -> None:
    rows = "SELECT n, n % 4 AS leader FROM range(100) AS t(n)"
    before = make_shape(tmp_path, Shape("before", "four Leaders", 5, rows))
    town = "CASE WHEN leader = 2 THEN 'New Town' ELSE 'Town ' || n % 307 END"
    moved = make_shape(tmp_path, Shape("moved", "four Leaders, one moved", 5, rows, town))
    config = make_service(tmp_path / "service")
    first = snapshot_run(config, before, AS_OF)
    second = snapshot_run(config, moved, AS_OF + timedelta(days=1))
    members = [run.resources["members"] for run in (first, second)]
    assert [(one.rows, one.leaders, one.carried) for one in members] == [(100, 4, 0), (100, 4, 3)]
    assert first.used.peak_bytes > 10_000_000
