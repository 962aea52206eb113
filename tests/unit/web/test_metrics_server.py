"""The metrics of all workers."""

import os
import subprocess
import sys
from pathlib import Path

from daybreak.web.metrics_server import WorkerMetrics
from tests.unit.web.scraping import lines

# A worker that ends in the middle of a request.
WORKER = """
from daybreak.web.metrics import OPEN_REQUESTS, count_event
OPEN_REQUESTS.inc()
count_event("link_issued")
"""


def test_ended_workers_count_except_for_open_requests(tmp_path: Path) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", WORKER], env=environment, check=True)
    found = lines(WorkerMetrics(tmp_path))
    assert 'daybreak_events_total{event="link_issued"} 2.0' in found
    assert [line for line in found if line.startswith("daybreak_http_requests_open ")] == []
