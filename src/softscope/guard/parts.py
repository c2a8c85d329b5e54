"""Part files: a long parquet file in the making, of which a killed process loses only the batch under way.

Each batch goes into a part file that is whole or absent, in a hidden folder beside the output. A part begins with a
sha256 of what made it (run, number) and of its bytes, so that only parts of the same run, unchanged, are taken up. When
all are there they are joined into the output, atomically, and the folder goes.
"""

import hashlib
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..files import atomic_path, existing_file, sync, write_bytes, writing_failed
from ..locks import locked

if TYPE_CHECKING:
    import pyarrow as pa

Counts = NDArray[np.int64]
_DIGEST_BYTES = hashlib.sha256().digest_size


class Parts:
    """The part files of the run `key`, one for each batch of `size` rows."""

    def __init__(self, folder: Path, key: str, rows: int, size: int) -> None:
        self.folder, self.key, self.rows, self.size = folder, key, rows, size
        self.count = -(-rows // size)

    def done(self) -> int:
        """How many parts are there, from the first on without a gap."""
        return next((number for number in range(self.count) if self._content(number) is None), self.count)

    def write(self, number: int, table: "pa.Table") -> None:
        """Write one part, atomically."""
        import pyarrow.parquet as pq

        buffer = io.BytesIO()
        pq.write_table(table, buffer)
        content = buffer.getvalue()
        write_bytes(self._path(number), self._digest(number, content) + content)

    def join(self, target: Path, classes: int) -> Counts:
        """Write all parts as one file, a row group each, atomically; returns scored rows and alarms by class."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        counts = np.zeros((2, classes), np.int64)
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
                scored = table.filter(pc.invert(table["bad"]))
                taken = scored["predicted"].to_numpy()
                counts[0] += np.bincount(taken, minlength=classes)
                counts[1] += np.bincount(taken[scored["alarm"].to_numpy()], minlength=classes)
        try:
            os.replace(joined, target)
        except OSError as error:
            raise writing_failed(target, error) from error
        with suppress(OSError):  # the file is whole and in place; some file systems can't sync a folder
            sync(target.parent)
        return counts

    def _read(self, number: int) -> "pa.Table":
        import pyarrow.parquet as pq

        content = self._content(number)
        if content is None:
            raise SoftscopeError(
                f"{self._path(number)}: was damaged after it was written", "Run the command again to score it anew"
            )
        return pq.read_table(io.BytesIO(content))

    def _content(self, number: int) -> bytes | None:
        """The bytes of a part that this run wrote, None where there are none or others."""
        try:
            whole = existing_file(self._path(number)).read_bytes()
        except (OSError, SoftscopeError):
            return None
        digest, content = whole[:_DIGEST_BYTES], whole[_DIGEST_BYTES:]
        return content if digest == self._digest(number, content) else None

    def _digest(self, number: int, content: bytes) -> bytes:
        return hashlib.sha256(f"{self.key} {number} ".encode() + content).digest()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:09}.scores"


@contextmanager
def working_folder(target: Path) -> Iterator[Path]:
    """The hidden folder of the parts of `target`, held by this process alone.

    It goes when the work is done, and stays when it is interrupted, unless no part is there yet.
    """
    folder = target.parent / f".{target.name}.parts"
    with ExitStack() as holding:
        _hold(folder, target, holding)
        for leftover in folder.glob(".*.part"):  # of a process that was killed while it wrote
            leftover.unlink(missing_ok=True)
        try:
            yield folder
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            if not any(folder.glob("*.scores")):
                shutil.rmtree(folder, ignore_errors=True)


def _hold(folder: Path, target: Path, holding: ExitStack) -> None:
    """Make `folder` where it is missing and enter its lock into `holding`.

    Another process may have been done and have removed the folder in the meantime: then once more.
    """
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            holding.enter_context(locked(folder / "lock", wait=False))
        except TimeoutError:
            if not (folder / "lock").exists():
                continue
            what = f"{target}: another process is writing it"
            raise SoftscopeError(what, "Wait until it is done, or stop it") from None
        except OSError as error:
            raise writing_failed(target, error) from error
        if (folder / "lock").exists():
            return
        holding.close()
