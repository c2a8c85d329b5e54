"""Scoring on a Ray cluster with Ray Data: read -> score and write, streamed with bounded memory.

A row of the data set is a unit of work, so that the layout of Ray's blocks, which differs from run to run, has no part
in the result. Scorers are actors that hold guards and model. Where the cluster has GPUs each gets one, and readers run
as tasks on the CPUs beside it; else a scorer reads its units itself, a block at a time, as handing features from one
process to another would cost as much as scoring them. What dies with a worker or a node is done again.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ..engine import Engine, joined, limited_threads
from ..errors import SoftscopeError
from ..files import first_line
from .job import Job
from .outputs import Counts
from .plan import Unit

# Of each actor and each reader. An actor that died with its node keeps the units it was given, and needs room
# elsewhere: half of the CPUs may go. A node of one CPU must hold both, or readers would be waited for without end.
_CPUS = 0.5


class ScoreUnits:
    """What Ray Data calls with batches of one unit: an actor that keeps its guards from unit to unit.

    It is given where the job lies, not the job itself: so it can be started again after its node has died. It writes
    what it scores: tasks of their own for that would wait for the CPUs that actors hold, and need processes.
    """

    def __init__(self, known: list[Any], listed: list[Any]) -> None:
        import ray

        limited_threads(1).__enter__()  # as in the local engine: the number of threads can change the last bits
        self.job: Job = ray.get(known[0])
        self.units: Sequence[Unit] = ray.get(listed[0])

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        units = [self.units[number] for number in batch["number"]]
        if "blocks" in batch:
            tables = [_kept(self.job.table, blocks) for blocks in batch["blocks"]]
            counts = [_kept(self.job.write, unit, table) for unit, table in zip(units, tables)]
        else:
            counts = [_kept(self.job, unit) for unit in units]
        return {"name": [unit.name for unit in units], "counts": counts}


def _kept(step: Callable[..., Any], *given: Any) -> Any:
    """`step` of what is given; an error of ours, met here or in an earlier step, is handed on: Ray loses its words."""
    if isinstance(given[-1], SoftscopeError):
        return given[-1]
    try:
        return step(*given)
    except SoftscopeError as error:
        return error


def score_on_cluster(
    job: Job, units: Sequence[Unit], engine: Engine, told: Callable[[Counts], None]
) -> dict[str, Counts]:
    """The counts of every unit by its name; `told` gets them as they come."""
    with joined(engine.address, engine.workers) as ray:
        from ray.data import ActorPoolStrategy, from_items

        _quieten()
        resources = ray.cluster_resources()
        gpus = int(resources.get("GPU", 0))
        most = gpus or max(1, int(resources.get("CPU", 1)))
        size = min(len(units), engine.workers or most, most)
        known, listed = ray.put(job), ray.put(list(units))  # once, however many tasks there are

        def read(row: dict[str, Any]) -> dict[str, Any]:
            with limited_threads(1):
                blocks = _kept(lambda unit: list(ray.get(known).blocks(unit)), ray.get(listed)[row["number"]])
            return {"number": row["number"], "blocks": blocks}

        numbers = from_items([{"number": number} for number in range(len(units))], override_num_blocks=len(units))
        scores = (numbers.map(read, num_cpus=_CPUS) if gpus else numbers).map_batches(
            ScoreUnits,
            fn_constructor_args=([known], [listed]),
            batch_size=1,
            num_cpus=_CPUS,
            num_gpus=1 if gpus else None,
            compute=ActorPoolStrategy(size=size),
        )
        counts: dict[str, Counts] = {}
        try:
            for row in scores.iter_rows():
                if isinstance(row["counts"], SoftscopeError):
                    raise row["counts"]
                counts[row["name"]] = row["counts"]
                told(row["counts"])
        except ray.exceptions.RayError as error:
            raise SoftscopeError(
                f"Ray gave up ({first_line(error)})",
                "Check `ray status`, then run again: what is finished is not scored again",
            ) from error
        return counts


def _quieten() -> None:
    """Ray Data's own bars and messages go: there is one bar, and one line where something is wrong."""
    import logging

    from ray.data import DataContext

    context = DataContext.get_current()
    context.enable_progress_bars = context.enable_operator_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
