"""``argstream record``: what a provider sends, written down with its times, without keys."""

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from argstream.cli._input import UnreadableFile, chunks, complain, say_aside
from argstream.cli._interruptions import Interruptions
from argstream.cli._output import bytes_output, silence
from argstream.errors import UsageError
from argstream.recording import Recorder
from argstream.recording._secrets import secrets_of_environment
from argstream.recording.format import is_recording
from argstream.recording.proxy import Exchange, RecordingProxy
from argstream.sanitise import visible_line
from argstream.terminal.words import size

__all__ = ["record_pipe", "record_proxy"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def record_pipe(output: str, *, overwrite: bool, is_quiet: bool) -> int:
    """Record standard input into a file, and pass it on; or as a recording to standard output.

    Returns the exit status: 0 if all was recorded, 2 if something could not be read or written.
    """
    is_for_stdout = output in ("", "-")
    passing = None if is_for_stdout or is_quiet else _PassOn()
    recorder: Recorder | None = None
    try:
        recorder = Recorder(
            sys.stdout.buffer if is_for_stdout else output,
            overwrite=overwrite,
            secrets=secrets_of_environment(os.environ),
        )
    except FileExistsError:
        complain(f"{visible_line(output)} exists already: name another, or overwrite with --force")
        return 2
    except OSError as error:
        name = "standard output" if is_for_stdout else visible_line(output)
        complain(f"cannot write {name}: {error.strerror}")
        if passing is None or error.errno not in _FULL:
            return 2
    try:
        return _pass_all(passing) if recorder is None else _record(recorder, passing, output)
    except UnreadableFile as error:
        complain(str(error))
        return 2


def _pass_all(passing: "_PassOn | None") -> int:
    for chunk in _arriving():
        if passing is not None:
            passing.write(chunk)
    return 2


def _record(recorder: Recorder, passing: "_PassOn | None", output: str) -> int:
    status = 0
    with recorder:
        for number, chunk in enumerate(_arriving()):
            if number == 0 and is_recording(chunk):
                recorder.discard()
                complain("this is already a recording: for its bytes, use argstream replay --raw")
                return 2
            if status == 0:
                status = _write(recorder, chunk, output)
                if status and passing is None:
                    break
            if passing is not None:
                passing.write(chunk)
    if recorder.removed:
        complain(f"what looks like a key of the environment was removed {_times(recorder.removed)}")
    return status


def _write(recorder: Recorder, chunk: bytes, output: str) -> int:
    try:
        recorder.write(chunk)
    except OSError as error:
        if output in ("", "-"):
            raise
        complain(f"cannot write {visible_line(output)}, it ends here: {error.strerror}")
        return 2
    return 0


def _arriving() -> Iterator[bytes]:
    return chunks("-", "waiting for a provider's stream on standard input")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


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
            silence(sys.stdout)
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
            secrets=secrets_of_environment(os.environ),
            on_exchange=_tell,
        )
        with Interruptions() as interruptions, proxy:
            print(_greeting(proxy), flush=True)  # noqa: T201 - this is what it is for
            interruptions.wait()  # the proxy has threads of its own
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
        *([f"(removed {_times(exchange.removed)})"] if exchange.removed else []),
        *([f"({exchange.problem})"] if exchange.problem else []),
    ]
    say_aside(visible_line("  ".join(words)))
