"""`softscope diagnose MODEL --data DIR -o OUT`: from a model and folders of images to a report and a guard."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .extract import written_line
from .opening import open_data, open_named
from .options import named

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    return make_plan(open_named(model, how), sets, limit=limit, declared=True)


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


def save_guard(files: "DiagnosisFiles", calibration: "FeatureSet", out: Path) -> str:
    """Write `guard.safetensors`, or say why there is none; the next command either way."""
    from ..errors import SoftscopeError
    from ..features import FeatureSet
    from ..guard import Guard
    from ..head import Head

    path = out / "guard.safetensors"
    try:
        guard = Guard.fit(Head.load(files.head), FeatureSet.open(files.train.path), calibration)
    except SoftscopeError as error:
        earlier = f" ({path} is that of an earlier run)" if path.exists() else ""
        return f"no guard was written: {error}{earlier}"
    guard.save(path)
    new = f"{out / 'features'}/NEW.safetensors"
    return f"guard: {path}\nnext: softscope guard score {path} {new} -o scores.parquet"


def _one(path: str, split: str) -> "ImageSource":
    """The images a path or a catalogued name stands for: its split of that name, if it has splits."""
    sources = open_data(path)
    return sources.get(split) or next(iter(sources.values()))
