"""The ``argstream`` command. ``main`` turns exceptions into messages and exit statuses."""

import errno
import sys

from argstream.errors import ArgstreamError

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> None:
    """Run the command line, and exit with its status."""
    try:
        sys.exit(_run())
    except KeyboardInterrupt:  # no command has handled it
        sys.exit(_INTERRUPTED)


def _run() -> int:
    from argstream.cli._commands import CommandLineError, run_command

    if sys.stdout is None:
        return _complain("standard output is closed")
    try:
        return run_command(sys.argv[1:])
    except (ArgstreamError, CommandLineError) as error:
        return _complain(str(error))
    except OSError as error:
        from argstream.cli._io import silence

        silence(sys.stdout)
        if error.errno == errno.EPIPE:  # the reader has seen enough
            return 1
        # The output cannot be written; and 1 would mean that something is wrong with the input.
        return _complain(f"cannot write the output: {error.strerror}")


def _complain(message: str) -> int:
    from argstream.cli._io import complain
    from argstream.sanitise import visible_line

    complain(visible_line(message))
    return 2
