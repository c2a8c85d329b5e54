"""The command line. Files here parse words and call; they compute nothing and import heavy things inside functions."""

import sys

_INTERRUPTED = "interrupted; nothing was left half-written"


def main() -> None:
    """Entry point: run the command; what goes wrong is one line on stderr and an exit code, never a traceback."""
    from ..errors import SoftscopeError

    try:
        from .app import app

        app()
    except SoftscopeError as error:
        sys.exit(_complain(str(error), 2))
    except KeyboardInterrupt:
        sys.exit(_complain(_INTERRUPTED, 130))
    except SystemExit as stop:
        if stop.code == 130:  # typer turns Ctrl-C inside a command into this
            _complain(_INTERRUPTED, 130)
        raise
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
