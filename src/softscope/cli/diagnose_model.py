"""`softscope diagnose MODEL --data DIR -o OUT`: from a model and folders of images to a report and a guard."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import SoftscopeError
from .extract import written_line
from .opening import SCORED, open_data, open_named
from .options import named

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..diagnosis import Diagnosis
    from ..features import FeatureSet
    from ..images import ImageSource
    from ..models import DiagnosisFiles, Plan


def plan_of(
    model: str,
    how: dict[str, Any],
    data: str | None,
    train: str | None,
    test: str | None,
    ood: list[str],
    limit: int | None,
) -> "Plan":
    """The model opened, the sets found, and what will be done with them."""
    from ..models import make_plan, roles

    splits = {} if data is None else open_data(data)
    unfamiliar = {name: _one(path, "test") for name, path in named("--ood", ood).items()}
    given = {name: _one(path, name) for name, path in (("train", train), ("test", test)) if path is not None}
    sets = roles(splits | given, unfamiliar)
    plan = make_plan(open_named(model, how), sets, limit=limit, declared=True)
    _check_enough({name: len(each.rows) for name, each in plan.sets.items()})
    return plan


def _check_enough(rows: dict[str, int]) -> None:
    """Refuse what no diagnosis could be made of, before and after the bad images are left out."""
    needed = {"train": 2, "test": 2 if "val" in rows else 4}
    for name, least in needed.items():
        if rows[name] < least:
            half = "; without a val set half of them calibrate the guard" if least == 4 else ""
            raise SoftscopeError(
                f"{name}: {rows[name]} images, a diagnosis needs at least {least}{half}", "Give some hundred"
            )


def write(plan: "Plan", out: Path, batch: int, seed: int, *, quiet: bool) -> "DiagnosisFiles":
    """Features of every set under `out`/features, said in a line each."""
    from ..models import Options, write_features
    from ..progress import bar

    with bar(show=not quiet) as progress:
        files = write_features(plan, out / "features", Options(batch, keep_images=True, progress=progress))
    if not quiet:
        for each in (files.train, files.test, *files.ood.values()):
            typer.echo(written_line(each), err=True)
    return files


def judged(files: "DiagnosisFiles", seed: int) -> "tuple[FeatureSet, FeatureSet]":
    """Test rows to judge by and rows for calibration, none in both: the val set, else a drawn half of the test."""
    import numpy as np

    from ..features import FeatureSet

    test = FeatureSet.open(files.test.path)
    known = {} if files.calibration is None else {"val": files.calibration.rows}
    _check_enough({"train": files.train.rows, "test": files.test.rows, **known})
    if files.calibration is not None:
        return test, FeatureSet.open(files.calibration.path)
    order = np.random.default_rng(seed).permutation(len(test))
    half = len(test) // 2
    return _half(test, np.sort(order[half:])), _half(test, np.sort(order[:half]))


def _half(test: "FeatureSet", rows: "NDArray") -> "FeatureSet":
    """Some rows without the mention of images, which belong to all rows."""
    from ..features import FeatureSet

    metadata = {key: word for key, word in test.metadata.items() if key != "images"}
    labels = None if test.labels is None else test.labels[rows]
    return FeatureSet(test.rows(rows), labels, name=test.name, metadata=metadata)


def save_guard(files: "DiagnosisFiles", calibration: "FeatureSet", out: Path, diagnosis: "Diagnosis", then: str) -> str:
    """Write `guard.safetensors` of what the diagnosis recommends and say what to run `then`, or why there is none."""
    from ..features import FeatureSet
    from ..guard import Guard
    from ..head import Head
    from ..reporting import estimator_words

    path = out / "guard.safetensors"
    try:
        words = estimator_words(diagnosis, diagnosis.advice.recommended or "max")
        guard = Guard.fit(Head.load(files.head), FeatureSet.open(files.train.path), calibration, words)
    except SoftscopeError as error:
        earlier = f" ({path} is that of an earlier run)" if path.exists() else ""
        return f"no guard was written: {error}{earlier}"
    guard.save(path)
    calibrated = f"{guard.estimator.info.symbol}, calibrated on {len(calibration):,} rows that judged nothing"
    return f"guard: {path} ({calibrated})\nnext: {then}"


def next_command(model: str, how: dict[str, Any], plan: "Plan", out: Path) -> str:
    """The line that scores new images with the guard, the model's options as they were given."""
    preprocessing = plan.opened.preprocessing
    if preprocessing.source == "default" and preprocessing.size and len(set(preprocessing.size)) == 1:
        how = how | {"size": preprocessing.size[0]}
    words = ["softscope", "score", model, "NEW_IMAGES"]
    for name in SCORED:
        words += [f"--{name}"] if how[name] is True else [f"--{name}", str(how[name])] if how[name] else []
    return shlex.join([*words, "--guard", str(out / "guard.safetensors"), "-o", "scores"])


def _one(path: str, split: str) -> "ImageSource":
    """The images a path or a catalogued name stands for: its split of that name, if it has splits."""
    sources = open_data(path)
    return sources.get(split) or next(iter(sources.values()))
