"""The command `aisim-actors`: its exit codes and the lines about what went wrong.

It imports next to nothing before an interrupt is taken care of; the commands themselves are in `actors.commands`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in typing, which takes most of the time that an interrupt would hit
if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "aisim-actors"
SUCCESS, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
MOST_FINDINGS = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code. Every error is a line on standard error."""
    try:
        _stand_in_for_closed_streams()
        return _run(arguments)
    except KeyboardInterrupt:
        return _fail(INTERRUPTED, "interrupted")


def say(kind: str, text: str) -> None:
    """Print one line on standard error."""
    print(f"{kind}: {' '.join(text.splitlines())}", file=sys.stderr)


def _run(arguments: Sequence[str] | None) -> int:
    foreign = _foreign_package()
    if foreign is not None:
        return _fail(FAILED, foreign)
    import typer

    from actors.commands import app
    from messages.errors import InputError, ReplayError

    try:
        given = list(arguments) if arguments is not None else None
        code = int(app(args=given, prog_name=PROGRAM, standalone_mode=False) or SUCCESS)
        sys.stdout.flush()
    except typer.TyperException as error:
        return _fail(BAD_INPUT, f"{' '.join(error.format_message().split())} (see {PROGRAM} --help)")
    except InputError as error:
        return _fail(BAD_INPUT, *error.findings)
    except ReplayError as error:
        return _fail(FAILED, str(error))
    except typer.Abort:
        return _fail(INTERRUPTED, "interrupted")
    except BrokenPipeError:
        # The reader of standard output is gone; keep the interpreter from flushing into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        return _fail(FAILED, f"{type(error).__name__}: {error}")
    # An interrupt inside a command reaches this place as its exit code.
    return _fail(code, "interrupted") if code == INTERRUPTED else code


def _stand_in_for_closed_streams() -> None:
    """Let what is printed be lost where the caller closed standard output or error, as `>&-` does."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def _foreign_package() -> str | None:
    """Say which sibling package is missing or comes from elsewhere; None where all lie side by side."""
    import importlib.util
    from pathlib import Path

    home = Path(__file__).resolve().parent.parent
    for name in ("messages", "engines"):
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            return f"the package `{name}` of {PROGRAM} is missing beside {home / 'actors'}; install {PROGRAM} again"
        if Path(found.origin).resolve().parent.parent != home:
            return (
                f"{found.origin} is not the package `{name}` of {PROGRAM}; "
                f"install {PROGRAM} into a virtual environment of its own"
            )
    return None


def _fail(code: int, *findings: str) -> int:
    for finding in findings[:MOST_FINDINGS]:
        say("error", finding)
    if len(findings) > MOST_FINDINGS:
        say("error", f"and {len(findings) - MOST_FINDINGS} more findings")
    return code


if __name__ == "__main__":
    sys.exit(main())
