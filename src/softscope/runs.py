"""The run store: results addressed by what determines them, in steps that are whole or absent.

    run = Store().run(settings)                       # folder named by the hash of the settings
    fit = run.step("train", produce)                  # computed once; afterwards read
    own = run.step("score", produce, inputs={"fit": fit})

A step is written to a hidden folder, checksummed, fsynced and renamed: `kill -9` at any moment loses at most the step
under way. It is read only after sizes and sha256 agree with its manifest, else it is computed again. A lock on each
step, released by the system when its holder dies, makes a second process wait and then read. Where the file system has
no locks (some network folders), two processes may compute the same step; the first to finish wins and both read it.
"""

import errno
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from .canonical import fingerprint, parse_json, plain
from .errors import SoftscopeError
from .files import (
    DISK_FULL,
    existing_file,
    read_safetensors,
    sha256,
    sync,
    write_json,
    write_safetensors,
    writing_failed,
)
from .locks import locked
from .provenance import Stopwatch

FORMAT = 1
_OWN_FILES = ("manifest.json", "provenance.json")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
_log = logging.getLogger(__name__)


class Store:
    """A folder of runs: `root`, else $SOFTSCOPE_RUNS, else ./softscope-runs. Small and picklable: hand it to tasks.

    `results` is the folder where results are written; some keep what stands in for a run that `root` lacks.
    """

    def __init__(self, root: str | os.PathLike[str] | None = None, results: str | os.PathLike[str] = "results") -> None:
        # Absolute, because a task on another process or machine need not start in the same folder.
        self.root = Path(root or os.environ.get("SOFTSCOPE_RUNS") or "softscope-runs").expanduser().absolute()
        self.results = Path(results).expanduser().absolute()

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"

    def run(self, settings: Any, *, kind: str | None = None, version: int = 1) -> "Run":
        """The run that `settings` (a frozen dataclass or a mapping) determine.

        `kind` (the dataclass's name unless given) keeps runs with equal settings apart; raise `version` when the code
        behind a kind of run changes what it computes.
        """
        called = _checked(kind or (type(settings).__name__ if is_dataclass(settings) else "run"))
        key = {"format": FORMAT, "kind": called, "version": version, "settings": plain(settings, "settings")}
        run = Run(self.root / f"{called}-{fingerprint(key)[:32]}", key["settings"])
        if not (run.path / "settings.json").exists():
            write_json(run.path / "settings.json", key)  # for people; nothing reads it back
        return run


class Run:
    """One run's folder, `path`, and the plain `settings` that named it."""

    def __init__(self, path: Path, settings: Any) -> None:
        self.path = path
        self.settings = settings

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def step(
        self, name: str, produce: Callable[["Draft"], object], *, inputs: Mapping[str, Any] | None = None
    ) -> "StepResult":
        """The whole step `name`: read where present, else made by `produce(draft)`.

        `inputs` are what determines the step beyond the settings: earlier StepResults (by content) and plain values
        such as the sha256 of data. Other inputs, another step: their hash is part of the step's folder name.
        """
        given = {key: _as_input(value, key) for key, value in (inputs or {}).items()}
        folder = _checked(name) + (f"-{fingerprint(given)[:12]}" if given else "")
        target = self.path / folder
        scratch = self.path / f".{folder}.scratch"
        if not scratch.exists() and (result := _whole(target)) is not None:
            return result
        with locked(self.path / f".{folder}.lock") as alone:
            # Listing makes a network file system look again instead of answering from its cache.
            leftovers = [entry for entry in os.listdir(self.path) if entry.startswith(f".{folder}.part-")]
            result = _whole(target)
            if alone:
                # A process killed right after the step was whole leaves its scratch folder.
                for entry in [*leftovers, *([scratch.name] if result else [])]:
                    shutil.rmtree(self.path / entry, ignore_errors=True)
            return result or Draft(self.path, folder, self.settings).fill(produce, given)


class Draft:
    """What a `produce` function writes to: tensors, JSON, files; and a `scratch` folder that survives kills."""

    def __init__(self, run: Path, folder: str, settings: Any) -> None:
        self._target = run / folder
        self._scratch = run / f".{folder}.scratch"
        self._settings = settings
        self._part = run / f".{folder}.part-{secrets.token_hex(8)}"
        try:
            self._part.mkdir()
        except OSError as error:
            raise writing_failed(self._target, error) from error

    @property
    def scratch(self) -> Path:
        """A folder for the step's own checkpoints: kept when the process dies, removed when the step is whole."""
        self._scratch.mkdir(exist_ok=True)
        return self._scratch

    def path(self, file: str) -> Path:
        """Where to write the named file, e.g. 'model.onnx'."""
        if file in _OWN_FILES:
            raise SoftscopeError(f"{file}: the run store keeps this name for itself", "Choose another file name")
        return self._part / _checked(file)

    def tensors(self, values: Mapping[str, NDArray], name: str = "tensors") -> None:
        """Write numpy arrays as `name`.safetensors."""
        write_safetensors(self.path(f"{name}.safetensors"), values)

    def json(self, value: Any, name: str = "numbers") -> None:
        """Write strict JSON, floats exact, as `name`.json."""
        write_json(self.path(f"{name}.json"), plain(value, name))

    def fill(self, produce: Callable[["Draft"], object], inputs: Mapping[str, Any]) -> "StepResult":
        """Let `produce` write, then seal and move the step into place; whatever fails, nothing half-written stays."""
        watch = Stopwatch()
        try:
            produce(self)
            seed = self._settings.get("seed") if isinstance(self._settings, dict) else None
            write_json(self._part / "provenance.json", watch.provenance(seed=seed, inputs=inputs))
            self._seal(inputs)
            self._move_into_place()
        except OSError as error:
            # Errors of the step's own making (a missing input file) are not about this folder.
            if error.errno not in DISK_FULL and not _concerns(error, self._part):
                raise
            raise writing_failed(self._target, error) from error
        finally:
            shutil.rmtree(self._part, ignore_errors=True)
        shutil.rmtree(self._scratch, ignore_errors=True)
        made = _whole(self._target)
        if made is None:
            raise SoftscopeError(f"{self._target}: was damaged right after it was written", "Check the disk")
        return made

    def _seal(self, inputs: Mapping[str, Any]) -> None:
        files = {
            path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)}
            for path in sorted(self._part.iterdir())
            if path.name not in _OWN_FILES
        }
        for name in files:
            sync(self._part / name)
        sealed = {"files": files, "inputs": inputs}
        write_json(self._part / "manifest.json", sealed | {"digest": fingerprint(sealed)})

    def _move_into_place(self) -> None:
        try:
            os.rename(self._part, self._target)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            if _whole(self._target) is not None:
                return  # another process without locks was first
            damaged = self._part.with_name(f"{self._part.name}-damaged")
            os.rename(self._target, damaged)
            os.rename(self._part, self._target)
            shutil.rmtree(damaged, ignore_errors=True)
        sync(self._target.parent)


@dataclass(frozen=True)
class StepResult:
    """A whole step: its `folder`, and `digest`, which depends on contents and inputs alone, not on time or place."""

    folder: Path
    digest: str

    def path(self, file: str) -> Path:
        """The named file."""
        return self.folder / file

    def tensors(self, name: str = "tensors") -> dict[str, NDArray]:
        """The arrays of `name`.safetensors."""
        return read_safetensors(self.path(f"{name}.safetensors"))[0]

    def json(self, name: str = "numbers") -> Any:
        """The value of `name`.json."""
        return parse_json(self.path(f"{name}.json").read_bytes())

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Command, versions, machine, date and wall time of the process that made this step ({} if lost)."""
        return _read_json(self.path("provenance.json")) or {}


def _as_input(value: Any, name: str) -> Any:
    return value.digest if isinstance(value, StepResult) else plain(value, f"inputs.{name}")


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise SoftscopeError(f"{name!r}: is not a name for a step or file", "Use letters, digits, '.', '_' and '-'")
    return name


def _whole(folder: Path) -> StepResult | None:
    """The step in `folder` if every file has the size and sha256 of its manifest."""
    manifest = _read_json(folder / "manifest.json")
    if not isinstance(manifest, dict) or manifest.keys() != {"files", "inputs", "digest"}:
        return None
    digest = manifest.pop("digest")
    if digest != fingerprint(manifest):
        return None
    try:
        for name, seal in manifest["files"].items():
            path = folder / name
            if path.stat().st_size != seal["bytes"] or sha256(path) != seal["sha256"]:
                _log.warning("%s is damaged: computing the step again", path)
                return None
    except OSError:
        return None
    return StepResult(folder, digest)


def _read_json(path: Path) -> Any:
    try:
        return parse_json(existing_file(path).read_bytes())
    except (OSError, ValueError, SoftscopeError):
        return None


def _concerns(error: OSError, folder: Path) -> bool:
    return any(str(name).startswith(str(folder)) for name in (error.filename, error.filename2) if name)
