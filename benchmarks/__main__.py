"""`python -m benchmarks [NAME ...]`: time and memory of our own work beside the libraries people use today."""

import argparse
import json
import sys

from rich.console import Console

from benchmarks import measuring
from softscope.errors import SoftscopeError
from softscope.progress import bar
from softscope.provenance import Stopwatch


def main(words: list[str] | None = None) -> None:
    """Run the benchmarks named (all of them if none is) and print tables or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(measuring.NAMES)} or all")
    parser.add_argument("--quick", action="store_true", help="small sizes, seconds not minutes; targets don't apply")
    parser.add_argument("--json", action="store_true", help="print JSON with machine and versions")
    given = parser.parse_args(words)
    names = measuring.NAMES if given.names in ([], ["all"]) else given.names
    watch, rows = Stopwatch(), {}
    with bar() as progress:
        for number, name in enumerate(names):
            progress(f"running the benchmark {name}", number, len(names))
            rows[name] = measuring.run(name, quick=given.quick)
            if not given.json:
                Console().print(measuring.table(name, rows[name]))
    if given.json:
        print(json.dumps(measuring.to_dict(rows, given.quick, watch), indent=1, allow_nan=False))


if __name__ == "__main__":
    try:
        main()
    except SoftscopeError as error:
        sys.exit(f"benchmarks: {error}")
