"""Chart colors: neighbors differ in luminance, also for readers with deuteranopia."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

COLORS = Path("src/daybreak/web/theme/static/daybreak/colors.css")
# Viénot, Brettel and Mollon (1999): simulation of deuteranopia in linear RGB.
DEUTERANOPIA = ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0))
WEIGHTS = (0.2126, 0.7152, 0.0722)


def _linear(color: str) -> list[float]:
    values = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]


def _contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def _luminances(color: str) -> tuple[float, float]:
    """Return the luminance, and the one that a reader with deuteranopia sees."""
    linear = _linear(color)
    seen = [sum(factor * value for factor, value in zip(row, linear, strict=True)) for row in DEUTERANOPIA]
    return (
        sum(weight * value for weight, value in zip(WEIGHTS, linear, strict=True)),
        sum(weight * min(max(value, 0.0), 1.0) for weight, value in zip(WEIGHTS, seen, strict=True)),
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_stacked_chart_colors_differ_in_luminance(project_folder: Path, scheme: str) -> None:
    light, _, dark = (project_folder / COLORS).read_text("utf-8").partition("@media (prefers-color-scheme: dark)")
    values = dict(
        re.findall(r"--(chart-\d|surface|line-strong): (#[0-9a-f]{6});", light if scheme == "light" else dark)
    )
    stacked = [values[f"chart-{number}"] for number in range(1, 6)] + [values["line-strong"]]
    for kind in (0, 1):
        surface = _luminances(values["surface"])[kind]
        shown = [_luminances(color)[kind] for color in stacked]
        assert all(_contrast(each, surface) >= 3 for each in shown)
        assert shown[:5] == sorted(shown[:5], reverse=True)
        contrasts = [round(_contrast(*pair), 2) for pair in pairwise(shown)]
        assert min(contrasts) >= 1.2, (kind, contrasts)
