"""Data sets on the Hugging Face hub, through huggingface_hub (extra `data`): one commit, every file verified.

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
from ...images import RawSplit, read_columns, read_images, read_labels
from ...progress import Progress
from .catalog import DataSet, HubFiles

OFFICIAL = "https://huggingface.co"
ATTEMPTS = 3
SILENCE_SECONDS = 30.0
_PAUSE_SECONDS = 1.0
_TRUE = ("1", "ON", "YES", "TRUE")
_T = TypeVar("_T")


def fetch(
    hub: HubFiles, entry: DataSet, splits: Sequence[str], work: Path, progress: Progress
) -> Iterator[tuple[str, RawSplit]]:
    """Each split, from the hub's parquet files."""
    api = _client()
    commit = _commit(api, hub, progress)
    for split in splits:
        theirs = "train" if hub.held_out else split
        digests = dict(hub.files[theirs]) if hub.files else _stated_digests(hub, theirs, commit)
        paths = []
        for number, (name, digest) in enumerate(digests.items()):
            progress(f"downloading {hub.repo} {name}", number, len(digests))
            paths.append(_download(api, hub, name, digest, work))
        yield split, _raw_split(hub, entry, split, paths, {"source": f"hub {hub.repo}@{hub.revision}", **digests})


def held_out_rows(labels: NDArray[np.int64], held_out: int, split: str) -> NDArray[np.int64]:
    """Rows of `split` where the hub has one split only: `held_out` of each class, drawn with seed 0, are the test."""
    random = np.random.default_rng(0)
    test = np.concatenate([random.permutation(np.flatnonzero(labels == c))[:held_out] for c in np.unique(labels)])
    return np.sort(test) if split == "test" else np.setdiff1d(np.arange(len(labels)), test)


def _raw_split(hub: HubFiles, entry: DataSet, split: str, paths: list[Path], origin: dict[str, str]) -> RawSplit:
    names = read_columns(paths[0]).class_names or entry.classes
    labels = read_labels(paths, classes=len(names))
    rows = held_out_rows(labels, hub.held_out, split) if hub.held_out else np.arange(len(labels))
    images = (bytes(content or b"") for block in read_images(paths, rows) for content in block.content)
    return RawSplit(labels[rows], images, names, origin)


def _commit(api: Any, hub: HubFiles, progress: Progress) -> Any:
    """What the hub says of the pinned commit; a server that stays silent is given up here."""
    if not hub.files and api.endpoint != OFFICIAL:
        raise SoftscopeError(
            f"no checksum of {hub.repo} is pinned, and {api.endpoint} is not the hub itself, so nothing could be "
            "verified (unset HF_ENDPOINT)"
        )
    progress(f"asking the hub for {hub.repo}", 0, 0)
    info = _persistently(
        lambda: api.dataset_info(hub.repo, revision=hub.revision, files_metadata=True, timeout=SILENCE_SECONDS)
    )
    if info.sha != hub.revision:
        raise SoftscopeError(f"{hub.repo}: the hub answered for commit {info.sha}, not {hub.revision[:12]}..: not used")
    return info


def _stated_digests(hub: HubFiles, split: str, info: Any) -> dict[str, str]:
    """The split's files at the pinned commit with the sha256 the hub states for each."""
    pattern = f"{hub.folder}/{split}-*.parquet"
    stated = {file.rfilename: file.lfs.sha256 if file.lfs else "" for file in info.siblings or ()}
    digests = {name: stated[name] for name in sorted(stated) if fnmatchcase(name, pattern)}
    if not digests:
        raise SoftscopeError(f"{hub.repo} holds no {pattern}")
    if unstated := [name for name, digest in digests.items() if not digest]:
        raise SoftscopeError(f"the hub states no sha256 for {hub.repo} {unstated[0]}: not used")
    return digests


def _download(api: Any, hub: HubFiles, name: str, digest: str, work: Path) -> Path:
    path = Path(
        _persistently(
            lambda: api.hf_hub_download(
                hub.repo,
                name,
                repo_type="dataset",
                revision=hub.revision,
                local_dir=str(work),
                etag_timeout=SILENCE_SECONDS,
            )
        )
    )
    if (actual := sha256(path)) != digest:
        path.unlink()
        raise SoftscopeError(f"{hub.repo} {name} has sha256 {actual[:12]}.., not {digest[:12]}..: not used")
    return path


def _client() -> Any:
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in _TRUE:
        raise SoftscopeError("HF_HUB_OFFLINE is set")
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise SoftscopeError('huggingface_hub is not installed (pip install "softscope[data]")') from error
    return HfApi(endpoint=(os.environ.get("HF_ENDPOINT") or OFFICIAL).rstrip("/"))


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
