"""Tables and charts that compare methods of doing the same job."""

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.chart import Bar, bar_chart
from benchmarks.job import table
from benchmarks.measure import Measurement, summarize

Measurements = Mapping[str, Sequence[Measurement]]
"""One measurement per round, by method."""


def comparison_table(measurements: Measurements, titles: Mapping[str, str], baseline: str) -> str:
    """Return a table with one row per method.

    Ratios are relative to `baseline`, or to the first method if `baseline` was not measured. CPU seconds of servers
    have a column if any were measured.
    """
    base = measurements.get(baseline) or next(iter(measurements.values()))
    with_server = any(one.server_seconds for rounds in measurements.values() for one in rounds)
    headings = ["Method", "Time, s", "CPU, s", *(["of which server"] if with_server else [])]
    headings += ["Time, ratio", "CPU, ratio", "Peak MB", "Output MB"]
    rows = []
    for method, rounds in measurements.items():
        walls, cpus = [one.wall_seconds for one in rounds], [one.cpu_seconds for one in rounds]
        cells = [titles[method], summarize(walls), summarize(cpus)]
        if with_server:
            cells.append(summarize([one.server_seconds for one in rounds]))
        cells += [
            f"{median(walls) / median(one.wall_seconds for one in base):.2f}",
            f"{median(cpus) / median(one.cpu_seconds for one in base):.2f}",
            f"{max(one.peak_bytes for one in rounds) / 1e6:,.0f}",
            f"{rounds[0].output_bytes / 1e6:,.0f}",
        ]
        rows.append(cells)
    return table(headings, rows)


def comparison_chart(title: str, measurements: Measurements, titles: Mapping[str, str], baseline: str) -> str:
    """Return the median times as an SVG, fastest first. Methods whose names begin with `baseline` are highlighted."""
    seconds = {method: median(one.wall_seconds for one in rounds) for method, rounds in measurements.items()}
    ordered = sorted(seconds, key=seconds.__getitem__)
    return bar_chart(
        title,
        [
            Bar(titles[method], seconds[method], f"{seconds[method]:.1f} s", method.startswith(baseline))
            for method in ordered
        ],
    )
