"""The Ray engine: the same map over the machines of a cluster, joined by address or started here.

Every machine needs Softscope installed and, for tasks that use a run store, the store's folder under the same path. A
task whose process or machine dies is run again by Ray elsewhere; the store's check keeps what was whole.
"""

import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from typing import Any

from ..errors import SoftscopeError
from ..files import first_line
from ..provenance import cores
from .processes import short
from .threads import limited_threads

_RETRIES = 3
# Of a Ray that only this process sees: nobody reads metrics, nor the history of tasks.
_UNWATCHED = {"enable_metrics_collection": False, "task_events_report_interval_ms": 0}


def map_on_cluster(
    task: Callable[[Any], Any],
    items: list[Any],
    *,
    address: str | None,
    workers: int | None,
    threads: int,
    gpus: float,
    tick: Callable[[Any], None],
) -> list[Any]:
    """The results in the order of the items; the first error of a task cancels the others and is raised."""
    with joined(address, None if workers is None else workers * threads) as ray:
        devices = gpus if ray.cluster_resources().get("GPU") else 0
        remote = ray.remote(num_cpus=threads, num_gpus=devices, max_retries=_RETRIES)(_limited)
        known = ray.put(task)  # once, however many items there are
        return _collect(ray, lambda item: remote.remote(known, item, threads), items, workers or len(items), tick)


@contextmanager
def joined(address: str | None, cpus: int | None) -> Iterator[Any]:
    """The ray module, connected to the cluster at `address` or to one started here; who connected, disconnects.

    A cluster started here has `cpus` workers (this machine's cores where None) and listens on loopback alone.
    """
    # Ray prints what it notices of its machines to stdout, which is for results.
    with redirect_stdout(sys.stderr):
        ray, connected = _connect(address, cores() if cpus is None else cpus)
        try:
            yield ray
        finally:
            if connected:
                ray.shutdown()


def _collect(
    ray: Any, submit: Callable[[Any], Any], items: list[Any], at_once: int, tick: Callable[[Any], None]
) -> list[Any]:
    todo = deque(range(len(items)))
    running: dict[Any, int] = {}
    results: dict[int, Any] = {}
    try:
        while todo or running:
            while todo and len(running) < at_once:
                index = todo.popleft()
                running[submit(items[index])] = index
            (ready,), _ = ray.wait(list(running), num_returns=1)
            index = running.pop(ready)
            results[index] = _result(ray, ready, index, items[index])
            tick(results[index])
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
    return [results[index] for index in range(len(items))]


def _limited(task: Callable[[Any], Any], item: Any, threads: int) -> Any:
    with limited_threads(threads):
        return task(item)


def _connect(address: str | None, cpus: int) -> tuple[Any, bool]:
    """The ray module, connected, and whether this call connected it. No usage report, no dashboard, no chatter."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
    except ImportError as error:
        raise SoftscopeError("engine 'ray' needs Ray", "pip install 'softscope[ray]'") from error
    if ray.is_initialized():
        return ray, False
    quiet = {"log_to_driver": False, "logging_level": "error"}
    try:
        if address:
            _knock(address)
            ray.init(address=address, **quiet)
        else:
            # "local", because without an address Ray would join whatever cluster runs on this machine.
            with _for_one_machine():
                ray.init(
                    "local",
                    num_cpus=cpus,
                    include_dashboard=False,
                    _node_ip_address="127.0.0.1",
                    _system_config=_UNWATCHED,
                    **quiet,
                )
    except Exception as error:  # a machine too busy to start it in time is a bare Exception
        where = f"join the Ray cluster at {address}" if address else "start Ray"
        raise SoftscopeError(f"can't {where} ({first_line(error)})", "Check `ray status` on that machine") from error
    return ray, True


@contextmanager
def _for_one_machine() -> Iterator[None]:
    """What `ray.init` has no argument for: stay on loopback, and start no process that is of no use here.

    Ray replaces 127.0.0.1 by an address that others can reach, unless it believes that it can't have clusters. Of no
    use are the autoscaler, the reader of the workers' logs, and the dashboard's server, which Ray starts for reports of
    usage even where `include_dashboard` is False.
    """
    from ray._private import node, parameter, ray_constants

    few = partial(parameter.RayParams, no_monitor=True, include_log_monitor=False)
    changes = [
        (ray_constants, "ENABLE_RAY_CLUSTER", False),
        (parameter, "RayParams", few),
        (node.Node, "start_api_server", lambda *_, **__: None),
    ]
    before = [getattr(owner, name) for owner, name, _ in changes]
    try:
        for owner, name, value in changes:
            setattr(owner, name, value)
        yield
    finally:
        for (owner, name, _), value in zip(changes, before):
            setattr(owner, name, value)


def _knock(address: str) -> None:
    """Raise OSError where nobody listens: Ray itself would go on trying for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _result(ray: Any, reference: Any, index: int, item: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = getattr(error, "cause", None)
        raise (cause if isinstance(cause, Exception) else error) from None
    except ray.exceptions.RayError as error:
        raise SoftscopeError(
            f"task {index} ({short(item)}) was lost {_RETRIES + 1} times ({first_line(error)})",
            "Check the memory it needs and `ray status`",
        ) from error
