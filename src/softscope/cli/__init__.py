"""The command line. Files here parse words and call; they compute nothing and import heavy things inside functions."""

import io
import sys
from typing import Any

_INTERRUPTED = "interrupted; nothing was left half-written"
_NO_MEMORY = "not enough memory. Use a machine with more, or fewer features or classes: K covariances are H x H each"


def main() -> None:
    """Entry point: run the command; what goes wrong is one line on stderr and an exit code, never a traceback."""
    from ..errors import SoftscopeError

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files that no text can hold
    try:
        import typer

        from .app import app

        try:
            sys.exit(app(standalone_mode=False) or 0)
        except typer.Abort:
            raise KeyboardInterrupt from None
        except _usage_error() as error:
            sys.exit(_misused(error))
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
        sys.exit(_complain(_NO_MEMORY, 2))
    except OSError as error:  # a disk or network that fails where no better message was possible
        sys.exit(_complain(str(error), 2))


def _misused(error: Any) -> int:
    """A command without any word shows its help; words that can't be parsed are one line."""
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message(), file=sys.stderr)
        return 2
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    return _complain(f"{message}. See {error.ctx.command_path if error.ctx else 'softscope'} --help", 2)


def _usage_error() -> Any:
    """typer's exception for words it can't parse, wherever this version keeps it."""
    import typer

    return typer.BadParameter.__base__


def _complain(message: str, code: int) -> int:
    from ..errors import printable

    print(f"softscope: {printable(' '.join(message.split()))}", file=sys.stderr)
    return code
