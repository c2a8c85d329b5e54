"""`python -m benchmarks filter` measures the same work on both sides."""

from benchmarks import measuring


def test_every_row_of_the_quick_benchmark_gives_the_same_result_on_both_sides() -> None:
    rows = measuring.run("filter", quick=True)
    assert len(rows) == 7
    assert [row.same for row in rows] == [True] * 6 + [None]
    assert all(row.target is None and row.limit is None for row in rows)
    assert all(row.ratio is not None for row in rows[:6])
