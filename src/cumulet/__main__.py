"""The program ``cumulet``: runs a command, and turns what it refuses into one line and an exit code."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line; never returns."""
    # Everything that is imported stays: looking for garbage among it only makes the start longer.
    gc.disable()
    # structlog imports it where it is installed, to draw traces that our logs do not have; it takes a tenth of the start.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
    import click

    from cumulet.cli import cli
    from cumulet.errors import CumuletError, Refused
    from cumulet.exits import FAILED

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
    except CumuletError as error:
        _say(error.message)
        sys.exit(FAILED)
    sys.exit(0)


def _say(message: str) -> None:
    # What a library said may have several lines; a refusal has one.
    print(f"cumulet: {' '.join(message.split())}", file=sys.stderr)


if __name__ == "__main__":
    main()
