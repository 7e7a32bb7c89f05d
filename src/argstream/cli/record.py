"""``argstream record``: what a provider sends, written down with its times, without keys."""

import contextlib
import os
import sys
import time
from pathlib import Path

from argstream.cli._input import UnreadableFile, chunks, complain
from argstream.cli._output import bytes_output, size
from argstream.errors import UsageError
from argstream.recording import Recorder
from argstream.recording.proxy import Exchange, RecordingProxy
from argstream.sanitise import visible_line

__all__ = ["record_pipe", "record_proxy"]

# How the names of environment variables end whose values must not be written down.
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")


def record_pipe(output: str, *, overwrite: bool, is_quiet: bool) -> int:
    """Record standard input into a file, and pass it on; or as a recording to standard output.

    Returns the exit status: 0 if all was recorded, 2 if something could not be read or written.
    """
    is_for_stdout = output in ("", "-")
    try:
        recorder = Recorder(
            sys.stdout.buffer if is_for_stdout else output,
            overwrite=overwrite,
            secrets=_known_secrets(),
        )
    except FileExistsError:
        complain(f"{visible_line(output)} exists already: name another, or overwrite with --force")
        return 2
    except OSError as error:
        complain(f"cannot write {visible_line(output)}: {error.strerror}")
        return 2
    passing = None if is_for_stdout or is_quiet else _PassOn()
    try:
        with recorder:
            return _record(recorder, passing, output)
    except UnreadableFile as error:
        complain(str(error))
        return 2


def _record(recorder: Recorder, passing: "_PassOn | None", output: str) -> int:
    status = 0
    for chunk in chunks("-", "waiting for a provider's stream on standard input"):
        if status == 0:
            try:
                recorder.write(chunk)
            except OSError as error:
                if output in ("", "-"):
                    raise
                complain(f"cannot write {visible_line(output)}, it ends here: {error.strerror}")
                status = 2
                if passing is None:
                    break
        if passing is not None:
            passing.write(chunk)
    return status


class _PassOn:
    """Passes bytes on as tee does; if nobody reads them any more, that is no reason to stop."""

    def __init__(self) -> None:
        self._write = bytes_output()
        self._is_over = False

    def write(self, chunk: bytes) -> None:
        if self._is_over:
            return
        try:
            self._write(chunk)
        except OSError as error:
            self._is_over = True
            # What is left in the buffer goes nowhere, or Python would try again at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            complain(f"cannot pass on more ({error.strerror}), but the recording goes on")


def record_proxy(url: str, directory: str, *, port: int, with_request: bool) -> int:
    """Stand between clients and a provider, and record each answer, until it is interrupted.

    Returns the exit status: 130 when it was interrupted, 2 if it cannot start.
    """
    if Path(directory).suffix == ".rec" and not Path(directory).is_dir():
        complain("the proxy writes a file for each answer: name a directory with -o")
        return 2
    try:
        proxy = RecordingProxy(
            url,
            directory,
            port=port,
            with_request=with_request,
            secrets=_known_secrets(),
            on_exchange=_tell,
        )
        with proxy:
            print(_greeting(proxy), flush=True)  # noqa: T201 - this is what it is for
            while True:
                time.sleep(3600)  # the proxy has threads of its own
    except UsageError as error:
        complain(visible_line(str(error)))
        return 2
    except KeyboardInterrupt:
        return 130


def _greeting(proxy: RecordingProxy) -> str:
    upstream, directory = visible_line(proxy.upstream.url), visible_line(str(proxy.directory))
    return (
        f"A recording proxy at {proxy.url}, until Ctrl-C. It passes on to {upstream}\n"
        f"and writes each answer into {directory}/, without keys. Use it as the base URL:\n\n"
        f'  anthropic.Anthropic(base_url="{proxy.url}")\n'
        f'  openai.OpenAI(base_url="{proxy.url}/v1")\n'
    )


def _tell(exchange: Exchange) -> None:
    words = [
        f"{exchange.method} {exchange.path} {exchange.status}",
        size(exchange.bytes),
        f"{exchange.seconds:.2f} s",
        *([str(exchange.file)] if exchange.file is not None else []),
        *([f"({exchange.problem})"] if exchange.problem else []),
    ]
    with contextlib.suppress(OSError):  # who reads no longer gets no lines, but is still recorded
        print(visible_line("  ".join(words)), file=sys.stderr, flush=True)  # noqa: T201 - as above


def _known_secrets() -> list[str]:
    """Give the keys that the environment has: a provider may repeat them in an error."""
    return [value for name, value in os.environ.items() if name.upper().endswith(_SECRET)]
