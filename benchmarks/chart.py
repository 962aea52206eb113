"""Bar charts as SVG, with a background, so that they are readable on light and dark pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_BAR_HEIGHT = 26
_LABEL_WIDTH = 330
_BARS_WIDTH = 430
_RIGHT = 110
_TOP = 44

# The chart has its own background, because the theme of the page may differ from that of the system.
_STYLE = """
svg { font: 13px system-ui, sans-serif }
.card { fill: #ffffff; stroke: #d0d7de } text { fill: #1f2328 } .title { font-weight: 600 }
.bar { fill: #8c959f } .highlighted { fill: #c2410c }
@media (prefers-color-scheme: dark) {
.card { fill: #161b22; stroke: #30363d } text { fill: #e6edf3 } .bar { fill: #6e7681 } .highlighted { fill: #f97316 } }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar with a label, a length, and a text at its end. Highlighted bars are Daybreak's."""

    label: str
    value: float
    text: str
    highlighted: bool = False


def bar_chart(title: str, bars: Sequence[Bar]) -> str:
    """Return an SVG of horizontal bars, in order. The longest bar has the full width."""
    longest = max(bar.value for bar in bars)
    width = _LABEL_WIDTH + _BARS_WIDTH + _RIGHT
    height = _TOP + _BAR_HEIGHT * len(bars) + 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>',
        f'<text class="title" x="18" y="27">{escape(title)}</text>',
    ]
    for number, bar in enumerate(bars):
        top = _TOP + number * _BAR_HEIGHT
        kind = "bar highlighted" if bar.highlighted else "bar"
        length = max(2.0, _BARS_WIDTH * bar.value / longest)
        parts += [
            f'<text x="{_LABEL_WIDTH - 10}" y="{top + 15}" text-anchor="end">{escape(bar.label)}</text>',
            f'<rect class="{kind}" x="{_LABEL_WIDTH}" y="{top + 3}" width="{length:.0f}" height="{_BAR_HEIGHT - 8}"/>',
            f'<text x="{_LABEL_WIDTH + length + 6:.0f}" y="{top + 15}">{escape(bar.text)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
