"""Random runs as lists of events: those of streams of real payloads, and those of agents.

Nothing is executed. Turns are interrupted by crashes and start again, with the same ids and numbers
or with others. Calls need approval, run, and write output; any of it may be missing.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from argstream.assembly import Assembler, Numbering
from argstream.checks import Check
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
    RunStarted,
    RunStopped,
    ToolArgsCompleted,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolOutputDelta,
    TurnStarted,
    Usage,
)
from argstream.history import CallPart, Message, TextPart
from tests import claude_agent
from tests.agent.chance import JUDGE, turns
from tests.claude_agent import (
    assistant,
    init,
    run_result,
    streamed,
    streamed_call,
    text,
    tool_result,
    use,
    user,
)
from tests.provider_streams import block_delta, block_start, block_stop, message_end, message_start

RUN = "run_1"
_OLD_CALL = CallPart(
    call_id="old",
    name="write",
    kind="function",
    arguments={"path": ["a"]},
    raw='{"path": ["a"]}',
    verdict="complete",
    item={"signature": "c2ln"},
)
HISTORY = (
    Message(role="user", parts=(TextPart(text="Before"),)),
    Message(role="assistant", parts=(_OLD_CALL,)),
)

_VIEWS = (ArgumentStarted, ArgumentDelta, ArgumentCompleted)
_OUTPUTS = [[], ["one "], ["one ", "two ", "é"]]
_results = st.sampled_from(["done", {"rows": [{"a": 1}]}, ["é", None], 10**30, 1.5, None, True])


@st.composite
def runs(draw: st.DrawFn, *, crashes: bool = True) -> list[Event]:
    """A run of an agent, perhaps incomplete."""
    events: list[Event] = [RunStarted(RUN, "Go", draw(st.sampled_from([(), HISTORY])))]
    judge = draw(st.sampled_from([None, JUDGE]))
    numbering = Numbering()
    for number in range(1, 1 + draw(st.integers(1, 3))):
        numbering = _add_turn(draw, number, judge, numbering, events, crashes=crashes)
    ends: list[Event | None] = [
        None,
        RunCompleted({"answer": [1]}, Usage(3, 4), "end_turn", RUN),
        RunFailed("max_turns", "too many", RUN),
        RunStopped("enough", RUN),
        RunStopped("enough", RUN, Usage(5, None, 2)),
    ]
    end = draw(st.sampled_from(ends))
    return events if end is None else [*events, end]


def logged_runs() -> st.SearchStrategy[list[Event]]:
    """Runs as in a log: a paused run is resumed, and a call ends once."""
    return runs().map(_as_logged)


def _as_logged(events: Sequence[Event]) -> list[Event]:
    kept: list[Event] = []
    over: set[str] = set()
    for event in events:
        if isinstance(event, ToolCallStarted):
            over.discard(event.call_id)
        elif getattr(event, "call_id", None) in over:
            continue
        elif isinstance(event, ToolCallCompleted | ToolCallFailed):
            over.add(event.call_id)
        is_paused = bool(kept) and isinstance(kept[-1], RunPaused)
        if is_paused and not isinstance(event, RunResumed | RunStopped):
            kept.append(RunResumed(RUN))
        kept.append(event)
    return kept


def _add_turn(
    draw: st.DrawFn,
    number: int,
    judge: Check | None,
    before: Numbering,
    events: list[Event],
    *,
    crashes: bool,
) -> Numbering:
    numbering = before
    for attempt in (1, 2, 3):
        events.append(TurnStarted(number, attempt))
        turn = draw(turns(number))
        assembler = Assembler(turn.protocol, check=judge, after=numbering)
        found = [event for payload in turn.payloads for event in assembler.feed(payload)]
        found += assembler.close()
        if crashes and attempt < 3 and draw(st.integers(0, 3)) == 0:
            place = draw(st.integers(0, len(found)))
            while isinstance(next(iter(found[place:]), None), _VIEWS):
                place += 1  # views are not separated from their delta
            kept = found[:place]
            events += [*kept, *_crash(draw, kept)]
            numbering = draw(st.sampled_from([before, assembler.numbering]))
            continue
        events += found
        for event in found:
            if isinstance(event, ToolArgsCompleted) and isinstance(event.arguments, dict):
                events += _work(draw, event, event.arguments)
            elif isinstance(event, ToolArgsInvalid):
                events.append(ToolCallFailed(event.call_id, event.name, "it was not run"))
        return assembler.numbering
    raise AssertionError("the third attempt is not interrupted")


def _crash(draw: st.DrawFn, kept: Sequence[Event]) -> list[Event]:
    """Return the events of a crash, perhaps while a call was running."""
    complete = [event for event in kept if isinstance(event, ToolArgsCompleted)]
    if not complete or draw(st.booleans()):
        return [RunResumed(RUN, "crash")]
    call = draw(st.sampled_from(complete))
    return [
        ToolExecutionStarted(call.call_id, call.name, "key"),
        ToolOutputDelta(call.call_id, call.name, "half"),
        RunResumed(RUN, "crash", (call.call_id,), "Something may have been done."),
        ToolCallFailed(call.call_id, call.name, "interrupted"),
    ]


def _work(draw: st.DrawFn, call: ToolArgsCompleted, arguments: dict[str, Any]) -> list[Event]:
    """Return the events of a complete call."""
    call_id, name = call.call_id, call.name
    request = ApprovalRequested(call_id, name, arguments, "digest", "why", "rule", 1.5)
    edited = ApprovalDecided(call_id, name, "edited", "so", {"path": {"b": []}}, "conversation")
    paused: list[Event] = [request, RunPaused(RUN, (request,))]
    approvals: list[list[Event]] = [
        [],
        [*paused, RunResumed(RUN), edited],
        [*paused],
        [request, ApprovalDecided(call_id, name, "denied")],
    ]
    approval = draw(st.sampled_from(approvals))
    running: list[Event] = [ToolExecutionStarted(call_id, name, "key")]
    if draw(st.booleans()):
        running += [RunResumed(RUN, "crash"), ToolExecutionStarted(call_id, name, "key", 2)]
    running += [ToolOutputDelta(call_id, name, piece) for piece in draw(st.sampled_from(_OUTPUTS))]
    result = draw(_results)
    ends: list[Event] = [
        ToolCallCompleted(call_id, name, {"path": {"b": []}}, result),
        ToolCallFailed(call_id, name, {"why": [result]}),
    ]
    return [*approval, *(running if draw(st.booleans()) else []), draw(st.sampled_from(ends))]


# Claude Code with two sub-agents that work at the same time. One of them succeeds.
CLAUDE_CODE_LINES = [
    init(),
    *streamed(message_start("msg_1")),
    *streamed(
        block_start(0, "thinking", thinking="", signature=""),
        block_delta(0, "thinking_delta", thinking="Hm, "),
        block_delta(0, "thinking_delta", thinking="two."),
        block_stop(0),
    ),
    *streamed_call('{"prompt":', ' "look"}', index=1, id_="task_1"),
    *streamed_call('{"prompt": "se', 'ek"}', index=2, id_="task_2"),
    *streamed(*message_end()),
    assistant(text("I look."), use({"path": "a"}, "sub_1"), id_="msg_2", parent="task_1"),
    assistant(text("I seek."), use({"path": "b"}, "sub_2"), id_="msg_3", parent="task_2"),
    user([tool_result("A", "sub_1")], parent="task_1"),
    user([tool_result("B", "sub_2", is_error=True)], parent="task_2"),
    assistant(text("Seen."), id_="msg_4", parent="task_1"),
    user([tool_result([{"type": "text", "text": "Seen."}], "task_1")]),
    user([tool_result("Nothing.", "task_2", is_error=True)]),
    assistant(text("All done."), id_="msg_5", stop_reason="end_turn"),
    run_result(result="All done."),
]


def claude_code() -> list[Event]:
    """A run of Claude Code with two concurrent sub-agents."""
    return [RunStarted(RUN, "Go"), *claude_agent.read("lines", CLAUDE_CODE_LINES)[1]]
