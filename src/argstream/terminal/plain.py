"""Events as plain lines, for a pipe or a terminal of any kind: append-only, nothing is redrawn.

Whatever grows is written as it grows. When something else comes in between (calls may interleave),
the line is ended, and the next piece says again where it belongs. What somebody is asked about is
shown whole. Failures of the stream itself are not shown here: they go where the command complains.
"""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from argstream.deltas import FREE_TEXT_KINDS
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentStarted,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunSnapshot,
    RunStarted,
    RunStopped,
    TextDelta,
    ThinkingCompleted,
    ThinkingDelta,
    ThinkingStarted,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolOutputDelta,
    TurnCompleted,
    TurnStarted,
    Usage,
)
from argstream.jsonstream import JsonPath
from argstream.sanitise import visible, visible_line
from argstream.terminal._snapshot_events import events_of
from argstream.terminal.words import path_name

__all__ = ["PlainLines"]

_INDENT = "    "
# Before each line of what the model says, so that it cannot look like a line of ours.
_SAID = "│ "
_PROMPT = "> "
_OUTPUT = _INDENT + "┆ "
_MAX_RESULT = 200
_REMEMBERED: Final = {
    "session": "; from now on, so is every call of this tool",
    "rule": "; from now on, so is whatever this rule asks about",
}


class PlainLines:
    """Writes events as text through the function that it is given."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._growing: object = None  # what the line that is not ended belongs to
        self._free_text: set[str] = set()  # calls whose arguments are no JSON
        self._call_id = ""  # the call that was last written about
        self._names: dict[str, str] = {}  # of calls, by id
        self._speaker: str | None = None  # the call whose sub-agent was last written about

    def show(self, event: Event) -> None:
        """Write what an event says, if a person would want to see it."""
        if isinstance(event, RunSnapshot):
            self._join(event)
            return
        if isinstance(event, TextDelta | ThinkingStarted | ToolCallStarted | TurnCompleted):
            self._turn_to_speaker(event.parent_id)
        match event:
            case TextDelta(text, block):
                self._grow(("text", block), _SAID, text, _SAID)
            case ThinkingStarted(block):
                self._grow(("thinking", block), "~ ", "", "~ ")
            case ThinkingDelta(text, block):
                self._grow(("thinking", block), "~ ", text, "~ ")
            case ThinkingCompleted(text, block):
                if not text and self._growing == ("thinking", block):
                    self._write("…")  # it does not say what
                self._end_line()
            case TurnCompleted(reason, characters_read=int(read)):
                self._line(f"— {visible_line(reason or '')}: stopped after {read} characters")
            case TurnCompleted(reason, _, usage):
                self._line(f"— {visible_line(reason or 'no stop reason')} ({_cost(usage)})")
            case (
                RunStarted()
                | RunPaused()
                | RunResumed()
                | RunCompleted()
                | RunFailed()
                | RunStopped()
                | TurnStarted()
            ):
                self._show_run(event)
            case ApprovalRequested() | ApprovalDecided():
                self._show_approval(event)
            case _:
                self._show_call(event)

    def _join(self, snapshot: RunSnapshot) -> None:
        """Write what a snapshot tells, and go on from it."""
        turn = f" in turn {snapshot.turns}" if snapshot.turns else ""
        self._line(f"┄ joined{turn}; first what came before")
        for event in events_of(snapshot):
            self.show(event)

    def _show_run(self, event: Event) -> None:
        match event:
            case RunStarted(run_id, prompt):
                self._line(f"▶ {visible_line(run_id)}")
                self._grow("prompt", _PROMPT, prompt, _PROMPT)
                self._end_line()
            case TurnStarted(turn, attempt):
                self._call_id = ""
                again = f", attempt {attempt}: what came before was lost" if attempt > 1 else ""
                self._line(f"┄ turn {turn}{again}")
            case RunPaused(pending=pending):
                calls = ", ".join(_call(request.name, request.call_id) for request in pending)
                self._line(f"‖ paused, waits for a decision on {calls}")
            case RunResumed(cause=cause, interrupted=interrupted, note=note):
                why = "after a crash" if cause == "crash" else "after a pause"
                names = self._names
                calls = ", ".join(_call(names.get(one, "a call"), one) for one in interrupted)
                self._line(f"▶ goes on {why}" + (f"; cut off: {calls}" if calls else ""))
                if note:
                    self._grow("note", _INDENT, f"the model is told: {note}", _INDENT)
                    self._end_line()
            case RunCompleted(_, usage):
                self._line(f"■ the run is complete ({_cost(usage)})")
            case RunFailed(code, message):
                self._line(f"■ the run failed ({visible_line(code)}): {visible_line(message)}")
            case RunStopped(reason):
                self._line("■ the run was stopped" + _because(reason))
            case _:
                pass

    def _show_approval(self, event: Event) -> None:
        match event:
            case ApprovalRequested(call_id, name, arguments, _, reason, rule, expires_at):
                self._turn_to(call_id, name)
                by = "" if rule is None else f" (rule {visible_line(rule)})"
                until = "" if expires_at is None else f", until {_clock(expires_at)}"
                self._line(
                    f"  ? {visible_line(name)} must be approved{until}{by}{_because(reason)}"
                )
                self._show_whole(arguments)
            case ApprovalDecided(call_id, name, decision, reason, edited, always):
                self._turn_to(call_id, name)
                more = "" if always is None else _REMEMBERED[always]
                self._line(f"  ! {visible_line(name)} is {decision}{_because(reason)}{more}")
                if edited is not None:
                    self._show_whole(edited)
            case _:
                pass

    def _show_whole(self, arguments: dict[str, Any]) -> None:
        """Show arguments to the last character: somebody decides by them."""
        text = json.dumps(arguments, ensure_ascii=False, indent=2)
        self._grow("arguments", _INDENT, text, _INDENT)
        self._end_line()

    def _show_call(self, event: Event) -> None:
        match event:
            case ToolCallStarted(call_id, _, name, kind):
                self._call_id = call_id
                self._names[call_id] = name
                if kind in FREE_TEXT_KINDS:
                    self._free_text.add(call_id)
                what = "" if kind == "function" else f"  ({kind})"
                self._line(f"● {visible_line(name)}{what}  {visible_line(call_id)}")
            case ToolArgsDelta(call_id, name, text) if call_id in self._free_text:
                self._turn_to(call_id, name)
                self._grow((call_id, ()), _INDENT, text, _INDENT)
            case ArgumentStarted(call_id, name, path, "string"):
                self._turn_to(call_id, name)
                self._grow((call_id, path), _place(path), "", _INDENT * 2)
            case ArgumentDelta(call_id, name, path, text):
                self._turn_to(call_id, name)
                self._grow((call_id, path), _place(path), text, _INDENT * 2)
            case ArgumentCompleted(call_id, name, path, value):
                if self._growing == (call_id, path):
                    self._end_line()
                elif not isinstance(value, str | dict | list) or value in ({}, []):
                    self._turn_to(call_id, name)
                    self._line(_place(path) + _short(value))
            case ToolArgsCompleted(_, name):
                self._line(f"  ✓ {visible_line(name)}: complete")
            case ToolArgsInvalid(_, name, verdict, _, error):
                self._line(f"  ✗ {visible_line(name)}: {verdict}, {visible_line(error.message)}")
            case ToolExecutionStarted(call_id, name, _, attempt):
                self._turn_to(call_id, name)
                again = f" again, attempt {attempt}" if attempt > 1 else ""
                self._line(f"  > {visible_line(name)} runs{again}")
            case ToolOutputDelta(call_id, name, text):
                self._turn_to(call_id, name)
                self._grow((call_id, "output"), _OUTPUT, text, _OUTPUT)
            case ToolCallCompleted(call_id, name, _, result):
                self._turn_to(call_id, name)
                self._line(f"  = {visible_line(name)}: {_short(result)}")
            case ToolCallFailed(call_id, name, error):
                self._turn_to(call_id, name)
                self._line(f"  ✗ {visible_line(name)} failed: {_short(error)}")
            case _:
                pass

    def end(self) -> None:
        """End the last line."""
        self._end_line()

    def _turn_to_speaker(self, parent_id: str | None) -> None:
        if self._speaker != parent_id:
            self._speaker = parent_id
            if parent_id is None:
                self._line("┄ the main agent")
            else:
                name = visible_line(self._names.get(parent_id, "a call"))
                self._line(f"┄ a sub-agent of {name}  {visible_line(parent_id)}")

    def _turn_to(self, call_id: str, name: str) -> None:
        if self._call_id != call_id:
            self._call_id = call_id
            self._line(f"● {visible_line(name)} …  {visible_line(call_id)}")

    def _grow(self, what: object, heading: str, text: str, indent: str) -> None:
        if self._growing != what:
            self._end_line()
            self._growing = what
            self._write(heading)
        self._write(visible(text).replace("\n", "\n" + indent))

    def _line(self, text: str) -> None:
        self._end_line()
        self._write(text + "\n")

    def _end_line(self) -> None:
        if self._growing is not None:
            self._growing = None
            self._write("\n")


def _place(path: JsonPath) -> str:
    return f"{_INDENT}{path_name(path)} = "


def _call(name: str, call_id: str) -> str:
    return f"{visible_line(name)} ({visible_line(call_id)})"


def _because(reason: str) -> str:
    return f": {visible_line(reason)}" if reason else ""


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _cost(usage: Usage) -> str:
    return f"{usage.input_tokens} tokens in, {usage.output_tokens} out"


def _short(value: Any) -> str:
    """Give a value on one line, and not more of it than one wants to read."""
    text = visible_line(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _MAX_RESULT else text[:_MAX_RESULT] + " …"
