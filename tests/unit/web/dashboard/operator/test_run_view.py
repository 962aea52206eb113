"""Reasons in the list of runs."""

from datetime import UTC, datetime

import msgspec
import pytest

from daybreak.domain.run_report import RunProgress, RunReport
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.web.dashboard.operator.run_view import failure_summary

NOW = datetime(2026, 11, 25, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("phases", "shown"),
    [
        ({"verifying": 9.5, "opening": 0.1, "members": 2.0}, "The disk is full. Failed while verifying."),
        ({"opening": 0.1, "members": 2.0}, "The disk is full. Failed while writing Member Details."),
        ({}, "The disk is full."),
    ],
)
def test_failed_run_names_its_last_phase(phases: dict[str, float], shown: str) -> None:
    """The progress of the last heartbeat may be of an earlier phase."""
    run = Snapshot(
        "s",
        SnapshotState.FAILED,
        NOW,
        NOW,
        report=msgspec.convert({"phases": phases}, RunReport),
        progress=RunProgress(phase="opening"),
        failure="The disk is full.\nMore of it.",
    )
    assert failure_summary(run, NOW) == shown
