"""The benchmark of many scores in one pass runs and says what it was measured against. No clock is judged."""

from benchmarks import together as bench
from softscope.estimators import ESTIMATORS


def test_every_row_has_its_peer_and_its_target(monkeypatch):
    for name, size in (("_FEATURES", 16), ("_CLASSES", 5), ("_TRAIN", 400), ("_BANK", 3000)):
        monkeypatch.setattr(bench, name, size)
    rows = list(bench.run(quick=True))
    assert [row.target for row in rows if "product" in row.against] == [0.4, None, 0.8, 0.8]
    (peer,) = [row for row in rows if "pytorch-ood" in row.against]
    assert peer.same is not False, peer.check
    assert peer.theirs or "not installed" in peer.note


def test_the_cheap_scores_are_all_in_the_registry():
    assert set(bench.CHEAP) <= set(ESTIMATORS)
    assert set(bench._PEERS) <= set(bench.CHEAP)
