"""`softscope diagnose`: from a model and images, or from feature files, to a verdict, a diagnosis and a report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import diagnose_model, options
from .opening import MODEL, BatchSize, DryRun, Limit, opens
from .options import AsJson, Quiet, Seed, named

if TYPE_CHECKING:
    from ..diagnosis import Diagnosis
    from ..features import FeatureSet


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
    from ..errors import SoftscopeError

    if (Path(out) / "report.html").is_file() and not force and not dry_run:
        raise SoftscopeError(f"{Path(out) / 'report.html'}: exists", "Give another --out, or --force to write over it")
    if model is not None:
        plan = diagnose_model.plan_of(model, how, data, train, test, ood or [], limit)
        if dry_run or not quiet:
            typer.echo("\n".join(plan.lines()), err=not dry_run)
        if dry_run:
            return
        files = diagnose_model.write(plan, Path(out), batch, seed, quiet=quiet)
        judged, calibration = diagnose_model.judged(files, seed)
        unfamiliar = {name: each.path for name, each in files.ood.items()}
        probes = {name: each.path for name, each in files.probes.items()}
        diagnosis = diagnose_files(
            files.head, files.train.path, judged, unfamiliar, {}, Path(out), seed, not quiet, probes, estimator or ()
        )
        then = diagnose_model.next_command(model, how, plan, Path(out))
        closing = diagnose_model.save_guard(files, calibration, Path(out), diagnosis, then)
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
    from ..errors import SoftscopeError
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
