"""Commands without an agent: ``watch``, ``lint``, ``record``, ``replay``, ``mock``, calls as JSON.

Imports stand inside of functions, since each command needs something else and should start fast.
"""

import contextlib
import errno
import json
import math
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from argstream.cli._commands import RUN, LintScope, refuse, say
from argstream.cli._io import (
    Interruptions,
    UnreadableFileError,
    bytes_output,
    chunks,
    complain,
    recording_in,
    say_aside,
    silence,
)
from argstream.cli._setup import Shown, policy_in, print_lines, tools_in
from argstream.errors import UsageError
from argstream.events import RunFailed, StreamFailed
from argstream.providers import ProtocolName
from argstream.recording._format import is_recording
from argstream.sanitise import visible_line
from argstream.terminal._text import Line, Span, Spans, count, line, shown, size

if TYPE_CHECKING:
    from argstream.assembly import Call
    from argstream.checks import Check
    from argstream.jsonstream import Fragment
    from argstream.policy import Policy
    from argstream.recording import Recorder
    from argstream.recording.proxy import Exchange, RecordingProxy
    from argstream.testing import Fault, MockProvider, ReceivedRequest
    from argstream.validation import ToolSpec
    from argstream.validation.lint import Finding

_WAITING: Final = "waiting for a provider's stream on standard input …"
_PACE: Final = 0.03  # seconds for each event of a stream without times, as of the mock provider
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REASONS: Final = {
    "order": (
        "Models write arguments in order. Put the ones a decision depends on first, so approval"
        " and policy checks don't wait for long text."
    ),
    "late": "A wrong call is rejected at the first wrong character, except for these rules.",
}


def watch(given: Namespace) -> int:
    """Show a file, or standard input for "-", as it arrives; or follow a run."""
    if given.file.startswith(RUN):
        is_for_streams = given.tools or given.policy or given.protocol != "auto"
        refuse(is_for_streams, "--from, --tools and --policy are for streams, not for runs")
        from argstream.cli._runs import replay_run

        return replay_run(given, math.inf, follow=True)
    refuse(given.store, "--store is for runs: argstream watch run:ID")
    from argstream.terminal import file_reader

    return show_stream(
        chunks(given.file, _WAITING),
        given,
        tools=tools_in(given.tools),
        policy=policy_in(given.policy),
        # A recording may be about files as they were long ago; what arrives is about now.
        read_file=file_reader(Path.cwd()) if given.file == "-" else None,
        timed=not Path(given.file).is_file(),  # a pipe may have a name
    )


def show_stream(
    source: Iterable[bytes],
    given: Namespace,
    *,
    tools: "list[ToolSpec] | None" = None,
    policy: "Policy | None" = None,
    read_file: Callable[[str], str | None] | None = None,
    timed: bool = True,
) -> int:
    """Show what arrives, for people or as JSON. Return 0 if all is well, else 1.

    With ``read_file``, edits are shown inside of the files that they change. Without ``timed``, no
    durations are shown: the source did not arrive just now.
    """
    from argstream.streaming import stream
    from argstream.terminal import ToolViews

    views = ToolViews(tools=tools or (), read_file=read_file)
    with Shown(views, as_json=given.json, full=given.full, timed=timed) as shown:
        for event in stream(source, given.protocol, tools, policy, on_ask="report"):
            shown.show(event)
    return shown.status()


def print_calls(given: Namespace) -> int:
    """Print the calls of each file. If a file cannot be read, go on with the next one."""
    from argstream.streaming import make_check

    check = make_check(tools_in(given.tools), policy_in(given.policy), on_ask="report")
    status = 0
    for file in given.file:
        try:
            status = max(status, _print_calls_of(file, given.protocol, check))
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
    line: dict[str, object] = {"file": file, "id": call.id, "name": call.name}
    line |= {"kind": call.kind, "verdict": call.verdict}
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


def lint_files(given: Namespace) -> int:
    """Print the findings of each file. A file that cannot be read does not stop the others."""
    from argstream.validation.lint import lint

    status = 0
    codes: set[str] = set()
    scope: LintScope = given.only
    for file in given.file:
        try:
            tools = _tools(file)
            findings = [
                one for one in lint(tools) if scope == "all" or one.code in (scope, "unusable")
            ]
        except UnreadableFileError as error:
            complain(visible_line(str(error)))
            status = 2
            continue
        if not given.json:
            _show(file, tools, findings)
        for one in findings if given.json else ():
            _write({"file": file, **msgspec.structs.asdict(one), "severity": one.severity})
        codes |= {finding.code for finding in findings}
        status = max(status, 1 if findings else 0)
    for code, reason in _REASONS.items():
        if code in codes and not given.json:
            print_lines([(), line(Span(f"{code}: {reason}", "faint"))])
    sys.stdout.flush()
    return status


def _tools(file: str) -> "list[ToolSpec]":
    from argstream.validation import tool_specs

    data = b"".join(chunks(file, "waiting for tools on standard input …"))
    try:
        content = json.loads(data)
        if not isinstance(content, list | dict):
            raise UsageError("expected a list of tools, or a request with tools")
        return tool_specs(content)
    except RecursionError as error:
        raise UnreadableFileError(file, "nested too deeply") from error
    except UsageError as error:
        raise UnreadableFileError(file, str(error)) from error
    except ValueError as error:
        raise UnreadableFileError(file, f"not valid JSON: {error}") from error


def _show(file: str, tools: "Sequence[ToolSpec]", findings: "Sequence[Finding]") -> None:
    found = count(len(findings), "finding") if findings else "no findings"
    lines: list[Line | Spans] = [(shown(f"{file}: {count(len(tools), 'tool')}, {found}"),)]
    for tool, group in groupby(findings, lambda finding: finding.tool):
        lines += [line(""), line("● ", shown(tool, "strong"))]
        for finding in group:
            mark = Span(
                f"  {finding.code:<10}", "bad" if finding.severity == "error" else "warning"
            )
            lines.append(line(shown(finding.message), margin=(mark,)))
            if finding.suggestion:
                order = shown(", ".join(finding.suggestion), "strong")
                lines.append(line(order, margin=(Span(" " * 12 + "→ "),)))
    print_lines(lines)


def record(given: Namespace) -> int:
    """Record a pipe, or a provider's responses as a proxy."""
    is_for_pipes, is_for_proxies = given.force or given.quiet, given.port or given.with_request
    refuse(given.proxy and is_for_pipes, "--force and --quiet are not for --proxy")
    refuse(not given.proxy and is_for_proxies, "--port and --with-request are for --proxy")
    return _record_proxy(given) if given.proxy else _record_pipe(given)


def _record_pipe(given: Namespace) -> int:
    """Record standard input into a file, and pass it on; or as a recording to standard output."""
    from argstream._secrets import secrets_of_environment
    from argstream.recording import Recorder

    output = given.output or "-"
    is_for_stdout = output == "-"
    passing = None if is_for_stdout or given.quiet else _PassOn()
    try:
        recorder = Recorder(
            sys.stdout.buffer if is_for_stdout else output,
            overwrite=given.force,
            secrets=secrets_of_environment(os.environ),
        )
    except FileExistsError:
        raise UsageError(f"{output} already exists. Use --force to overwrite it") from None
    except OSError as error:
        if is_for_stdout:
            silence(sys.stdout)
        name = "standard output" if is_for_stdout else visible_line(output)
        complain(f"cannot write {name}: {error.strerror}")
        if passing is not None and error.errno in _FULL:
            for chunk in chunks("-", _WAITING):
                passing.write(chunk)
        return 2
    return _record(recorder, passing, output)


def _record(recorder: "Recorder", passing: "_PassOn | None", output: str) -> int:
    status = number = 0
    with recorder:
        for number, chunk in enumerate(chunks("-", _WAITING), 1):
            if number == 1 and is_recording(chunk):
                recorder.discard()
                complain("this is a recording already. Use argstream replay --raw for its bytes")
                return 2
            if status == 0:
                status = _write_chunk(recorder, chunk, output)
                if status and passing is None:
                    break
            if passing is not None:
                passing.write(chunk)
    if number == 1:
        complain("the input arrived in one piece, so the recording has no timing")
    if recorder.removed:
        complain(f"removed values that look like keys of the environment: {recorder.removed}")
    return status


def _write_chunk(recorder: "Recorder", chunk: bytes, output: str) -> int:
    try:
        recorder.write(chunk)
    except OSError as error:
        if output == "-":
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


def _record_proxy(given: Namespace) -> int:
    """Record each response of a provider as a proxy, until it is interrupted."""
    from argstream._secrets import secrets_of_environment
    from argstream.recording.proxy import RecordingProxy

    directory = given.output or "recordings"
    if Path(directory).suffix == ".rec" and not Path(directory).is_dir():
        raise UsageError("the proxy writes a file for each response. Pass a directory with -o")
    proxy = RecordingProxy(
        given.proxy,
        directory,
        port=given.port,
        with_request=given.with_request,
        secrets=secrets_of_environment(os.environ),
        on_exchange=_tell,
    )
    with Interruptions() as interruptions, proxy:
        say(_proxy_greeting(proxy))
        return interruptions.wait()  # the proxy has a thread of its own


def _proxy_greeting(proxy: "RecordingProxy") -> str:
    upstream, directory = visible_line(proxy.upstream.url), visible_line(str(proxy.directory))
    return (
        f"Recording proxy listening on {proxy.url} (Ctrl-C to stop)\n\n"
        f"  Provider    {upstream}\n"
        f"  Recordings  {directory}/, without keys\n\n"
        "Use it as the base URL of your client:\n\n"
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


def replay(given: Namespace) -> int:
    """Play a recording, a provider's plain stream or a run, as ``watch`` shows it; or its bytes."""
    if given.file.startswith(RUN):
        refuse(given.raw or given.protocol != "auto", "--raw and --from are for recordings")
        from argstream.cli._runs import replay_run

        return replay_run(given, given.speed, follow=given.follow)
    is_for_runs = given.store or given.follow
    refuse(is_for_runs, "--store and --follow are for runs: argstream replay run:ID")
    refuse(given.raw and given.json, "--raw writes bytes and --json events. Choose one")
    from argstream.recording._recording import waiting

    recording, factor = recording_in(given.file, _PACE), given.speed
    if not recording.has_times and not math.isinf(factor):
        pace = f"{_PACE / factor:.3g} s per event"
        name = "stdin" if given.file == "-" else visible_line(given.file)
        complain(f"{name} has no timing information; using {pace}")
    with Interruptions() as interruptions:
        if given.raw:
            return _write_played(recording.play(factor, sleep=interruptions.sleep))
        timed = waiting(recording.lines(), factor, interruptions.sleep)
        is_timed = recording.has_times and factor == 1
        return show_stream((line for _, line in timed), given, timed=is_timed)


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


def serve_mock(given: Namespace) -> int:
    """Serve a script or a recording, or an example, until it is interrupted."""
    refuse(given.timed and given.fault, "--timed can't be combined with --fault")
    provider = _provider(given)
    with Interruptions() as interruptions, provider:
        say(_mock_greeting(provider))
        return interruptions.wait()  # the server has a thread of its own


def _provider(given: Namespace) -> "MockProvider":
    from argstream.testing import MockProvider, Slow
    from argstream.testing._replies import EXAMPLE, parse_fault, parse_script

    faults: list[Fault] = [Slow(between=given.pace), *map(parse_fault, given.fault)]
    try:
        data = Path(given.file).read_bytes() if given.file else None
    except OSError as error:
        raise UsageError(f"cannot read {given.file}: {error.strerror}") from error
    if given.timed:
        if data is None:
            raise UsageError("--timed needs a recording. Pass the file of one")
        return MockProvider.replaying(data, timed=True, port=given.port, on_request=_log)
    try:
        if data is not None and b'"replies"' not in data[:100]:  # the only key of a script
            return MockProvider.replaying(data, faults=faults, port=given.port, on_request=_log)
        replies = EXAMPLE if data is None else parse_script(data)
    except UsageError as error:
        raise UnreadableFileError(given.file, str(error)) from error
    return MockProvider(replies, repeat=True, faults=faults, port=given.port, on_request=_log)


def _mock_greeting(provider: "MockProvider") -> str:
    return (
        f"Mock provider listening on {provider.url} (Ctrl-C to stop)\n\nAny API key works:\n\n"
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
