"""The runs of ``fixtures/runs.json``, which tests in Python and in JavaScript replay.

A case is a list of events, a quarter of a second apart. A number is a longer pause, in seconds.
``CHECK`` is a place at which the expected state is written to the file, as after the last event.
``SNAPSHOT`` is a place before which the frames are replaced by a snapshot.

To write the file: ``python -m tests.runs.fixture_runs``. Then read the difference.
"""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from argstream import events as ev
from argstream.history import CallKind, Message
from argstream.protocols.native import Frame, NativeEncoder
from argstream.runs import Record, RunState
from tests.runs.facts import facts_of

FILE = Path(__file__).parent / "fixtures" / "runs.json"
CHECK: Literal["check"] = "check"
SNAPSHOT: Literal["snapshot"] = "snapshot"
Case: TypeAlias = list[ev.Event | float | Literal["check", "snapshot"]]

_STARTED = 1_000.0
_STEP = 0.25
_RUN = "run_1"
_decode = msgspec.json.Decoder(Frame).decode


def started(prompt: str = "Go", **fields: Any) -> ev.RunStarted:
    return ev.RunStarted(_RUN, prompt, **fields)


def ended_turn(stop_reason: str = "end_turn", parent_id: str | None = None) -> ev.TurnCompleted:
    message = Message(role="assistant", parts=())
    return ev.TurnCompleted(stop_reason, message, ev.Usage(12, 5, None, 0), parent_id)


def completed(result: Any = "Done.") -> ev.RunCompleted:
    return ev.RunCompleted(result, ev.Usage(24, 10), "end_turn", _RUN)


def call(
    call_id: str, name: str, *deltas: str, index: int = 0, kind: CallKind = "function"
) -> Case:
    return [
        ev.ToolCallStarted(call_id, index, name, kind),
        *(ev.ToolArgsDelta(call_id, name, delta) for delta in deltas),
    ]


def whole_call(call_id: str, name: str, arguments: dict[str, Any], index: int = 0) -> Case:
    text = json.dumps(arguments)
    cut = len(text) // 2
    written = call(call_id, name, text[:cut], text[cut:], index=index)
    return [*written, ev.ToolArgsCompleted(call_id, name, arguments)]


def invalid(call_id: str, verdict: Any, error: ev.ArgumentsError) -> ev.ToolArgsInvalid:
    return ev.ToolArgsInvalid(call_id, "write", verdict, "", error)


def request(call_id: str, name: str, arguments: dict[str, Any]) -> ev.ApprovalRequested:
    return ev.ApprovalRequested(call_id, name, arguments, "d1g357", "it writes", "writes", 4_600.0)


def asked(call_id: str, name: str, arguments: dict[str, Any]) -> Case:
    asks = request(call_id, name, arguments)
    return [
        started(),
        ev.TurnStarted(1),
        *whole_call(call_id, name, arguments),
        ended_turn("tool_use"),
        asks,
        ev.RunPaused(_RUN, (asks,)),
        CHECK,
    ]


_NESTED = {"path": "aéb", "lines": [1, {"x": 'q"r', "": []}, None, True], "n": -1500.0, "e": {}}
_NESTED_TEXT = [
    '{"path": "a\\u00',
    'e9b", "lines": [1, {"x": "q\\',
    '"r", "": []}, nu',
    'll, true], "n": -1.',
    '5e3, "e": {',
    "}}",
]
_WRITE = {"path": "a.txt", "text": "one\ntwo", "tags": ["x", "y"]}
_EDITED = {"path": "b.txt", "text": "one\ntwo", "tags": ["x", "z"], "mode": "w"}
_SEND = {"to": "ada"}
_TASK = {"prompt": "look"}

CASES: dict[str, Case] = {
    "text": [
        started("Say hello", user="ada"), ev.TurnStarted(1), ev.TextDelta("Hel", 0), CHECK,
        ev.TextDelta("lo", 0), 3.0, ev.TextDelta("Again", 1), ended_turn(), completed("HelloAgain"),
    ],
    "a clock that is set back": [
        started(), ev.TextDelta("a", 0), -90.0, ev.TextDelta("b", 1), ended_turn(), CHECK, 120.0,
        completed(),
    ],
    "thinking": [
        started(), ev.TurnStarted(1), ev.ThinkingStarted(0), ev.ThinkingDelta("Hm, ", 0),
        ev.ThinkingDelta("yes", 0), CHECK, ev.ThinkingCompleted("Hm, yes", 0),
        ev.ThinkingStarted(1),  # hidden by the provider
        ev.ThinkingCompleted("", 1), ev.ThinkingCompleted("all at once", 2),
        ev.TextDelta("Yes.", 3), ended_turn(), completed("Yes."),
    ],
    "nested arguments that are cut inside an escape": [
        started(), ev.TurnStarted(1),
        *chain.from_iterable([one, CHECK] for one in call("c1", "write", *_NESTED_TEXT)[:6]),
        *call("c1", "write", *_NESTED_TEXT)[6:], ev.ToolArgsCompleted("c1", "write", _NESTED),
        CHECK, ended_turn("tool_use"), ev.ToolExecutionStarted("c1", "write", "key"),
        ev.ToolOutputDelta("c1", "write", "writing "), ev.ToolOutputDelta("c1", "write", "it"),
        CHECK, ev.ToolCallCompleted("c1", "write", _NESTED, {"bytes": [3, 10**20]}), completed(),
    ],
    "a call without arguments, and one that is a JSON string": [
        started(), *call("c1", "now", "{}"), ev.ToolArgsCompleted("c1", "now", {}),
        *call("c2", "add", '"{\\"a\\": 1}"', index=1), CHECK,
        ev.ToolArgsCompleted("c2", "add", {"a": 1}, text='{"a": 1}'),
        ev.ToolCallCompleted("c1", "now", {}, None),
        ev.ToolCallFailed("c2", "add", {"why": ["no"]}), ended_turn("tool_use"),
    ],
    "free-text calls": [
        started(), ev.TurnStarted(1), ev.ToolCallStarted("c1", 0, "apply_patch", "custom"), CHECK,
        1.0, ev.ToolArgsDelta("c1", "apply_patch", "*** Begin"), CHECK,
        ev.ToolArgsDelta("c1", "apply_patch", " Patch\n"),
        ev.ToolArgsCompleted("c1", "apply_patch", "*** Begin Patch\n"),
        *call("c2", "python", "print(", index=1, kind="code"),
    ],
    "invalid calls": [
        started(), ev.TurnStarted(1), *call("c1", "write", '{"path": "a", "text": tru', "x}"),
        invalid("c1", "malformed", ev.ArgumentsError("bad_literal", "expected true", 25)),
        *call("c2", "write", '{"path": "a', index=1),
        invalid("c2", "truncated", ev.ArgumentsError("truncated", "cut off")),
        CHECK, ev.ToolCallFailed("c1", "write", "it was not run"),
        ev.ToolCallFailed("c2", "write", "it was not run"), ended_turn("max_tokens"),
    ],
    "an approval with edited arguments": [
        *asked("c1", "write", _WRITE), 600.0,
        ev.ApprovalDecided("c1", "write", "edited", "another file", _EDITED, "rule"), CHECK,
        ev.RunResumed(_RUN), ev.ToolExecutionStarted("c1", "write", "key"), CHECK,
        ev.ToolCallCompleted("c1", "write", _EDITED, "written"), ev.TurnStarted(2),
        ev.TextDelta("Done.", 0), ended_turn(), completed(),
    ],
    "a denied call": [
        *asked("c1", "send", _SEND), 5.0, ev.ApprovalDecided("c1", "send", "denied", "not to her"),
        ev.RunResumed(_RUN), CHECK, ev.ToolCallFailed("c1", "send", "denied: not to her"),
        completed(),
    ],
    "an expired and a withdrawn request": [
        *asked("c1", "send", _SEND), *whole_call("c2", "send", _SEND, index=1),
        request("c2", "send", _SEND), CHECK, 3_600.0, ev.ApprovalDecided("c1", "send", "expired"),
        ev.RunResumed(_RUN), ev.ToolCallFailed("c1", "send", "no decision in time"),
        ev.ApprovalDecided("c2", "send", "withdrawn"), ev.ToolCallFailed("c2", "send", "withdrawn"),
        ev.RunStopped("expired", _RUN),
    ],
    "an approved call that was not started": [
        *asked("c1", "send", _SEND),
        ev.ApprovalDecided("c1", "send", "approved", always="conversation"), ev.RunResumed(_RUN),
    ],
    "a lost turn whose numbers and IDs are used again": [
        started(), ev.TurnStarted(1), ev.ThinkingStarted(0), ev.ThinkingDelta("Lost", 0),
        ev.TextDelta("Lost", 1), *call("c1", "write", '{"path": "lost'), 2.0,
        ev.RunResumed(_RUN, "crash"), ev.TurnStarted(1, 2), CHECK, ev.TextDelta("Kept", 1),
        *call("c1", "send", '{"to": "'), ev.TurnStarted(1, 3), *whole_call("c1", "send", _SEND),
        ev.TextDelta("Kept", 1), ended_turn("tool_use"), CHECK,
        ev.ToolCallCompleted("c1", "send", _SEND, "sent"), ev.TurnStarted(2),
        ev.TextDelta("Done.", 2), ended_turn(), completed(),
    ],
    "a sub-agent": [
        started(), ev.TurnStarted(1), ev.TextDelta("I ask.", 0), *whole_call("t1", "task", _TASK),
        ended_turn("tool_use"), ev.ToolExecutionStarted("t1", "task", "key"),
        ev.TextDelta("I look", 0, "t1"), ev.ThinkingStarted(1, "t1"),
        ev.ToolCallStarted("s1", 0, "read", parent_id="t1"), ev.ThinkingDelta("deep", 1, "t1"),
        ev.ToolArgsDelta("s1", "read", '{"path": "a"}'), ev.TextDelta(" and see.", 0, "t1"),
        ev.ToolArgsCompleted("s1", "read", {"path": "a"}), ended_turn("max_tokens", "t1"), CHECK,
        ev.ToolCallCompleted("s1", "read", {"path": "a"}, "A"), ev.TextDelta("Seen.", 2, "t1"),
        ended_turn("end_turn", "t1"), ev.ToolCallCompleted("t1", "task", _TASK, "Seen."),
        ev.TurnStarted(2), ev.TextDelta("Done.", 1), ended_turn("stop"), completed(),
    ],
    "a crash that interrupts a tool": [
        started(), ev.TurnStarted(1), *whole_call("c1", "build", {"target": "all"}),
        *whole_call("c2", "send", _SEND, index=1), ended_turn("tool_use"),
        ev.ToolExecutionStarted("c1", "build", "key_1"),
        ev.ToolExecutionStarted("c2", "send", "key_2"), ev.ToolOutputDelta("c1", "build", "half"),
        60.0, ev.RunResumed(_RUN, "crash", ("c1", "c2", "unknown"), "Tools may have had effects."),
        CHECK, ev.ToolCallFailed("c2", "send", "interrupted"),
        ev.ToolExecutionStarted("c1", "build", "key_1", 2),
        ev.ToolCallCompleted("c1", "build", {"target": "all"}, "built"), completed(),
    ],
    "an observed run that pauses, and goes on meanwhile": [
        started(mode="observed"), ev.TextDelta("I do two things.", 0),
        *whole_call("c1", "Bash", {"command": "ls"}),
        *whole_call("c2", "Read", {"path": "a"}, index=1), ended_turn("tool_use"),
        request("c1", "Bash", {"command": "ls"}),
        ev.RunPaused(_RUN, (request("c1", "Bash", {"command": "ls"}),), keeps_lease=True), 30.0,
        ev.ToolCallCompleted("c2", "Read", {"path": "a"}, "A"), CHECK,
        ev.ApprovalDecided("c1", "Bash", "approved"), ev.RunResumed(_RUN),
        ev.ToolCallCompleted("c1", "Bash", {"command": "ls"}, "a.txt"), ev.TextDelta("Done.", 1),
        CHECK, ended_turn("end_turn"), completed(),
    ],
    "a call whose name comes in pieces": [
        started(), ev.ToolCallStarted("c1", 0, "wri"), CHECK,
        ev.ToolArgsDelta("c1", "write_", '{"a"'), ev.ToolArgsDelta("c1", "write_file", ": 1}"),
        ev.ToolArgsCompleted("c1", "write_file", {"a": 1}),
        ev.ToolCallStarted("c2", 1, "get_"), ev.ToolArgsCompleted("c2", "get_time", {}),
    ],
    "a call that the provider runs, and events of a call that never started": [
        started(), ev.ToolCallStarted("c1", 0, "web_search", "server"), CHECK,
        ev.ToolCallCompleted("c1", "web_search", {"query": "q"}, [{"title": "t"}]),
        ev.ToolOutputDelta("c9", "add", "x"), ev.ToolCallFailed("c9", "add", "no"),
    ],
    "a snapshot in the middle, then records": [
        started("Continue", mode="observed", history=(Message(role="user", parts=()),)),
        ev.TurnStarted(1), ev.TextDelta("Lost", 0), *call("c1", "write", '{"path": "lost'),
        ev.TurnStarted(1, 2), ev.ThinkingStarted(0), ev.ThinkingDelta("Hm", 0),
        *whole_call("c0", "send", _SEND), request("c0", "send", _SEND),
        *call("c1", "write", '{"path": "a.txt", "text": "o', index=1), SNAPSHOT, CHECK,
        ev.ToolArgsDelta("c1", "write", 'ne\\ntwo", "tags": ["x", '), ev.ThinkingDelta(", so", 0),
        CHECK, ev.ToolArgsDelta("c1", "write", '"y"]}'),
        ev.ToolArgsCompleted("c1", "write", _WRITE), ended_turn("tool_use"),
        ev.ApprovalDecided("c0", "send", "approved"), ev.ToolExecutionStarted("c0", "send", "key"),
        ev.ToolCallCompleted("c0", "send", _SEND, "sent"),
        ev.ToolCallCompleted("c1", "write", _WRITE, "written"), completed(),
    ],
    "a failed run": [
        started(), ev.TurnStarted(1), ev.TextDelta("Sor", 0),
        ev.StreamFailed("provider_error", "overloaded", True, "529"), CHECK,
        ev.RunFailed("provider_error", "overloaded", _RUN, ev.Usage(7, 1)),
    ],
    "a stopped run": [
        started(), ev.TurnStarted(1), ended_turn("tool_use"), ev.TurnStarted(2),
        *call("c1", "write", '{"path": "a'),
        invalid("c1", "aborted", ev.ArgumentsError("aborted", "stop")),
        ev.RunStopped("enough", _RUN),
    ],
}  # fmt: skip


def written_file() -> str:
    cases = [_case(name, case) for name, case in CASES.items()]
    return "[\n" + ",\n".join(cases) + "\n]\n"


def _case(name: str, case: Case) -> str:
    frames, seqs = _frames(case)
    states = [facts for seq, facts in replayed(frames) if seq in seqs]
    lines = [f'{{"name": {json.dumps(name)}, "frames": [']
    lines += [",\n".join(f"  {json.dumps(frame)}" for frame in frames), '], "states": [']
    lines += [",\n".join(f"  {json.dumps(state)}" for state in states), "]}"]
    return "\n".join(lines)


def _frames(case: Case) -> tuple[list[dict[str, Any]], set[int]]:
    """Return the frames of a case, and the records after which its state is expected."""
    encoder = NativeEncoder()
    frames: list[dict[str, Any]] = []
    checks: set[int] = set()
    seq, time = 0, _STARTED
    for item in case:
        if item == CHECK:
            checks.add(seq)
        elif item == SNAPSHOT:
            frames = [_read(encoder.replay().data.partition(b"data: ")[2])]
        elif isinstance(item, float):
            time += item
        else:
            assert not isinstance(item, str)
            seq, time = seq + 1, time + _STEP
            frames.append(_read(encoder.line(Record(seq, time, _RUN, "talk", "", item))))
    return frames, checks | {seq}


def _read(frame: bytes) -> dict[str, Any]:
    return {name: value for name, value in json.loads(frame).items() if value != []}


def replayed(frames: list[dict[str, Any]]) -> Iterator[tuple[int, Any]]:
    """Apply frames to a ``RunState``. Yield each ``seq`` and the state after it."""
    state = RunState()
    for frame in frames:
        match _decode(json.dumps(frame)):
            case Frame(snapshot=None, event=event) as one if event is not None:
                state.apply_record(Record(one.seq, one.time, _RUN, "talk", "", event))
            case Frame(snapshot=snapshot) if snapshot is not None:
                state = RunState.from_snapshot(snapshot)
        yield state.seq, facts_of(state)


if __name__ == "__main__":
    FILE.write_text(written_file(), encoding="utf-8")
