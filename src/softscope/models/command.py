"""What the commands `extract` and `diagnose` share: options to an opened model, sets of images to feature files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import SoftscopeError
from ..files import existing_file, writable_folder
from ..images import ImageSource, probe_images
from .files import Options, WrittenSet, check_free, write_set
from .plan import Plan

TESTS = ("test", "val", "valid", "validation")


@dataclass(frozen=True)
class DiagnosisFiles:
    """The files of a diagnosis from a model: head, features and images of each set, and the calibration rows."""

    head: Path
    train: WrittenSet
    test: WrittenSet
    ood: dict[str, WrittenSet]
    probes: dict[str, WrittenSet]
    calibration: WrittenSet | None


def roles(splits: Mapping[str, ImageSource], ood: Mapping[str, ImageSource]) -> dict[str, ImageSource]:
    """The sets of a diagnosis by role: `train`, `test`, `val` (calibration, if it isn't the test) and `ood/NAME`.

    Without OOD images there is `probe/NAME` of each kind of probes, made from the test images.
    """
    sets = dict(splits) | {f"ood/{name}": source for name, source in ood.items()}
    tests = [name for name in TESTS if name in sets]
    if "train" not in sets or not tests:
        there = ", ".join(sets) or "nothing"
        raise SoftscopeError(
            f"a diagnosis needs training and test images; there is {there}",
            "Give a folder with train/<class>/ and test/<class>/, or --train and --test",
        )
    chosen = {"train": sets["train"], "test": sets[tests[0]]}
    if len(tests) > 1:
        chosen["val"] = sets[tests[1]]
    unfamiliar = {name: source for name, source in sets.items() if name.startswith("ood/")}
    if not unfamiliar:
        unfamiliar = {f"probe/{name}": source for name, source in probe_images(chosen["test"]).items()}
    if chosen["train"].labels is None:
        raise SoftscopeError(
            f"{chosen['train'].name}: training images have no labels", "Put them into one subfolder per class"
        )
    return chosen | unfamiliar


def write_features(plan: Plan, out: Path, options: Options) -> DiagnosisFiles:
    """Extract every set of the plan into `out`, with the head."""
    writable_folder(out)
    written = {}
    for name in plan.sets:
        path = out / f"{name.replace('/', '-')}.safetensors"
        written[name] = write_set(plan, name, path, options)
    plan.head.save(out / "head.safetensors")
    ood, probes = (
        {name.removeprefix(role): each for name, each in written.items() if name.startswith(role)}
        for role in ("ood/", "probe/")
    )
    return DiagnosisFiles(out / "head.safetensors", written["train"], written["test"], ood, probes, written.get("val"))


def write_splits(plan: Plan, out: Path, options: Options) -> list[WrittenSet]:
    """Extract every set of the plan into `<data set>-<split>.safetensors` under `out`, with the head."""
    writable_folder(out)
    head = out / "head.safetensors"
    targets = {name: out / f"{_file_name(name, each.source)}.safetensors" for name, each in plan.sets.items()}
    for name, path in targets.items():
        check_free(plan.sets[name], path)
    written = [write_set(plan, name, path, options) for name, path in targets.items()]
    plan.head.save(head)
    return written


def class_names(given: str | None) -> Sequence[str] | None:
    """`--classes`: names with commas between them, or a file with one name per line."""
    if given is None:
        return None
    if "," not in given or Path(given).is_file():
        names = existing_file(given).read_text("utf-8", "replace").splitlines()
        return [name.strip() for name in names if name.strip()]
    return [name.strip() for name in given.split(",")]


def _file_name(split: str, source: ImageSource) -> str:
    plain = split.replace("/", "-")
    return plain if source.name in (split, "") else f"{source.name}-{plain}"
