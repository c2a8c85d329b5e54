"""Speed and memory beside the libraries people use today: one module a benchmark, each with `run(quick) -> rows`.

`softscope bench NAME` runs `softscope.benchmarks.NAME`; nothing is imported before it is asked for.
"""

NAMES = ("density", "scores", "metrics", "filter")
