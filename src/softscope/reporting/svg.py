"""SVG for web pages: colours come from the page's style sheet, so that a picture follows light, dark and print.

Sizes are in units that a page shows as about one pixel: a picture is one narrow column, legible on a phone as it is.
"""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

WIDTH = 320.0
_LETTER = 6.2  # width of an average letter of the 11-unit type


class Drawing:
    """A picture of `width` x `height` units, read out as `label`, styled by the page as `kind`; its parts are escaped.

    With `stretch` it takes the shape of its box on the page.
    """

    def __init__(self, width: float, height: float, label: str, kind: str, *, stretch: bool = False) -> None:
        self._size = (width, height)
        self._label = label
        self._kind = kind
        self._aspect = "none" if stretch else "xMidYMid"
        self._parts: list[Markup] = []

    def put(self, element: str, *values: Any) -> None:
        """Append `element`, its {} filled with `values`; numbers are rounded to a tenth."""
        self._parts.append(Markup(element).format(*(brief(v) if isinstance(v, float) else v for v in values)))

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        """`words` at (x, y), the baseline's start, middle or end."""
        self.put('<text x="{}" y="{}" class="{}" text-anchor="{}">{}</text>', x, y, kind, anchor, words)

    def markup(self, **data: Any) -> Markup:
        """The picture as an `svg` element; `data` become data-* attributes."""
        extra = Markup("").join(Markup(' data-{}="{}"').format(key, value) for key, value in data.items())
        start = Markup(
            '<svg class="chart {}" viewBox="0 0 {} {}" preserveAspectRatio="{}" role="img" aria-label="{}"{}>'
        )
        width, height = map(brief, self._size)
        opening = start.format(self._kind, width, height, self._aspect, self._label, extra)
        return opening + Markup("").join(self._parts) + Markup("</svg>")


class AxisScale:
    """A linear map of [low, high] onto [start, stop]; what lies beyond stays at the ends."""

    def __init__(self, low: float, high: float, start: float, stop: float) -> None:
        self.low, self.high = low, high if high > low else low + 1.0
        self.start, self.stop = start, stop

    def __call__(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """At most `count` + 1 round numbers in [low, high]."""
    from matplotlib.ticker import MaxNLocator

    places = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    margin = 1e-9 * (high - low)
    return [float(tick) + 0.0 for tick in places if low - margin <= tick <= high + margin]


def brief(value: float) -> str:
    """A coordinate to a tenth of a unit, as short as can be."""
    return f"{value:.1f}".removesuffix(".0")


def shorten(words: str, width: float) -> str:
    """`words`, cut with an ellipsis where they would be wider than `width` units."""
    room = max(1, int(width / _LETTER))
    return words if len(words) <= room else words[: room - 1] + "…"


def path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{brief(x)} {brief(y)}" for x, y in points)


def steps(edges: Sequence[float], heights: Sequence[float], x: AxisScale, base: float) -> str:
    """The outline of a histogram: from `base` up by each height between its edges, and down again."""
    commands = [f"M{brief(x(edges[0]))} {brief(base)}"]
    for height, right in zip(heights, edges[1:]):
        commands.append(f"V{brief(base - height)}H{brief(x(right))}")
    return "".join(commands) + f"V{brief(base)}"
