"""Commands without an agent: ``watch``, ``lint``, ``record``, ``replay``, ``mock``, calls as JSON.

Imports stand inside of functions, since each command needs something else and should start fast.

Each function returns the exit status. ``main`` handles errors: they exit with 2.
"""

import contextlib
import errno
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Final

import msgspec
import typer

from argstream.cli._commands import LintScope
from argstream.cli._io import (
    Interruptions,
    UnreadableFileError,
    bytes_output,
    chunks,
    complain,
    recording_in,
    say,
    say_aside,
    silence,
)
from argstream.cli._setup import NO_RULES, Rules, Shown, read_rules
from argstream.errors import UsageError
from argstream.events import RunFailed, StreamFailed
from argstream.providers import ProtocolName
from argstream.recording._format import is_recording
from argstream.sanitise import visible_line
from argstream.terminal._text import count, size

if TYPE_CHECKING:
    from argstream.assembly import Call
    from argstream.checks import Check
    from argstream.jsonstream import Fragment
    from argstream.recording import Recorder
    from argstream.recording.proxy import Exchange, RecordingProxy
    from argstream.testing import Fault, MockProvider, ReceivedRequest
    from argstream.validation import ToolSpec
    from argstream.validation.lint import Finding

_WAITING: Final = "waiting for a provider's stream on standard input …"
_PACE: Final = 0.03  # seconds for each event of a stream without times, as of the mock provider
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_WIDTH: Final = 79
_INDENT: Final = " " * 12
_REASONS: Final = {
    "order": (
        "Models write arguments in order. Put the ones a decision depends on first, so approval"
        " and policy checks don't wait for long text."
    ),
    "late": "A wrong call is rejected at the first wrong character, except for these rules.",
}


def watch_stream(
    file: str,
    protocol: ProtocolName,
    *,
    as_json: bool,
    tools: str | None = None,
    policy: str | None = None,
) -> int:
    """Show a file, or standard input for "-", as it arrives."""
    from argstream.terminal import file_reader

    return show_stream(
        chunks(file, _WAITING),
        protocol,
        as_json=as_json,
        rules=read_rules(tools, policy),
        # A recording may be about files as they were long ago; what arrives is about now.
        read_file=file_reader(Path.cwd()) if file == "-" else None,
    )


def show_stream(
    source: Iterable[bytes],
    protocol: ProtocolName,
    *,
    as_json: bool,
    rules: Rules = NO_RULES,
    read_file: Callable[[str], str | None] | None = None,
) -> int:
    """Show what arrives, for people or as JSON. Return 0 if all is well, else 1.

    With ``read_file``, edits are shown inside of the files that they change.
    """
    from argstream.streaming import stream
    from argstream.terminal import ToolViews

    looks = ToolViews(tools=rules.tools or (), read_file=read_file)
    with Shown(looks, as_json=as_json) as shown:
        for event in stream(source, protocol, rules.tools, rules.policy, on_ask="report"):
            shown.show(event)
    return shown.status()


def print_calls(
    files: list[str], protocol: ProtocolName, tools: str | None, policy: str | None
) -> int:
    """Print the calls of each file. If a file cannot be read, go on with the next one."""
    from argstream.streaming import make_check

    check = make_check(*read_rules(tools, policy), on_ask="report")
    status = 0
    for file in files:
        try:
            status = max(status, _print_calls_of(file, protocol, check))
        except UnreadableFileError as error:
            complain(visible_line(str(error)))
            status = 2
    return status


def print_fragments(file: str) -> int:
    """Parse JSON and print the fragments of each chunk as it arrives."""
    from argstream.jsonstream import Limits, Parser

    # Users may parse files of any size: the memory is their own.
    parser = Parser(Limits(max_chars=sys.maxsize))
    for chunk in chunks(file, "type JSON, then press Ctrl-D on an empty line"):
        _write_fragments(parser.feed(chunk))
        if parser.error is not None:
            break
    _write_fragments(parser.close())
    if parser.error is None:
        return 0
    complain(f"{parser.verdict}, in {json.dumps(parser.error.path)}: {parser.error.message}")
    return 1


def _print_calls_of(file: str, protocol: ProtocolName, check: "Check | None") -> int:
    from argstream.streaming import stream

    events = stream(chunks(file, _WAITING), protocol, check=check, stop_on="never")
    status = 0
    for event in events:
        if isinstance(event, StreamFailed | RunFailed):
            complain(f"{visible_line(file)}: {visible_line(event.message)}")
            status = 1
    for call in events.calls:
        _write(_call_line(file, call))
        if call.verdict != "complete":
            complain(f"{visible_line(file)}: the call {visible_line(call.id)} is {call.verdict}")
            status = 1
    sys.stdout.flush()
    return status


def _call_line(file: str, call: "Call") -> dict[str, object]:
    line: dict[str, object] = {
        "file": file,
        "id": call.id,
        "name": call.name,
        "kind": call.kind,
        "verdict": call.verdict,
    }
    if call.reinterpreted is not None:
        line["reinterpreted"] = call.reinterpreted
    if call.verdict == "complete":
        line["arguments"] = call.arguments
    else:
        line["raw"] = call.raw
    if call.policy_decision is not None:
        line["policy_decision"] = msgspec.to_builtins(call.policy_decision)
    if call.verdict == "rejected" and call.error is not None:
        line["error"] = call.error.message
    return line


def _write_fragments(fragments: "list[Fragment]") -> None:
    for fragment in fragments:
        _write({"fragment": type(fragment).__name__.lower(), **fragment._asdict()})
    sys.stdout.flush()


def _write(line: dict[str, object]) -> None:
    """Write a line of printable ASCII: no text in it can act on a terminal."""
    try:
        text = json.dumps(line, allow_nan=False)
    except ValueError:
        # Infinity is a number too large for a float. JSON has no word for it, but 1e999.
        text = re.sub(
            r'("(?:[^"\\]|\\.)*")|Infinity', lambda token: token[1] or "1e999", json.dumps(line)
        )
    sys.stdout.write(text + "\n")


def lint_files(files: Sequence[str], scope: LintScope, *, as_json: bool) -> int:
    """Print the findings of each file. A file that cannot be read does not stop the others."""
    from argstream.validation.lint import lint

    status = 0
    codes: set[str] = set()
    for file in files:
        try:
            tools = _tools(file)
            findings = [
                one for one in lint(tools) if scope == "all" or one.code in (scope, "unusable")
            ]
        except UnreadableFileError as error:
            complain(visible_line(str(error)))
            status = 2
            continue
        if as_json:
            _write_lines(file, findings)
        else:
            _show(file, tools, findings)
        codes |= {finding.code for finding in findings}
        status = max(status, 1 if findings else 0)
    for code, reason in _REASONS.items():
        if code in codes and not as_json:
            _print("")
            for line in wrap(f"{code}: {reason}", _WIDTH):
                _print(typer.style(line, dim=True))
    sys.stdout.flush()
    return status


def _tools(file: str) -> "list[ToolSpec]":
    from argstream.validation import tool_specs

    data = b"".join(chunks(file, "waiting for tools on standard input …"))
    try:
        content = json.loads(data)
        if not isinstance(content, list | dict):
            raise UnreadableFileError(file, "expected a list of tools, or a request with tools")
        return tool_specs(content)
    except UnreadableFileError:
        raise
    except RecursionError as error:
        raise UnreadableFileError(file, "nested too deeply") from error
    except UsageError as error:
        raise UnreadableFileError(file, str(error)) from error
    except ValueError as error:
        raise UnreadableFileError(file, f"not valid JSON: {error}") from error


def _write_lines(file: str, findings: "Sequence[Finding]") -> None:
    for finding in findings:
        line = {"file": file, **msgspec.structs.asdict(finding), "severity": finding.severity}
        sys.stdout.write(json.dumps(line) + "\n")


def _show(file: str, tools: "Sequence[ToolSpec]", findings: "Sequence[Finding]") -> None:
    found = count(len(findings), "finding") if findings else "no findings"
    _print(f"{visible_line(file)}: {count(len(tools), 'tool')}, {found}")
    for tool, group in groupby(findings, lambda finding: finding.tool):
        _print(f"\n● {typer.style(visible_line(tool), bold=True)}")
        for finding in group:
            colour = "red" if finding.severity == "error" else "yellow"
            mark = typer.style(f"  {finding.code:<{len(_INDENT) - 2}}", fg=colour)
            for line in wrap(visible_line(finding.message), _WIDTH - len(_INDENT)):
                _print(mark + line)
                mark = _INDENT
            order = visible_line(", ".join(finding.suggestion))
            for index, line in enumerate(wrap(order, _WIDTH - len(_INDENT) - 2)):
                _print(f"{_INDENT}{'  ' if index else '→ '}{typer.style(line, bold=True)}")


def _print(text: str) -> None:
    # None: in colour if it is a terminal.
    typer.echo(text, color=False if os.environ.get("NO_COLOR") else None)


def record_pipe(output: str, *, overwrite: bool, is_quiet: bool) -> int:
    """Record standard input into a file, and pass it on; or as a recording to standard output."""
    from argstream.recording import Recorder
    from argstream.recording._recorder import secrets_of_environment

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
        complain(f"{visible_line(output)} already exists. Name another file, or use --force")
        return 2
    except OSError as error:
        if is_for_stdout:
            silence(sys.stdout)
        name = "standard output" if is_for_stdout else visible_line(output)
        complain(f"cannot write {name}: {error.strerror}")
        if passing is None or error.errno not in _FULL:
            return 2
    if recorder is not None:
        return _record(recorder, passing, output)
    for chunk in chunks("-", _WAITING):
        if passing is not None:
            passing.write(chunk)
    return 2


def _record(recorder: "Recorder", passing: "_PassOn | None", output: str) -> int:
    status = 0
    with recorder:
        for number, chunk in enumerate(chunks("-", _WAITING)):
            if number == 0 and is_recording(chunk):
                recorder.discard()
                complain("this is a recording already. Use argstream replay --raw for its bytes")
                return 2
            if status == 0:
                status = _write_chunk(recorder, chunk, output)
                if status and passing is None:
                    break
            if passing is not None:
                passing.write(chunk)
    if recorder.removed:
        complain(f"removed values that look like keys of the environment: {recorder.removed}")
    return status


def _write_chunk(recorder: "Recorder", chunk: bytes, output: str) -> int:
    try:
        recorder.write(chunk)
    except OSError as error:
        if output in ("", "-"):
            raise
        complain(f"{visible_line(output)} is incomplete: cannot write ({error.strerror})")
        return 2
    return 0


class _PassOn:
    """Passes bytes on as tee does. A closed output is no reason to stop recording."""

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
            complain(f"standard output failed ({error.strerror}). The recording continues")


def record_proxy(url: str, directory: str, *, port: int, with_request: bool) -> int:
    """Record each response of a provider as a proxy, until it is interrupted."""
    from argstream.recording._recorder import secrets_of_environment
    from argstream.recording.proxy import RecordingProxy

    if Path(directory).suffix == ".rec" and not Path(directory).is_dir():
        complain("the proxy writes a file for each response. Pass a directory with -o")
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
            say(_proxy_greeting(proxy))
            interruptions.wait()  # the proxy has threads of its own
    except KeyboardInterrupt:
        return 130


def _proxy_greeting(proxy: "RecordingProxy") -> str:
    upstream, directory = visible_line(proxy.upstream.url), visible_line(str(proxy.directory))
    return (
        f"Recording proxy at {proxy.url} (Ctrl-C stops it). It forwards requests to {upstream}\n"
        f"and writes each response to {directory}/, without keys. Use it as the base URL:\n\n"
        f'  anthropic.Anthropic(base_url="{proxy.url}")\n'
        f'  openai.OpenAI(base_url="{proxy.url}/v1")\n'
    )


def _tell(exchange: "Exchange") -> None:
    words = [
        f"{exchange.method} {exchange.path} {exchange.status}",
        size(exchange.bytes),
        f"{exchange.seconds:.2f} s",
        *([str(exchange.file)] if exchange.file is not None else []),
        *([f"({count(exchange.removed, 'secret')} removed)"] if exchange.removed else []),
        *([f"({exchange.problem})"] if exchange.problem else []),
    ]
    say_aside(visible_line("  ".join(words)))


def speed_factor(speed: str) -> float | None:
    """Return the factor of ``--speed``; None, after a complaint, if it is not valid."""
    try:
        factor = math.inf if speed == "max" else float(speed)
    except ValueError:
        factor = 0.0
    if factor > 0:
        return factor
    complain(f"--speed must be a number greater than 0, or max, not {visible_line(speed)}")
    return None


def replay_file(
    file: str, factor: float, protocol: ProtocolName, *, as_json: bool, is_raw: bool
) -> int:
    """Play a recording, or a provider's plain stream, as ``watch`` shows it, or its bytes."""
    from argstream.recording._recording import waiting

    recording = recording_in(file, _PACE)
    if not recording.has_times and not math.isinf(factor):
        complain(
            f"{visible_line(file)} is not a recording and has no times. "
            f"Each event takes {_PACE / factor:.3g} s"
        )
    with Interruptions() as interruptions:
        if is_raw:
            return _write_played(recording.play(factor, sleep=interruptions.sleep))
        timed = waiting(recording.lines(), factor, interruptions.sleep)
        return show_stream((line for _, line in timed), protocol, as_json=as_json)


def _write_played(played: Iterable[bytes]) -> int:
    write = bytes_output()
    try:
        for data in played:
            write(data)
    except ConnectionError as error:
        if error.errno is not None:  # not of the recording: the output is closed
            raise
        complain(visible_line(str(error)))
        return 1
    return 0


def serve_mock(file: str, *, port: int, pace: float, faults: Iterable[str], is_timed: bool) -> int:
    """Serve a script or a recording, or an example for "", until it is interrupted.

    ``pace`` is the seconds between two events, unless ``is_timed`` sends them as recorded.
    """
    from argstream.testing import Slow
    from argstream.testing._replies import parse_fault

    try:
        made: list[Fault] = [Slow(between=pace), *map(parse_fault, faults)]
        provider = _provider(file, port, made, is_timed=is_timed)
        with Interruptions() as interruptions, provider:
            say(_mock_greeting(provider))
            interruptions.wait()  # the server has threads of its own
    except KeyboardInterrupt:
        return 130


def _provider(file: str, port: int, faults: "Sequence[Fault]", *, is_timed: bool) -> "MockProvider":
    from argstream.testing import MockProvider
    from argstream.testing._replies import EXAMPLE, parse_script

    try:
        data = Path(file).read_bytes() if file else None
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    if is_timed:
        if data is None:
            raise UsageError("--timed needs a recording. Pass the file of one")
        return MockProvider.replaying(data, timed=True, port=port, on_request=_log)
    if data is None or _is_script(data):
        replies = EXAMPLE if data is None else parse_script(data)
        return MockProvider(replies, repeat=True, faults=faults, port=port, on_request=_log)
    return MockProvider.replaying(data, faults=faults, port=port, on_request=_log)


def _is_script(data: bytes) -> bool:
    """Return whether it is one document with replies, or was meant to be."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return b'"replies"' in data[:100]
    return isinstance(document, dict) and "replies" in document


def _mock_greeting(provider: "MockProvider") -> str:
    return (
        f"Mock provider at {provider.url} (Ctrl-C stops it). It accepts any key:\n\n"
        f'  anthropic.Anthropic(base_url="{provider.anthropic_url}", api_key="any")\n'
        f'  openai.OpenAI(base_url="{provider.openai_url}", api_key="any")\n'
    )


def _log(request: "ReceivedRequest") -> None:
    words = [str(request.status), request.method, request.path]
    if request.is_streamed:
        words.append("streamed")
    words += [f"- {problem}" for problem in request.problems]
    with contextlib.suppress(OSError):  # a closed output does not stop the responses
        say(visible_line(" ".join(words)))
