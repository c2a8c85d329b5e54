"""`softscope diagnose`: from a model and images, or from feature files, to a verdict, a diagnosis and a report.

`softscope demo` does the same on data that is already here. Of a model and images there is a guard as well.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SoftscopeError
from . import options
from .extract import written_line
from .opening import MODEL, SCORED, BatchSize, DryRun, Limit, open_data, open_named, opens
from .options import AsJson, Quiet, Seed, named

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..diagnosis import Diagnosis
    from ..features import FeatureSet
    from ..images import ImageSource
    from ..models import DiagnosisFiles, Plan


@opens()
def diagnose(
    *,
    out: Annotated[str, options.out("Folder for report.html and diagnosis.json.")],
    model: Annotated[str | None, typer.Argument(help=MODEL, metavar="[MODEL]")] = None,
    data: Annotated[
        str | None, typer.Option(help="Images: train/<class>/, test/<class>/, ood/<name>/.", metavar="DIR")
    ] = None,
    head: Annotated[str | None, typer.Option(help="Without MODEL: safetensors with weight and bias.")] = None,
    train: Annotated[str | None, typer.Option(help="Training images, or features with labels.")] = None,
    test: Annotated[str | None, typer.Option(help="Test images, or features, with labels if any.")] = None,
    ood: Annotated[
        list[str] | None,
        typer.Option(help="Unfamiliar images or features (repeatable); else stand-ins.", metavar="NAME=PATH"),
    ] = None,
    images: Annotated[
        list[str] | None,
        typer.Option(help="Images of an --ood set, or of `test`, in the same order (repeatable).", metavar="NAME=FILE"),
    ] = None,
    estimator: Annotated[
        list[str] | None,
        typer.Option(help='A score with parameters of your own, "density(components=100)" (repeatable).'),
    ] = None,
    how: dict[str, Any],
    limit: Limit = None,
    batch: BatchSize = 64,
    dry_run: DryRun = False,
    seed: Seed = 0,
    verbose: Annotated[bool, typer.Option("--verbose", help="All advice, notes and causes too.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over the report of an earlier run.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """How far can this classifier's confidence be trusted, which cause is to blame where it can't, what to do?

    Give MODEL and images, or --head and features: .safetensors, .npz, .npy or .parquet (`z`, optionally `labels`).
    """
    if (Path(out) / "report.html").is_file() and not force and not dry_run:
        raise SoftscopeError(f"{Path(out) / 'report.html'}: exists", "Give another --out, or --force to write over it")
    if model is not None:
        plan = _plan_of(model, how, data, train, test, ood or [], limit)
        if dry_run or not quiet:
            typer.echo("\n".join(plan.lines()), err=not dry_run)
        if dry_run:
            return
        files = _write_features(plan, Path(out), batch, quiet=quiet)
        judged, calibration = _judged(files, seed)
        unfamiliar, probes = ({name: each.path for name, each in of.items()} for of in (files.ood, files.probes))
        diagnosis = diagnose_files(
            files.head, files.train.path, judged, unfamiliar, {}, Path(out), seed, not quiet, probes, estimator or ()
        )
        closing = _save_guard(files, calibration, Path(out), diagnosis, _next_command(model, how, plan, Path(out)))
    elif head is None or train is None or test is None:
        raise SoftscopeError(
            "give MODEL and its images, or --head, --train and --test", "See softscope diagnose --help"
        )
    else:
        diagnosis = diagnose_files(
            head, train, test, named("--ood", ood or []), named("--images", images or []), Path(out), seed, not quiet,
            {}, estimator or (),
        )  # fmt: skip
        closing = ""
    show(diagnosis, as_json=as_json, verbose=verbose)
    if not as_json:
        typer.echo(f"diagnosis: {Path(out) / 'diagnosis.json'}\nreport: {Path(out) / 'report.html'}")
        if closing:
            typer.echo(closing)


def demo(
    out: Annotated[str, options.out("Folder for the features and the report.")] = "softscope-demo",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a small network on scikit-learn's digits 0-7, and ask what its confidence is worth on digits 8-9,
    photographs and noise. Nothing is downloaded; the feature files stay."""
    from ..demo import write_demo

    folder = Path(out)
    files = write_demo(folder)
    diagnosis = diagnose_files(files.head, files.train, files.test, files.ood, files.images, folder, progress=not quiet)
    show(diagnosis, as_json=as_json)
    if not as_json:
        typer.echo(f"again by hand: {files.command(folder)}")
        typer.echo(f"report: {folder / 'report.html'}")


def diagnose_files(
    head: str | Path,
    train: str | Path,
    test: "str | Path | FeatureSet",
    ood: Mapping[str, str | Path],
    images: Mapping[str, str | Path],
    out: Path,
    seed: int = 0,
    progress: bool = True,
    probes: Mapping[str, str | Path] = MappingProxyType({}),
    estimators: Sequence[str] = (),
) -> "Diagnosis":
    """Diagnose the files and write `diagnosis.json` and `report.html` under `out`."""
    from ..diagnosis import COMPARED
    from ..diagnosis import diagnose as run
    from ..features import FeatureSet
    from ..files import atomic_paths, existing_file, output_folder
    from ..head import Head
    from ..progress import bar
    from ..reporting import report

    for name, path in images.items():
        if name not in ood and name != "test":
            raise SoftscopeError(f"--images {name}: no such set", f"There is {', '.join(['test', *ood])}")
        existing_file(path)
    with output_folder(out):
        with bar(show=progress) as tell:
            diagnosis = run(
                Head.load(head),
                train=FeatureSet.open(train),
                test=FeatureSet.of(test),
                ood={name: FeatureSet.open(path) for name, path in ood.items()},
                probes={name: FeatureSet.open(path) for name, path in probes.items()},
                seed=seed,
                estimators=(*COMPARED, *estimators),
                progress=tell,
            )
        # Both files or neither: a new diagnosis must not stand beside the report of an old one.
        with atomic_paths(out / "diagnosis.json", out / "report.html") as (file, page):
            diagnosis.save(file)
            report(diagnosis, page, images=dict(images))
    return diagnosis


def show(diagnosis: "Diagnosis", *, as_json: bool, verbose: bool = False) -> None:
    """The verdict, one table and the action on the terminal, or everything as JSON."""
    if as_json:
        typer.echo(diagnosis.to_json())
        return
    from ..reporting import show as print_diagnosis

    print_diagnosis(diagnosis, verbose=verbose)


def _plan_of(
    model: str,
    how: dict[str, Any],
    data: str | None,
    train: str | None,
    test: str | None,
    ood: list[str],
    limit: int | None,
) -> "Plan":
    """The model opened, the sets it has, and what will be done with them."""
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


def _write_features(plan: "Plan", out: Path, batch: int, *, quiet: bool) -> "DiagnosisFiles":
    """Features of every set under `out`/features, said in a line each."""
    from ..models import Options, write_features
    from ..progress import bar

    with bar(show=not quiet) as progress:
        files = write_features(plan, out / "features", Options(batch, keep_images=True, progress=progress))
    if not quiet:
        for each in (files.train, files.test, *files.ood.values()):
            typer.echo(written_line(each), err=True)
    return files


def _judged(files: "DiagnosisFiles", seed: int) -> "tuple[FeatureSet, FeatureSet]":
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
    half = test.take(rows)
    half.metadata.pop("images", None)
    return half


def _save_guard(
    files: "DiagnosisFiles", calibration: "FeatureSet", out: Path, diagnosis: "Diagnosis", then: str
) -> str:
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


def _next_command(model: str, how: dict[str, Any], plan: "Plan", out: Path) -> str:
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
