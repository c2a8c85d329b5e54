"""A process that scores, for tests that kill it: driver.py SOURCE GUARD OUT [key=value ...]."""

import json
import sys

from softscope.engine import Engine
from softscope.guard import Guard
from softscope.scoring import score

if __name__ == "__main__":
    source, guard, out, *words = sys.argv[1:]
    given = dict(word.split("=", 1) for word in words)
    if "largest_file" in given:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (int(given["largest_file"]),) * 2)
    engine = Engine(given.get("engine", "local"), int(given.get("workers", 2)), given.get("address"), progress=False)
    summary = score(source, Guard.load(guard), out, engine=engine, unit_bytes=int(given.get("unit_bytes", 3000)))
    print(json.dumps(summary.to_dict()))
