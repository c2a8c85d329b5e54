"""Data sets on the Hugging Face hub, through huggingface_hub (extra `data`): one commit, every file verified.

A file is held to the sha256 pinned in the catalogue; where none is pinned, to the one the hub states for it.
A broken connection is resumed where it broke; files already whole are not fetched again by a later run.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import SoftscopeError
from ...files import first_line, sha256
from ...images.parquet import read_columns, read_images, read_labels
from ...images.writing import RawSplit, Report
from .entry import DataSet, HubFiles

ATTEMPTS = 3
_PAUSE_SECONDS = 1.0
_TRUE = ("1", "ON", "YES", "TRUE")
_T = TypeVar("_T")


def fetch(
    hub: HubFiles, entry: DataSet, splits: Sequence[str], work: Path, report: Report
) -> Iterator[tuple[str, RawSplit]]:
    """Each split, from the hub's parquet files."""
    api = _client()
    report(f"asking the hub for {hub.repo}", 0, 0)
    info = _persistently(lambda: api.dataset_info(hub.repo, revision=hub.revision, files_metadata=True))
    for split in splits:
        pattern = f"{hub.folder}/{'train' if hub.held_out else hub.splits.get(split, split)}-*.parquet"
        names = sorted(file.rfilename for file in info.siblings or () if fnmatchcase(file.rfilename, pattern))
        if not names:
            raise SoftscopeError(f"{hub.repo} holds no {pattern}")
        stated = {file.rfilename: _stated_sha256(file) for file in info.siblings}
        digests = {name: hub.sha256.get(name) or stated[name] for name in names}
        if unstated := [name for name, digest in digests.items() if not digest]:
            raise SoftscopeError(f"the hub states no sha256 for {hub.repo} {unstated[0]}: not used")
        files = []
        for number, name in enumerate(names):
            report(f"downloading {hub.repo} {name}", number, len(names))
            files.append(_download(api, hub.repo, name, str(info.sha), digests[name], work))
        yield split, _raw_split(hub, entry, split, files, {"source": f"hub {hub.repo}@{info.sha}", **digests})


def held_out_rows(labels: NDArray[np.int64], held_out: int, split: str) -> NDArray[np.int64]:
    """Rows of `split` where the hub has one split only: `held_out` of each class, drawn with seed 0, are the test."""
    random = np.random.default_rng(0)
    test = np.concatenate([random.permutation(np.flatnonzero(labels == c))[:held_out] for c in np.unique(labels)])
    return np.sort(test) if split == "test" else np.setdiff1d(np.arange(len(labels)), test)


def _raw_split(hub: HubFiles, entry: DataSet, split: str, files: list[Path], origin: dict[str, str]) -> RawSplit:
    names = read_columns(files[0]).class_names or entry.classes
    labels = read_labels(files, classes=len(names))
    rows = held_out_rows(labels, hub.held_out, split) if hub.held_out else np.arange(len(labels))
    images = (content for block in read_images(files, rows) for content in block.content)
    return RawSplit(labels[rows], images, names, origin)


def _download(api: Any, repo: str, name: str, commit: str, digest: str, work: Path) -> Path:
    path = Path(
        _persistently(
            lambda: api.hf_hub_download(repo, name, repo_type="dataset", revision=commit, local_dir=str(work))
        )
    )
    if (found := sha256(path)) != digest:
        path.unlink()
        raise SoftscopeError(f"{repo} {name} has sha256 {found[:12]}.., not {digest[:12]}..: not used")
    return path


def _client() -> Any:
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in _TRUE:
        raise SoftscopeError("HF_HUB_OFFLINE is set")
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise SoftscopeError('huggingface_hub is not installed (pip install "softscope[data]")') from error
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None)


def _persistently(call: Callable[[], _T]) -> _T:
    """`call()`, tried again after a pause while the failure may pass (no answer, or a 5xx or 429 answer)."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except Exception as error:  # the hub's client raises its HTTP library's errors, which change with its version
            status = getattr(getattr(error, "response", None), "status_code", None)
            if attempt == ATTEMPTS or (status is not None and status < 500 and status != 429):
                raise SoftscopeError(_reason(error, status)) from error
            time.sleep(_PAUSE_SECONDS * attempt)
    raise AssertionError("unreachable")


def _reason(error: Exception, status: int | None) -> str:
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return f"{error.strerror}"
    return f"the hub answered {status}" if status else f"no answer from the hub ({first_line(error)[:120]})"


def _stated_sha256(file: Any) -> str:
    lfs = getattr(file, "lfs", None)
    return str((lfs.get("sha256") if isinstance(lfs, dict) else getattr(lfs, "sha256", None)) or "")
