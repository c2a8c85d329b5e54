"""A process that scores, for tests that kill it: driver.py SOURCE GUARD OUT [key=value ...]."""

import json
import sys

from softscope.engine import Engine
from softscope.guard import Guard
from softscope.scoring import score


def limit_files(size: int, node: str | None = None) -> None:
    """No file of this process may become larger, as on a full disk; on one node of a cluster only, if it is named."""
    import resource

    if node is not None:
        import ray

        if ray.get_runtime_context().get_node_id() != node:
            return
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


if __name__ == "__main__":
    source, guard, out, *words = sys.argv[1:]
    given = dict(word.split("=", 1) for word in words)
    largest = int(given.get("largest_file", 0))
    if "full_node" in given:
        import ray

        def fill_disk() -> None:
            limit_files(largest, given["full_node"])

        ray.init(given["address"], runtime_env={"worker_process_setup_hook": fill_disk}, log_to_driver=False)
    elif largest:
        limit_files(largest)
    engine = Engine(given.get("engine", "local"), int(given.get("workers", 2)), given.get("address"), progress=False)
    summary = score(source, Guard.load(guard), out, engine=engine, unit_bytes=int(given.get("unit_bytes", 3000)))
    print(json.dumps(summary.to_dict()))
