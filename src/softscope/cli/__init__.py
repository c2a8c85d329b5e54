"""The command line. Files here parse words and call; they compute nothing and import heavy things inside functions."""

import sys


def main() -> None:
    """Entry point: run the command; what goes wrong is one line on stderr and an exit code, never a traceback."""
    from ..errors import SoftscopeError

    try:
        from .app import app

        app()
    except SoftscopeError as error:
        sys.exit(_complain(str(error), 2))
    except KeyboardInterrupt:
        sys.exit(_complain("interrupted; nothing was left half-written", 130))
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except MemoryError:
        sys.exit(_complain("not enough memory. Give fewer rows, or use a machine with more", 2))
    except OSError as error:  # a disk or network that fails where no better message was possible
        sys.exit(_complain(str(error), 2))


def _complain(message: str, code: int) -> int:
    print(f"softscope: {' '.join(message.split())}", file=sys.stderr)
    return code
