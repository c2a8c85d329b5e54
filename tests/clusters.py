"""Ray clusters of several nodes on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def cluster_of(*cpus: int, **node: Any) -> Iterator[Any]:
    """A cluster with a node for each number of CPUs; Ray gives each 30 s to start: a busy machine has three tries."""
    import ray
    from ray.cluster_utils import Cluster

    for left in (2, 1, 0):
        cluster = Cluster()
        try:
            cluster.add_node(num_cpus=cpus[0], include_dashboard=False, **node)
            for number in cpus[1:]:
                cluster.add_node(num_cpus=number, **node)
            cluster.wait_for_nodes(timeout=120)
            break
        except Exception:
            with suppress(Exception):
                cluster.shutdown()
            if not left:
                raise
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
