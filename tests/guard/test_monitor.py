"""The monitor: uniform ranks, a fair game, no more alarms than promised at any time, the same bits when resumed."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from softscope.errors import SoftscopeError
from softscope.guard import Evidence, Guard, Monitor, draw_evidence
from softscope.guard.martingale import BETS, edge_ranks, first_masses, log_evidence, ranks
from softscope.guard.saving import read_signed, write_signed


def evidence_of(p_values):
    return log_evidence(p_values, 0, np.full(len(BETS), -np.inf), BETS)


def stream_evidence(rng, calibrated, fresh):
    edges = edge_ranks(len(calibrated))
    bins = np.searchsorted(np.sort(calibrated)[edges], fresh)
    return evidence_of(ranks(bins, rng.random(len(fresh)), first_masses(edges, len(calibrated))))


# --- ranks


def test_with_one_bin_per_gap_a_rank_is_the_textbook_formula():
    """p_t = (#{earlier > s} + u) / (n + t) where scores don't tie."""
    rng = np.random.default_rng(0)
    earlier = np.sort(rng.normal(size=40))
    for s, u in zip(rng.normal(size=60), rng.random(60)):
        below = np.searchsorted(earlier, s)
        p = ranks(np.array([below]), np.array([u]), np.ones(len(earlier) + 1, np.int64))[0]
        assert p == pytest.approx(((earlier > s).sum() + u) / (len(earlier) + 1))
        earlier = np.insert(earlier, below, s)


def test_ranks_on_the_grid_lie_in_the_same_bin_as_the_textbook_formula():
    """Both count the same scores above and below the bin, so they differ by no more than the bin's share."""
    rng = np.random.default_rng(0)
    calibration, fresh, u = np.sort(rng.normal(size=3000)), rng.normal(size=500), rng.random(500)
    edges = edge_ranks(3000)
    bins = np.searchsorted(calibration[edges], fresh)
    masses = first_masses(edges, 3000)
    p_values = ranks(bins, u, masses)
    for t, s in enumerate(fresh):
        exact = ((calibration > s).sum() + (fresh[:t] > s).sum() + u[t]) / (3001 + t)
        assert abs(p_values[t] - exact) <= masses[bins[t]] / (3001 + t)


LAWS = {
    "normal": lambda rng, size: rng.normal(size=size),
    "heavy tails": lambda rng, size: rng.standard_cauchy(size),
    "many ties": lambda rng, size: rng.integers(0, 6, size).astype(float),
    "all equal": lambda rng, size: np.zeros(size),
}


class Plain:
    """What a Monitor needs of a guard whose scores are given."""

    def __init__(self, scores):
        self.calibration = type("Calibration", (), {"scores": np.sort(scores)})()
        self.sha256 = "0" * 64


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("calibrated", [5, 300])
def test_ranks_on_the_grid_are_independent_and_uniform_ties_or_not(law, calibrated):
    rng, p_values = np.random.default_rng(1), []
    for seed in range(800):
        monitor = Monitor(Plain(LAWS[law](rng, calibrated)), seed=seed)
        scores = LAWS[law](rng, 12)
        places = np.random.Generator(np.random.PCG64(seed)).random((12, 2))
        bins = monitor._bins(scores, places[:, 1])
        p_values.append(ranks(bins, places[:, 0].copy(), monitor._masses))
    p_values = np.array(p_values)
    assert stats.kstest(p_values.ravel(), "uniform").pvalue > 1e-3
    assert stats.kstest((p_values[:, 0] + p_values[:, 1]) % 1, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(p_values[:, :-1].ravel(), p_values[:, 1:].ravel())[0, 1]) < 0.05


def test_the_grid_is_bounded_and_its_masses_are_the_gaps_between_calibration_scores():
    edges = edge_ranks(50_000)
    assert 1000 < len(edges) <= 1100
    masses = first_masses(edges, 50_000)
    assert masses.sum() == 50_001
    assert masses[-1] == 1
    assert set(range(50_000 - 64, 50_000)) <= set(edges.tolist())
    np.testing.assert_array_equal(first_masses(edge_ranks(7), 7), np.ones(8))


# --- the game


def test_every_bet_has_integral_1_and_is_what_the_code_plays():
    def payoff(p, b):
        capital = np.full(len(BETS), -np.inf)
        log_evidence(np.array([p]), 10**6, capital, BETS)
        start = 1 / (1 + math.log1p(1000)) - 1 / (1 + math.log1p((10**6 + 1) / 1000))
        return math.exp(capital[b]) / (start / len(BETS))

    for b in range(len(BETS)):
        area, _ = integrate.quad(payoff, 0, 1, args=(b,), limit=200, epsabs=1e-6)
        assert area == pytest.approx(1, abs=2e-3)


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=40))
def test_the_evidence_is_the_mixture_over_all_starts_by_definition(values):
    p = np.array(values)

    def f(shape, kappa, x):
        low, high = kappa * x ** (kappa - 1), kappa * max(1 - x, 1e-17) ** (kappa - 1)
        return (low, high, (low + high) / 2, 6 * x * max(1 - x, 1e-17))[int(shape)]

    def kept(t):
        return 1 / (1 + math.log1p(t / 1000))

    for t in range(1, len(p) + 1):
        total = kept(t)
        for start in range(t):
            for shape, kappa in BETS:
                product = np.prod([f(shape, kappa, x) for x in p[start:t]])
                total += (kept(start) - kept(start + 1)) / len(BETS) * product
    assert evidence_of(p)[-1] == pytest.approx(math.log(total), rel=1e-9, abs=1e-9)


def largest_evidence(streams, rows, calibrated, seed, wrong=False):
    """log S_t at its largest, of each of so many streams without a change."""
    rng, largest = np.random.default_rng(seed), []
    for _ in range(streams):
        calibration, fresh = rng.normal(size=calibrated), rng.normal(size=rows)
        if wrong:  # the tempting way: every score against the calibration scores alone
            above = calibrated - np.searchsorted(np.sort(calibration), fresh)
            values = evidence_of((above + rng.random(rows)) / (calibrated + 1))
        else:
            values = stream_evidence(rng, calibration, fresh)
        largest.append(values.max())
    return np.array(largest)


@pytest.mark.slow
@pytest.mark.parametrize("calibrated", [100, 1000])
def test_2000_streams_of_5000_rows_without_change_alarm_no_more_often_than_promised(calibrated):
    largest = largest_evidence(2000, 5000, calibrated, 3)
    for rate in (0.01, 0.05, 0.2):
        assert (largest >= -math.log(rate)).sum() <= stats.binom.ppf(0.999, 2000, rate)


def test_300_streams_of_2000_rows_without_change_alarm_no_more_often_than_promised():
    assert (largest_evidence(300, 2000, 100, 4) >= math.log(20)).sum() <= stats.binom.ppf(0.999, 300, 0.05)


def test_ranks_against_a_fixed_calibration_set_break_the_promise():
    """Why the calibration set grows: the error of 100 calibration rows stays, and looks like drift in the end."""
    largest = largest_evidence(200, 5000, 100, 5, wrong=True)
    assert (largest >= math.log(20)).sum() > 3 * stats.binom.ppf(0.999, 200, 0.05)


@pytest.mark.parametrize(("shift", "most"), [(0.5, 500), (1.0, 120), (2.0, 40), (-1.0, 200)])
@pytest.mark.parametrize("before", [0, 3000])
def test_a_shift_is_found_soon_also_after_a_long_quiet_time(shift, most, before):
    rng = np.random.default_rng(6)
    delays = []
    for _ in range(20):
        fresh = rng.normal(size=before + 1500)
        fresh[before:] += shift
        crossed = np.flatnonzero(stream_evidence(rng, rng.normal(size=2000), fresh) >= math.log(100))
        delays.append(crossed[0] - before if len(crossed) else np.inf)
    assert 0 <= np.median(delays) <= most


# --- the monitor of a guard


def test_a_stream_of_known_rows_is_quiet_and_strange_rows_raise_the_alarm(world, guard):
    monitor = guard.monitor()
    assert not monitor.update(world.fresh).alarm
    evidence = monitor.update(world.strange)
    assert evidence.alarm
    assert 400 <= evidence.alarm_row < 420
    assert evidence.rows == 500
    assert "under no change" in str(evidence)
    assert monitor.update(world.fresh[:5]).alarm_row == evidence.alarm_row
    assert json.loads(json.dumps(evidence.to_dict()))["alarm"] is True


@given(st.lists(st.integers(0, 120), min_size=1, max_size=5), st.data())
def test_saved_and_resumed_wherever_it_was_cut_it_ends_in_the_same_bits(world, guard, tmp_path_factory, cuts, data):
    path = tmp_path_factory.mktemp("state") / "m.safetensors"
    scores = guard.uncertainty(np.concatenate([world.fresh[:100], world.strange[:20]]))
    whole = guard.monitor(0.05, seed=3)
    whole.update_scores(scores)
    whole.save(path)
    expected = path.read_bytes()
    monitor, start = guard.monitor(0.05, seed=3), 0
    for cut in sorted(cuts):
        monitor.update_scores(scores[start:cut])
        monitor.save(path)
        monitor, start = Monitor.load(path, guard), cut
    monitor.update_scores(scores[start:])
    monitor.save(path)
    assert path.read_bytes() == expected
    assert monitor.evidence == whole.evidence


def test_the_state_does_not_grow_and_the_trace_covers_the_stream(guard, world, tmp_path):
    monitor, sizes = guard.monitor(), []
    scores = guard.uncertainty(world.fresh)
    for _ in range(12):
        monitor.update_scores(np.resize(scores, 5000))
        monitor.save(tmp_path / "m.safetensors")
        sizes.append((tmp_path / "m.safetensors").stat().st_size)
    assert max(sizes) < 40_000
    trace = monitor.trace
    assert 250 <= len(trace) <= 512
    assert trace[0, 0] == 1
    assert trace[-1, 0] > 59_000
    assert len(set(np.diff(trace[:, 0]))) == 1


def test_the_evidence_reads_as_a_number_for_people():
    assert str(Evidence(10, 0.0, math.log(400), 0.01, None)) == "1 in 400 under no change"
    assert str(Evidence(10, -3.0, 0.0, 0.01, None)) == "1 in 1 under no change"
    assert str(Evidence(10, 900.0, 900.0, 0.01, 3)) == "less than 1 in 10^15 under no change"


def test_a_picture_is_drawn(guard, world, tmp_path):
    monitor = guard.monitor()
    monitor.update(world.fresh)
    for name, start in (("e.png", b"\x89PNG"), ("e.svg", b"<?xml")):
        draw_evidence(monitor, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)


FORGERIES = {
    "masses of another grid": lambda t, w: t.update(masses=np.ones(3, np.int64)),
    "masses that lost rows": lambda t, w: t.update(masses=t["masses"] - 1),
    "rows of text": lambda t, w: w.update(rows="12"),
    "rows that the masses deny": lambda t, w: w.update(rows=7),
    "an alarm in the future": lambda t, w: w.update(alarm_row=10**6),
    "capital of NaN": lambda t, w: t.update(capital=np.full(len(BETS), np.nan)),
    "evidence of another shape": lambda t, w: t.update(evidence=np.zeros(3)),
    "a trace that is endless": lambda t, w: t.update(trace=np.zeros((10_000, 2))),
    "no seed": lambda t, w: w.pop("seed"),
    "a rate of 2": lambda t, w: w.update(rate=2.0),
    "a source of text": lambda t, w: w.update(source="x"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_state_with_a_right_digest_is_refused(world, guard, tmp_path, name):
    monitor = guard.monitor()
    monitor.update(world.fresh[:12])
    monitor.save(tmp_path / "m.safetensors")
    tensors, words = read_signed(tmp_path / "m.safetensors", "softscope.monitor", ("1",), "a state")
    FORGERIES[name](tensors, words)
    write_signed(tmp_path / "m.safetensors", "softscope.monitor", "1", tensors, words)
    with pytest.raises(SoftscopeError, match=r"m\.safetensors: a state that can't be"):
        Monitor.load(tmp_path / "m.safetensors", guard)


def test_a_changed_byte_and_another_guard_are_refused(world, guard, tmp_path):
    path = tmp_path / "m.safetensors"
    guard.monitor().save(path)
    content = path.read_bytes()
    with pytest.raises(SoftscopeError, match="is the state of a stream through another guard"):
        Monitor.load(path, Guard.fit(world.head, None, world.calibration, "max"))
    for at in range(0, len(content), 97):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(SoftscopeError, match=r"m\.safetensors"):
            Monitor.load(path, guard)
    guard.save(path)
    with pytest.raises(SoftscopeError, match="is not a state of"):
        Monitor.load(path, guard)
