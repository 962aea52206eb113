"""Reasons in the list of runs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from daybreak.domain.run_report import RunProgress, RunReport
from daybreak.domain.snapshot import Freshness, PublicationState, Snapshot, SnapshotState
from daybreak.web.dashboard.operator.run_view import runs_context

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
    fresh = Freshness(None, NOW + timedelta(hours=1), late=False, state=PublicationState.UNPUBLISHED)
    context: dict[str, Any] = runs_context(fresh, [run], NOW)
    assert [row["reason"] for row in context["runs"]] == [shown]
