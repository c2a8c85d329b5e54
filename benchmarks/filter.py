"""The scan of a binary input space (X6), beside the same network as plain torch runs it."""

from collections.abc import Iterator

import numpy as np

from softscope.engine.threads import limited_threads
from softscope.paper.filter import BLOCK, Folded, Range, ScanStatistics, Unfolded, inputs, scan
from softscope.paper.nets import FilterNet, build
from softscope.provenance import cores

from .measuring import Row, measure, race

_ALL = 1 << 27
_MINUTES = 2


def run(quick: bool = False) -> Iterator[Row]:
    """Each of three depths on 2^18 inputs (2^14 if quick), the whole scan and the network alone; then on all cores."""
    rows = 1 << (14 if quick else 18)
    for depth in (3, 2, 1):
        net = build("filter", conv_layers=depth)
        assert isinstance(net, FilterNet)
        with limited_threads(1):
            yield _scan_row(net, depth, rows)
            yield _network_row(net, depth, rows)
    yield _whole_row(Folded.of(build("filter")), BLOCK if quick else 32 * BLOCK)


def _scan_row(net: FilterNet, depth: int, rows: int) -> Row:
    """Inputs, network and statistics; both sides keep the same statistics."""
    folded, plain = Folded.of(net), Unfolded(net)

    def work(network: Folded | Unfolded) -> ScanStatistics:
        statistics = ScanStatistics.empty(10, 5)
        network.scan(0, 0, rows, statistics)
        return statistics

    work(folded)  # numba compiles, or reads its cache, before the clock starts
    ours, folded_statistics, theirs, expected = race(lambda: work(folded), lambda: work(plain))
    return Row(
        f"scan of {rows:,} inputs, {depth} conv layers, one thread",
        "plain torch, batches of 4096",
        ours,
        theirs,
        target=10.0,
        same=bool(np.array_equal(folded_statistics.numbers, expected.numbers)),
        check=f"same 50 finds; {rows / ours.cpu / 1e6:.2f} and {rows / theirs.cpu / 1e6:.3f} M inputs/s of CPU time",
    )


def _network_row(net: FilterNet, depth: int, rows: int) -> Row:
    """The network alone: bits in memory to logits, each side in the form it likes best."""
    from softscope.torch_door import torch

    folded = Folded.of(net)
    words = inputs.words(0, np.arange(rows))
    images = torch.from_numpy(inputs.images(0, np.arange(rows), (9, 9))[..., None].astype(np.float32))

    def plain() -> np.ndarray:
        with torch.inference_mode():
            return np.concatenate([net(images[i : i + 4096]).numpy() for i in range(0, rows, 4096)])

    folded.evaluate_words(words[:256])
    ours, logits, theirs, expected = race(lambda: folded.evaluate_words(words)[0], plain)
    gap = float(np.abs(logits - expected).max())
    return Row(
        f"logits of {rows:,} inputs, {depth} conv layers, one thread",
        "plain torch, float32 images ready in memory",
        ours,
        theirs,
        same=gap < 1e-5,
        check=f"largest difference of logits {gap:.1e}",
    )


def _whole_row(network: Folded, rows: int) -> Row:
    """All cores; the limit is that part of two minutes which `rows` are of 2^27."""
    ours, _ = measure(lambda: scan(network, Range(0, 0, rows)), repeats=3)
    return Row(
        f"scan of {rows:,} inputs on {cores()} cores, wall time",
        f"2^27 in {_MINUTES} minutes",
        ours,
        limit=60 * _MINUTES * rows / _ALL,
        by="wall",
        note=f"{rows / ours.wall / 1e6:.2f} M inputs/s: 2^27 in {_ALL / rows * ours.wall:.0f} s",
    )
