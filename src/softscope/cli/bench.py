"""`softscope bench`: time and memory of our own work beside the libraries people use today."""

import json
from typing import Annotated

import typer


def bench(
    name: Annotated[str, typer.Argument(help="density, scores, metrics, filter or all.", metavar="NAME")] = "all",
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes, seconds not minutes; targets don't apply.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with machine and versions.")] = False,
) -> None:
    """Measure speed and memory against scikit-learn and others in one run."""
    from rich.console import Console

    from ..benchmarks import report
    from ..provenance import Stopwatch

    out, progress, watch = Console(), Console(stderr=True), Stopwatch()
    rows = {}
    for each in report.available() if name == "all" else (name,):
        with progress.status(f"running the benchmark {each}"):
            rows[each] = report.run(each, quick=quick)
        if not as_json:
            out.print(report.table(each, rows[each]))
    if as_json:
        typer.echo(json.dumps(report.to_dict(rows, quick, watch), indent=1, allow_nan=False))
