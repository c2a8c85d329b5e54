"""`score`: files in, one row of scores per input out, on the cores of this machine or on a Ray cluster.

Nothing is lost and nothing is done twice: every unit's output has a name that says what it is of (see `plan`), so a
run that was killed is simply started again.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..canonical import fingerprint
from ..engine import Engine
from ..errors import SoftscopeError
from ..files import writable_folder
from ..guard import Guard, Summary
from ..locks import locked
from ..progress import Progress, adding, silent
from ..provenance import Stopwatch
from .folders import InputFile, OutputFolder, is_address, list_files
from .job import Job
from .outputs import Counts, claim, finished, write_manifest
from .plan import FEATURES, UNIT_BYTES, UNIT_ROWS, Unit, count_rows, make_plan
from .rows import RowScorer

if TYPE_CHECKING:
    from ..models import OpenedModel

FORMAT = 1


@dataclass(frozen=True)
class ScoreSummary:
    """What a run wrote: `counted` by the first guard's promise; alarms by kind where there are two guards.

    `outputs` parquet files, of which `skipped` were finished before; `first_bad` names an input without a score.
    """

    counted: Summary
    alarm_by: dict[str, int]
    outputs: int
    skipped: int
    first_bad: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        own = {name: value for name, value in vars(self).items() if name != "counted"}
        return self.counted.to_dict() | own


def score(
    source: str | os.PathLike[str],
    guards: Guard | Sequence[Guard],
    out: str | os.PathLike[str],
    *,
    model: "Callable[[], OpenedModel] | None" = None,
    engine: Engine | None = None,
    progress: Progress = silent,
    unit_bytes: int = UNIT_BYTES,
) -> ScoreSummary:
    """Score every input in `source` into the folder `out`: parquet, one row per input.

    Inputs are the rows of feature files; with `model`, which opens the guard's network in each worker (a partial of
    `models.open_model`, say), they are images: files, or rows of parquet files.

    Columns: path, row, predicted, class, confidence, uncertainty, p_value, alarm, alarm_by (with two guards: none,
    softmax, density or both) and bad, the reason why an input has no score. Such an input's alarm is true. `out`
    belongs to one run: other guards, inputs or versions are refused. About `unit_bytes` of input make a unit of work.
    """
    watch = Stopwatch()
    chosen = (guards,) if isinstance(guards, Guard) else tuple(guards)
    job = Job(chosen, OutputFolder(os.fspath(out)))
    _check_apart(os.fspath(source), job.folder)
    if model is None:
        files, count, unit_rows = list_files(os.fspath(source), FEATURES), count_rows, UNIT_ROWS
    else:
        from .pictures import SUFFIXES, UNIT_IMAGES, Pictures, count_images

        files, count, unit_rows = list_files(os.fspath(source), SUFFIXES), count_images, UNIT_IMAGES
        job = replace(job, pictures=Pictures.of(model, files))
    run = _description(job, files, unit_bytes)
    with _alone(job.folder):
        claim(job.folder, run)
        units = make_plan(files, fingerprint(run), count, unit_bytes, unit_rows)
        classes = job.scorer.head.n_classes
        counts = {unit.name: counted for unit in units if (counted := finished(job.folder, unit, classes)) is not None}
        skipped = len(counts)
        _score_units(job, units, counts, engine or Engine(), progress)
        summary = _summary(job.scorer, Counts.total([counts[unit.name] for unit in units]), len(units), skipped)
        outputs = {unit.name: counts[unit.name].rows for unit in units}
        write_manifest(job.folder, run | summary.to_dict() | {"files": outputs, "provenance": watch.provenance()})
    return summary


def _score_units(
    job: Job, units: Sequence[Unit], counts: dict[str, Counts], engine: Engine, progress: Progress
) -> None:
    """Add to `counts` those of every unit that is not in it yet."""
    todo = [unit for unit in units if unit.name not in counts]
    total = sum(unit.rows for unit in units) if all(unit.rows for unit in units) else 0
    add = adding(progress, "scoring", total, sum(counted.rows for counted in counts.values()))

    def told(counted: Counts) -> None:
        add(counted.rows)

    if engine.name == "ray" and todo:
        from .cluster import score_on_cluster

        counts |= score_on_cluster(job, todo, engine, told)
    else:
        counts |= zip((unit.name for unit in todo), engine.map(job, todo, told=told))


def _description(job: Job, files: Sequence[InputFile], unit_bytes: int) -> dict[str, Any]:
    """What determines every byte of the outputs."""
    if job.pictures is not None:
        job.pictures.check_head(job.scorer.head)
    return {
        "format": FORMAT,
        "model": None if job.pictures is None else job.pictures.identity(),
        "softscope": __version__,
        "guards": [guard.sha256 for guard in job.guards],
        "inputs": fingerprint(list(files)),
        "unit_bytes": unit_bytes,
    }


def _summary(scorer: RowScorer, counts: Counts, outputs: int, skipped: int) -> ScoreSummary:
    if not counts.scored.any():
        raise SoftscopeError(
            f"none of {counts.rows:,} inputs could be scored, the first: {counts.first_bad}",
            "Check that the features are of the guard's network",
        )
    counted = Summary.of(scorer.guards[0], counts.rows, counts.scored, counts.alarms)
    return ScoreSummary(counted, dict(sorted(counts.alarm_by.items())), outputs, skipped, counts.first_bad)


def _check_apart(source: str, folder: OutputFolder) -> None:
    if is_address(source) or is_address(folder.where):
        apart = not f"{folder.where}/".startswith(f"{source.rstrip('/')}/")
    else:
        apart = not Path(os.path.realpath(folder.where)).is_relative_to(os.path.realpath(source))
    if not apart:
        raise SoftscopeError(f"{folder.where}: would become part of its own input", "Choose another folder")


@contextmanager
def _alone(folder: OutputFolder) -> Iterator[None]:
    """Hold the output folder, so that two processes don't do the same work; stores have no locks."""
    if is_address(folder.where):
        yield
        return
    path = writable_folder(folder.where)
    try:
        with locked(path / ".lock", wait=False):
            folder.sweep()
            yield
    except TimeoutError as error:
        raise SoftscopeError(f"{path}: another process is scoring into it", "Wait for it, or stop it") from error
