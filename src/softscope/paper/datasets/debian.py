"""Data sets inside Debian packages: used where they are installed, else fetched by apt without root."""

import gzip
import hashlib
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...errors import SoftscopeError
from ...files import first_line
from ...images.writing import RawSplit, Report, encode_png
from .clients import run_client
from .entry import DataSet, DebianPackage
from .raw import MAX_MEMBER_BYTES, extract_members, read_idx


def fetch(
    package: DebianPackage, entry: DataSet, splits: Sequence[str], work: Path, report: Report
) -> Iterator[tuple[str, RawSplit]]:
    """Each split, from the installed package or the downloaded one."""
    members = [member for split in splits for member in package.members[split]]
    files = {member: Path(package.folder) / member for member in members}
    if not all(path.is_file() for path in files.values()):
        files = _download(package, members, work, report)
    for split in splits:
        images, labels = (_content(package, files[member], member) for member in package.members[split])
        pixels = read_idx(images, package.members[split][0])
        numbers = read_idx(labels, package.members[split][1]).astype("int64")
        digests = {member: package.sha256[member] for member in package.members[split]}
        origin = {"source": f"Debian {package.name}", **digests}
        yield split, RawSplit(numbers, encode_png(pixels[..., None]), entry.classes, origin)


def _download(package: DebianPackage, members: Sequence[str], work: Path, report: Report) -> dict[str, Path]:
    report(f"apt-get download {package.name}", 0, 0)
    run_client(["apt-get", "download", package.name], work)
    archives = sorted(work.glob(f"{package.name}_*.deb"))
    if not archives:
        raise SoftscopeError(f"apt-get download left no {package.name}_*.deb")
    inside = {f"{package.folder.lstrip('/')}/{member}": member for member in members}
    command = ["dpkg-deb", "--fsys-tarfile", str(archives[-1])]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as unpack:
            assert unpack.stdout is not None  # asked for above
            found = extract_members(unpack.stdout, inside, work, archives[-1].name)
    except FileNotFoundError as error:
        raise SoftscopeError("the client dpkg-deb is not installed") from error
    return {inside[path]: file for path, file in found.items()}


def _content(package: DebianPackage, path: Path, member: str) -> bytes:
    """The decompressed, verified bytes of one file."""
    try:
        with gzip.open(path, "rb") as file:
            content = file.read(MAX_MEMBER_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise SoftscopeError(f"{path}: no whole gzip file ({first_line(error)})") from error
    if (found := hashlib.sha256(content).hexdigest()) != package.sha256[member]:
        raise SoftscopeError(f"{path} has sha256 {found[:12]}.., not {package.sha256[member][:12]}..: not used")
    return content
