"""The pictures of a diagnosis as SVG for a page: bars of causes and outcomes, ROC curves, rows of histograms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

from markupsafe import Markup

from ..diagnosis.model import OUTCOMES, Causes, Curve, Histogram, Inputs, Reliability, RiskCurve
from .svg import WIDTH, AxisScale, Drawing, path, shorten, steps, ticks

_ROW, _LABEL = 62.0, 16.0  # height of a row of histograms, and of the words above it
_MARGIN = 14.0
_BAR = (1000.0, 30.0)  # bars are stretched to the page's width: they hold no words
_X, _Y = AxisScale(0.0, 1.0, 40.0, 302.0), AxisScale(0.0, 1.0, 270.0, 8.0)  # the axes of a square picture of shares
_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Segment:
    """One piece of a stacked bar: its name, its colour on the page, its size, and its words in a tooltip."""

    name: str
    kind: str
    size: float
    words: str


@dataclass(frozen=True)
class HistogramRow:
    """One row of a histogram: words at its left and right end, and counts by their colour on the page."""

    name: str
    note: str
    layers: Mapping[str, Sequence[int]]


def cause_segments(causes: Causes) -> list[Segment]:
    """What plain entropy reaches, then the causes, split as far as they are known: they add up to 1."""
    split = causes.extrapolation_proper is not None and causes.ambiguity is not None
    extrapolation = (
        [("2a extrapolation", "cause-2a", causes.extrapolation_proper), ("2b ambiguity", "cause-2b", causes.ambiguity)]
        if split
        else [("2 extrapolation", "cause-2a", causes.extrapolation)]
    )
    parts = [
        ("reached by plain entropy", "reached", causes.entropy),
        ("1 saturation (rounding)", "cause-1a", causes.rounding),
        ("1 temperature", "cause-1b", causes.temperature),
        *extrapolation,
        ("3 misfit of the density, at least", "cause-3a", causes.misfit),
        ("3 overlap proper, at most", "cause-3b", causes.overlap_proper),
    ]
    return [
        Segment(name, kind, part.value, f"{100 * part.value:.1f} points [{100 * part.low:.1f}, {100 * part.high:.1f}]")
        for name, kind, part in parts
        if part is not None
    ]


def excess(causes: Causes) -> float:
    """By how much the positive causes pass a perfect 1: as much as the negative ones take back."""
    return -sum(min(0.0, part.size) for part in cause_segments(causes)[1:])


def cause_bar(name: str, causes: Causes, low: float, high: float) -> Markup:
    """Stacked on an axis from `low` to `high`, with whiskers for the intervals of B, C and D.

    What causes that came out negative take back, down to 1, is a strip below.
    """
    segments = cause_segments(causes)
    width, height = _BAR
    scale = AxisScale(low, high, 0.0, width)
    words = "; ".join(f"{part.name} {part.words}" for part in segments)
    drawing = Drawing(width, height, f"{name}: {words}", "bar", stretch=True)
    at = segments[0].size
    _piece(drawing, segments[0], scale(low), scale(at), 0.0, height)
    for part in segments[1:]:
        if part.size > 0:
            _piece(drawing, part, scale(at), scale(at + part.size), 0.0, height)
            at += part.size
    for part in segments[1:]:
        if part.size < 0:
            _piece(drawing, part, scale(at + part.size), scale(at), height - 7, 7.0)
            at += part.size
    if high > 1:
        drawing.put('<path d="M{} 0V{}" class="perfect"/>', scale(1.0), height)
    for y, bound in zip((7.0, 14.0, 21.0), (causes.entropy, causes.cool, causes.density)):
        start, stop = scale(bound.low), scale(bound.high)
        drawing.put('<path d="M{} {}H{}M{} {}v4M{} {}v4" class="whisker"/>', start, y, stop, start, y - 2, stop, y - 2)
    return drawing.markup()


def outcome_bar(name: str, inputs: Inputs) -> Markup:
    """What became of every input of an OOD set at 5 % false alarms, as shares of all."""
    width, height = _BAR
    total = max(1, sum(inputs.counts.values()))
    words = "; ".join(f"{inputs.counts.get(letter, 0) / total:.1%} {what}" for letter, what in OUTCOMES.items())
    drawing = Drawing(width, height, f"{name}: {words}", "bar", stretch=True)
    at = 0.0
    for letter, what in OUTCOMES.items():
        count = inputs.counts.get(letter, 0)
        part = Segment(what, f"outcome-{letter}", count / total, f"{count:,} of {total:,} ({count / total:.1%})")
        if count:
            _piece(drawing, part, width * at, width * (at + part.size), 0.0, height)
        at += part.size
    return drawing.markup()


def _piece(drawing: Drawing, part: Segment, start: float, stop: float, top: float, height: float) -> None:
    element = '<rect x="{}" y="{}" width="{}" height="{}" class="{}"><title>{}: {}</title></rect>'
    drawing.put(element, start, top, max(0.0, stop - start), height, part.kind, part.name, part.words)


def roc(name: str, curves: Mapping[str, Curve], symbols: Mapping[str, str], aurocs: Mapping[str, float]) -> Markup:
    """Caught OOD inputs against false alarms, one line an estimator, and a dot that a script may move.

    The horizontal axis is the root of the false alarms: thresholds are chosen near 0, where a plain axis shows nothing.
    """

    def line(curve: Curve) -> str:
        return path([(_X(sqrt(alarm)), _Y(hit)) for alarm, hit in _bent(curve)])

    words = ", ".join(f"{symbols[key]} {100 * aurocs[key]:.1f} %" for key in curves)
    drawing = _square(f"ROC curves of {name}, area under each: {words}", "roc")
    _levels(drawing, _Y, _QUARTERS)
    for share in (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0):
        drawing.put('<path d="M{} {}V{}" class="grid"/>', _X(sqrt(share)), _Y.stop, _Y.start)
        drawing.text(_X(sqrt(share)), _Y.start + 15, f"{100 * share:.0f}", "tick", "middle")
    drawing.put('<path d="{}" class="chance"/>', line(Curve((0.0, 1.0), (0.0, 1.0))))
    for index, (key, curve) in enumerate(curves.items()):
        element = '<path d="{}" class="line line-{}"><title>{}: {} %</title></path>'
        drawing.put(element, line(curve), index % 8, symbols[key], f"{100 * aurocs[key]:.1f}")
    drawing.put('<circle r="4.5" cx="{}" cy="{}" class="operating" hidden=""/>', _X(0.0), _Y(0.0))
    _name_axes(drawing, "false alarms, % of test inputs (stretched near 0)", "caught, % of OOD inputs")
    return drawing.markup(left=_X.start, top=_Y.stop, side=_X.stop - _X.start)


def reliability_diagram(reliability: Reliability) -> Markup:
    """Accuracy against confidence, with whiskers; on the diagonal a confidence is a probability."""
    words = ", ".join(f"{one.confidence:.0%} sure: {one.accuracy.value:.0%} right" for one in reliability.bins)
    drawing = _square(f"Reliability diagram: {words}", "reliability")
    for share in _QUARTERS:
        drawing.put(
            '<path d="M{} {}H{}M{} {}V{}" class="grid"/>',
            _X.start, _Y(share), _X.stop, _X(share), _Y.stop, _Y.start,
        )  # fmt: skip
        drawing.text(_X.start - 5, _Y(share) + 4, f"{100 * share:.0f}", "tick", "end")
        drawing.text(_X(share), _Y.start + 15, f"{100 * share:.0f}", "tick", "middle")
    drawing.put('<path d="{}" class="chance"/>', path([(_X(0.0), _Y(0.0)), (_X(1.0), _Y(1.0))]))
    for one in reliability.bins:
        at, low, high = _X(one.confidence), _Y(one.accuracy.low), _Y(one.accuracy.high)
        words = f"{one.rows:,} inputs, {one.confidence:.1%} sure, {one.accuracy.value:.1%} right"
        drawing.put('<path d="M{} {}V{}" class="reliable-arm"/>', at, low, high)
        element = '<circle r="4" cx="{}" cy="{}" class="reliable"><title>{}</title></circle>'
        drawing.put(element, at, _Y(one.accuracy.value), words)
    _name_axes(drawing, "confidence, %", "accuracy, %")
    return drawing.markup()


def risk_diagram(curve: RiskCurve) -> Markup:
    """Wrong predictions among the inputs kept, against the share kept, the surest first."""
    most = max(*curve.risk, 0.01)
    y = AxisScale(0.0, most, _Y.start, _Y.stop)
    half = next(risk for share, risk in zip(curve.coverage, curve.risk) if share >= 0.5)
    words = f"all inputs kept: {curve.risk[-1]:.1%} wrong; the surest half: {half:.1%} wrong"
    drawing = _square(f"Risk against coverage; {words}", "risk")
    _levels(drawing, y, [tick / 100 for tick in ticks(0.0, 100 * most, 4)])
    for share in _QUARTERS:
        drawing.text(_X(share), _Y.start + 15, f"{100 * share:.0f}", "tick", "middle")
    line = path([(_X(share), y(risk)) for share, risk in zip(curve.coverage, curve.risk)])
    drawing.put('<path d="{}" class="line line-1"/>', line)
    _name_axes(drawing, "inputs kept, the surest first, %", "wrong among them, %")
    return drawing.markup()


def _square(label: str, kind: str) -> Drawing:
    """An empty picture of shares: from _X.start to _X.stop and, upwards, from _Y.start to _Y.stop."""
    return Drawing(_X.stop + 10, _Y.start + 38, label, kind)


def _levels(drawing: Drawing, y: AxisScale, shares: Sequence[float]) -> None:
    for share in shares:
        drawing.put('<path d="M{} {}H{}" class="grid"/>', _X.start, y(share), _X.stop)
        drawing.text(_X.start - 5, y(share) + 4, f"{100 * share:g}", "tick", "end")


def _name_axes(drawing: Drawing, below: str, beside: str) -> None:
    drawing.text((_X.start + _X.stop) / 2, _Y.start + 32, below, "label", "middle")
    element = '<text transform="translate(10 {}) rotate(-90)" class="label" text-anchor="middle">{}</text>'
    drawing.put(element, (_Y.start + _Y.stop) / 2, beside)


def _bent(curve: Curve) -> list[tuple[float, float]]:
    """The curve's points, with further ones on long slopes, which the stretched axis bends."""
    points = list(zip(curve.false_alarms, curve.caught))
    out = points[:1]
    for (alarm, hit), (next_alarm, next_hit) in pairwise(points):
        width = sqrt(next_alarm) - sqrt(alarm)
        count = 1 + int(40 * width) if next_hit > hit else 1
        for step in range(1, count):
            between = (sqrt(alarm) + step / count * width) ** 2
            share = (between - alarm) / (next_alarm - alarm)
            out.append((between, hit + share * (next_hit - hit)))
        out.append((next_alarm, next_hit))
    return out


def histogram_rows(
    edges: Sequence[float],
    rows: Sequence[HistogramRow],
    axis: str,
    label: str,
    *,
    optimum: tuple[float, str] | None = None,
    threshold: float | None = None,
) -> Markup:
    """Histograms below each other over one axis, each row as high as its own peak.

    `optimum` is a line with a word at it, `threshold` a line that a script may move.
    """
    top = 14.0 if optimum else 2.0
    bottom = top + _ROW * len(rows)
    x = AxisScale(edges[0], edges[-1], _MARGIN, WIDTH - _MARGIN)
    drawing = Drawing(WIDTH, bottom + 36, label, "rows")
    for tick in ticks(edges[0], edges[-1]):
        drawing.put('<path d="M{} {}V{}" class="grid"/>', x(tick), top, bottom)
        drawing.text(x(tick), bottom + 14, f"{tick:g}", "tick", "middle")
    drawing.text(WIDTH / 2, bottom + 30, axis, "label", "middle")
    for index, row in enumerate(rows):
        _areas(drawing, edges, row, x, top + _ROW * (index + 1) - 2)
    if optimum:
        drawing.put('<path d="M{} {}V{}" class="optimum"/>', x(optimum[0]), top, bottom)
        anchor = "start" if x(optimum[0]) < WIDTH / 2 else "end"
        drawing.text(x(optimum[0]), top - 4, optimum[1], "tick", anchor)
    if threshold is not None:
        drawing.put('<path d="M0 {}V{}" transform="translate({} 0)" class="threshold"/>', top, bottom, x(threshold))
    for index, row in enumerate(rows):
        _words(drawing, row, top + _ROW * index + 12)
    return drawing.markup(low=edges[0], high=edges[-1], left=x.start, right=x.stop)


def _areas(drawing: Drawing, edges: Sequence[float], row: HistogramRow, x: AxisScale, base: float) -> None:
    widths = [max(right - left, 1e-300) for left, right in pairwise(edges)]
    for kind, counts in row.layers.items():
        densities = [count / width for count, width in zip(counts, widths)]
        peak = max(densities, default=0.0) or 1.0
        room = _ROW - _LABEL - 4
        outline = steps(edges, [room * density / peak for density in densities], x, base)
        drawing.put('<path d="{}" class="area {}"/>', outline, kind)
    drawing.put('<path d="M{} {}H{}" class="base"/>', x.start, base, x.stop)


def _words(drawing: Drawing, row: HistogramRow, y: float) -> None:
    short = shorten(row.name, WIDTH - 2 * _MARGIN - 7 * len(row.note))
    drawing.put('<text x="{}" y="{}" class="name">{}<title>{}</title></text>', _MARGIN, y, short, row.name)
    drawing.text(WIDTH - _MARGIN, y, row.note, "tick", "end")


def set_rows(histogram: Histogram, ood: Sequence[str]) -> list[HistogramRow]:
    """One row for each set of a histogram: train and test first, then the OOD sets."""
    roles = {"train": "train", "test": "test"} | dict.fromkeys(ood, "ood")
    return [
        HistogramRow(name, "", {role: histogram.counts[name]})
        for name, role in roles.items()
        if name in histogram.counts
    ]
