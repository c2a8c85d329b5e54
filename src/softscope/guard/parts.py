"""Part files: a long parquet file in the making, of which a killed process loses only the batch under way.

Each batch goes into a part file that is whole or absent, in a hidden folder beside the output. When all are there they
are joined into the output, atomically, and the folder goes.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import SoftscopeError
from ..files import atomic_path, reading, sync, write_json, writing_failed

if TYPE_CHECKING:
    import pyarrow as pa


class Parts:
    """The part files of one run, one for each batch of `size` rows."""

    def __init__(self, folder: Path, rows: int, size: int) -> None:
        self.folder, self.rows, self.size = folder, rows, size
        self.count = -(-rows // size)

    def done(self) -> int:
        """How many parts are there, from the first on without a gap."""
        return next((number for number in range(self.count) if not self._whole(number)), self.count)

    def write(self, number: int, table: "pa.Table") -> None:
        """Write one part, atomically."""
        import pyarrow.parquet as pq

        with atomic_path(self._path(number)) as temporary, open(temporary, "wb") as file:
            pq.write_table(table, file, write_page_checksum=True)

    def join(self, target: Path) -> tuple[int, int]:
        """Write all parts as one file, a row group each, atomically; returns how many rows are bad and have alarms."""
        import pyarrow.parquet as pq

        bad = alarms = 0
        schema = self._read(0).schema
        joined = self.folder / "joined"  # made in here, so that a killed process leaves nothing beside the output
        with (
            atomic_path(joined) as temporary,
            open(temporary, "wb") as file,
            pq.ParquetWriter(file, schema, write_page_checksum=True) as writer,
        ):
            for number in range(self.count):
                table = self._read(number)
                writer.write_table(table, row_group_size=len(table))
                bad += int(table["bad"].to_numpy().sum())
                alarms += int(table["alarm"].to_numpy().sum())
        try:
            os.replace(joined, target)
        except OSError as error:
            raise writing_failed(target, error) from error
        with suppress(OSError):  # the file is whole and in place; some file systems can't sync a folder
            sync(target.parent)
        return bad, alarms

    def _read(self, number: int) -> "pa.Table":
        import pyarrow.parquet as pq

        path = self._path(number)
        try:
            with reading(path, "parquet"):
                return pq.read_table(path, page_checksum_verification=True)
        except SoftscopeError as error:
            path.unlink(missing_ok=True)
            raise SoftscopeError(f"{path}: was damaged after it was written", "Run again to score it anew") from error

    def _whole(self, number: int) -> bool:
        import pyarrow.parquet as pq

        try:
            found = pq.read_metadata(self._path(number)).num_rows
        except Exception:  # absent or damaged: scored again
            return False
        return bool(found == min(self.size, self.rows - number * self.size))

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:09}.parquet"


@contextmanager
def working_folder(target: Path, key: str) -> Iterator[Path]:
    """The hidden folder of the parts of `target`, held by this process alone; emptied where another `key` made it.

    It goes when the work is done, and stays when it is interrupted, unless no part is there yet.
    """
    folder = target.parent / f".{target.name}.parts"
    handle = _hold(folder, target)
    try:
        _prepare(folder, key)
        yield folder
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        if not any(folder.glob("*.parquet")):
            shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _prepare(folder: Path, key: str) -> None:
    found = None
    with suppress(OSError, ValueError):
        found = json.loads((folder / "run.json").read_bytes())
    # Temporary files are those of a process that was killed while it wrote.
    for leftover in (*folder.glob(".*.part"), *(folder.glob("*.parquet") if found != key else ())):
        leftover.unlink(missing_ok=True)
    if found != key:
        write_json(folder / "run.json", key)


def _hold(folder: Path, target: Path) -> int:
    """A handle of `folder`, made where it is missing, with a lock that the system releases with the process."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY)
        except OSError as error:
            raise writing_failed(target, error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise SoftscopeError(f"{target}: another process is writing it", "Wait for it, or stop it") from None
        except OSError:
            return handle  # a file system without locks
        with suppress(OSError):
            if os.path.samestat(os.fstat(handle), folder.stat()):
                return handle
        os.close(handle)  # its holder was done and removed it in the meantime
