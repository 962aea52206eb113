"""Ways of doing the same job side by side: a table, ours first to be compared with, and bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.measure import Measured, spread
from benchmarks.picture import Bar, bars

Found = Mapping[str, Sequence[Measured]]
"""What each way took, round by round, by its name."""


def table(found: Found, titles: Mapping[str, str], ours: str) -> str:
    """A row for each way. Ratios are to `ours`, or to the first way when that was not measured; seconds of servers
    have a column when there were any.
    """
    base = found.get(ours) or next(iter(found.values()))
    served = any(one.server_seconds for measured in found.values() for one in measured)
    heads = ["Way", "Wall, s", "CPU, s", *(["of it the server"] if served else [])]
    heads += ["Times ours, wall", "Times ours, CPU", "Peak MB", "Output MB"]
    lines = [_row(heads), "|---" + "|--:" * (len(heads) - 1) + "|"]
    for way, measured in found.items():
        walls, cores = [one.wall_seconds for one in measured], [one.cpu_seconds for one in measured]
        cells = [titles[way], spread(walls), spread(cores)]
        if served:
            cells.append(spread([one.server_seconds for one in measured]))
        cells += [
            f"{median(walls) / median(one.wall_seconds for one in base):.2f}",
            f"{median(cores) / median(one.cpu_seconds for one in base):.2f}",
            f"{max(one.peak_bytes for one in measured) / 1e6:,.0f}",
            f"{measured[0].output_bytes / 1e6:,.0f}",
        ]
        lines.append(_row(cells))
    return "\n".join(lines)


def picture(title: str, found: Found, titles: Mapping[str, str], ours: str) -> str:
    """The ways' medians on the wall as an SVG, the fastest first; ways whose names begin with `ours` stand out."""
    seconds = {way: median(one.wall_seconds for one in measured) for way, measured in found.items()}
    shown = sorted(seconds, key=seconds.__getitem__)
    return bars(title, [Bar(titles[way], seconds[way], f"{seconds[way]:.1f} s", way.startswith(ours)) for way in shown])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
