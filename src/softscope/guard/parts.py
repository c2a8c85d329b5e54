"""Part files: a long table in the making, of which a killed process loses only the batch under way.

Each batch becomes a parquet file that is whole or absent and sealed: its footer says what made it (run and number), and
its sha256, so that only parts of the same run, unchanged, are taken up. `softscope score` leaves its parts as they are,
a folder that reads as one table. Here they lie in a hidden folder beside the output; when all are there they are joined
into it, atomically, and the folder goes.
"""

import hashlib
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SoftscopeError
from ..files import atomic_path, existing_file, sync, write_bytes, writing_failed
from ..locks import locked

if TYPE_CHECKING:
    import pyarrow as pa

_SEAL = "softscope.unit"
_BLANK = 64 * "0"


def sealed(table: "pa.Table", name: str, *, group_rows: int | None = None, **options: Any) -> bytes:
    """`table` as a parquet file; its footer holds `name` and the sha256 of every other byte of the file."""
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    with pq.ParquetWriter(stream, table.schema, write_page_checksum=True, **options) as writer:
        writer.write_table(table, row_group_size=group_rows)
        writer.add_key_value_metadata({_SEAL: f"{name} {_BLANK}"})
    before, _, after = _at_seal(stream.getvalue(), name)
    return b"".join([before, _digest(before, after), after])


def unsealed(content: bytes, name: str) -> "pa.Table | None":
    """The table that was sealed under this `name`; None where the content is that of another or has changed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    before, digest, after = _at_seal(content, name)
    return pq.read_table(pa.BufferReader(content)) if digest == _digest(before, after) else None


def _at_seal(content: bytes, name: str) -> tuple[bytes, bytes, bytes]:
    """What stands before the sha256, which follows the last mention of the name; the sha256; and what follows it."""
    before, mark, after = content.rpartition(f"{name} ".encode())
    return before + mark, after[: len(_BLANK)], after[len(_BLANK) :]


def _digest(before: bytes, after: bytes) -> bytes:
    whole = hashlib.sha256(before)
    whole.update(after)
    return whole.hexdigest().encode()


class Parts:
    """The `count` part files of the run `key`, in a folder."""

    def __init__(self, folder: Path, key: str, count: int) -> None:
        self.folder, self.key, self.count = folder, key, count

    def done(self) -> int:
        """How many parts are there, from the first on without a gap."""
        return next((number for number in range(self.count) if self._read(number) is None), self.count)

    def write(self, number: int, table: "pa.Table") -> None:
        """Write one part, atomically."""
        write_bytes(self._path(number), sealed(table, self._name(number)))

    def joined_into(self, target: Path) -> Iterator["pa.Table"]:
        """Write all parts as one file, a row group each, atomically when the last of them was taken."""
        import pyarrow.parquet as pq

        joined = self.folder / "joined"  # made in here, so that a killed process leaves nothing beside the output
        with (
            atomic_path(joined) as temporary,
            open(temporary, "wb") as file,
            pq.ParquetWriter(file, self._sound(0).schema, write_page_checksum=True) as writer,
        ):
            for number in range(self.count):
                table = self._sound(number)
                writer.write_table(table, row_group_size=len(table))
                yield table
        try:
            os.replace(joined, target)
        except OSError as error:
            raise writing_failed(target, error) from error
        with suppress(OSError):  # the file is whole and in place; some file systems can't sync a folder
            sync(target.parent)

    def _sound(self, number: int) -> "pa.Table":
        table = self._read(number)
        if table is None:
            raise SoftscopeError(
                f"{self._path(number)}: was damaged after it was written", "Run the command again to score it anew"
            )
        return table

    def _read(self, number: int) -> "pa.Table | None":
        """A part that this run wrote, None where there is none or another."""
        try:
            return unsealed(existing_file(self._path(number)).read_bytes(), self._name(number))
        except (OSError, SoftscopeError):
            return None

    def _name(self, number: int) -> str:
        return f"{self.key} {number}"

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
