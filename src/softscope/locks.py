"""One lock for a piece of work that processes share: released by the system when its holder dies, however it dies."""

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from .files import writing_failed

# What file systems without locks answer (some network folders).
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_log = logging.getLogger(__name__)


@contextmanager
def locked(path: str | os.PathLike[str], *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock file `path`; True if this process is alone, False where the file system has no locks.

    The file stays: removing it could let two processes hold two files of one name. A lock that depends on the file
    alone is not used, because it would outlive a killed process. Without `wait` a lock that another process holds is
    a TimeoutError.
    """
    lock, alone = FileLock(path, fallback_to_soft=False), True
    try:
        try:
            lock.acquire(blocking=False)
        except Timeout:
            if not wait:
                raise
            _log.info("%s: another process is at this step, waiting", path)
            lock.acquire()
    except TimeoutError:
        raise
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise writing_failed(Path(path), error) from error
        alone = False
    try:
        yield alone
    finally:
        lock.release()
