"""The program ``cumulet``: runs a command, and turns what it refuses into one line and an exit code."""

from __future__ import annotations

import contextlib
import errno
import gc
import sys

#: What the system says when there is no room for what a command prints.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main() -> None:
    """Run the command line; never returns."""
    # Everything that is imported stays: looking for garbage among it only makes the start longer.
    gc.disable()
    # structlog imports it where it is installed, to draw traces that our logs do not have; it takes a tenth of the start.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
    import click

    from cumulet.cli import cli
    from cumulet.errors import CumuletError, Refused
    from cumulet.exits import FAILED, NOT_WRITABLE

    try:
        cli.main(standalone_mode=False)
    except Refused as error:
        _say(error.message)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        # Who reads our output has gone, as "head" does.
        sys.stderr.close()
        sys.exit(FAILED)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _say(
            f"{error.filename or 'The output'} cannot be written: {error.strerror}. Make room and try again."
        )
        # What is left in the buffer cannot be written either.
        with contextlib.suppress(OSError):
            sys.stdout.close()
        sys.exit(NOT_WRITABLE)
    except CumuletError as error:
        _say(error.message)
        sys.exit(FAILED)
    sys.exit(0)


def _say(message: str) -> None:
    # What a library said may have several lines; a refusal has one.
    print(f"cumulet: {' '.join(message.split())}", file=sys.stderr)


if __name__ == "__main__":
    main()
