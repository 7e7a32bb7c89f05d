"""Random runs as lists of events: those of streams of real payloads, and those of agents.

Nothing is executed. Turns are interrupted by crashes and start again, with the same ids and numbers
or with others. Calls need approval, run, and write output; any of it may be missing.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from argstream import events as ev
from argstream.assembly import Assembler, Numbering
from argstream.checks import Check
from argstream.history import Message, TextPart
from tests import claude_agent as claude
from tests.agent.chance import JUDGE, turns
from tests.claude_agent import assistant, streamed, streamed_call, text, tool_result, use, user
from tests.provider_streams import call_part, message_end, message_start, thinking_block

RUN = "run_1"
_SIGNED = {"signature": "c2ln"}
_OLD_CALL = call_part("old", "write", {"path": ["a"]}, '{"path": ["a"]}', item=_SIGNED)
HISTORY = (
    Message(role="user", parts=(TextPart(text="Before"),)),
    Message(role="assistant", parts=(_OLD_CALL,)),
)

_OUTPUTS = [[], ["one "], ["one ", "two ", "é"]]
_results = st.sampled_from(["done", {"rows": [{"a": 1}]}, ["é", None], 10**30, 1.5, None, True])


@st.composite
def runs(draw: st.DrawFn, *, crashes: bool = True) -> list[ev.Event]:
    """A run of an agent, perhaps incomplete."""
    events: list[ev.Event] = [ev.RunStarted(RUN, "Go", draw(st.sampled_from([(), HISTORY])))]
    judge = draw(st.sampled_from([None, JUDGE]))
    numbering = Numbering()
    for number in range(1, 1 + draw(st.integers(1, 3))):
        numbering = _add_turn(draw, number, judge, numbering, events, crashes=crashes)
    ends: list[ev.Event | None] = [
        None,
        ev.RunCompleted({"answer": [1]}, ev.Usage(3, 4), "end_turn", RUN),
        ev.RunFailed("max_turns", "too many", RUN),
        ev.RunStopped("enough", RUN),
        ev.RunStopped("enough", RUN, ev.Usage(5, None, 2)),
    ]
    end = draw(st.sampled_from(ends))
    return events if end is None else [*events, end]


def logged_runs() -> st.SearchStrategy[list[ev.Event]]:
    """Runs as in a log: a paused run is resumed, and a call ends once."""
    return runs().map(_as_logged)


def _as_logged(events: Sequence[ev.Event]) -> list[ev.Event]:
    kept: list[ev.Event] = []
    over: set[str] = set()
    for event in events:
        if isinstance(event, ev.ToolCallStarted):
            over.discard(event.call_id)
        elif getattr(event, "call_id", None) in over:
            continue
        elif isinstance(event, ev.ToolCallCompleted | ev.ToolCallFailed):
            over.add(event.call_id)
        is_paused = bool(kept) and isinstance(kept[-1], ev.RunPaused)
        if is_paused and not isinstance(event, ev.RunResumed | ev.RunStopped):
            kept.append(ev.RunResumed(RUN))
        kept.append(event)
    return kept


def _add_turn(
    draw: st.DrawFn,
    number: int,
    judge: Check | None,
    before: Numbering,
    events: list[ev.Event],
    *,
    crashes: bool,
) -> Numbering:
    numbering = before
    for attempt in (1, 2, 3):
        events.append(ev.TurnStarted(number, attempt))
        turn = draw(turns(number))
        assembler = Assembler(turn.protocol, check=judge, after=numbering)
        found = [event for payload in turn.payloads for event in assembler.feed(payload)]
        found += assembler.close()
        if crashes and attempt < 3 and draw(st.integers(0, 3)) == 0:
            place = draw(st.integers(0, len(found)))
            while isinstance(next(iter(found[place:]), None), ev.ArgumentEvent):
                place += 1  # views are not separated from their delta
            kept = found[:place]
            events += [*kept, *_crash(draw, kept)]
            numbering = draw(st.sampled_from([before, assembler.numbering]))
            continue
        events += found
        for event in found:
            if isinstance(event, ev.ToolArgsCompleted) and isinstance(event.arguments, dict):
                events += _work(draw, event, event.arguments)
            elif isinstance(event, ev.ToolArgsInvalid):
                events.append(ev.ToolCallFailed(event.call_id, event.name, "it was not run"))
        return assembler.numbering
    raise AssertionError("the third attempt is not interrupted")


def _crash(draw: st.DrawFn, kept: Sequence[ev.Event]) -> list[ev.Event]:
    """Return the events of a crash, perhaps while a call was running."""
    complete = [event for event in kept if isinstance(event, ev.ToolArgsCompleted)]
    if not complete or draw(st.booleans()):
        return [ev.RunResumed(RUN, "crash")]
    call = draw(st.sampled_from(complete))
    return [
        ev.ToolExecutionStarted(call.call_id, call.name, "key"),
        ev.ToolOutputDelta(call.call_id, call.name, "half"),
        ev.RunResumed(RUN, "crash", (call.call_id,), "Something may have been done."),
        ev.ToolCallFailed(call.call_id, call.name, "interrupted"),
    ]


def _work(draw: st.DrawFn, call: ev.ToolArgsCompleted, arguments: dict[str, Any]) -> list[ev.Event]:
    """Return the events of a complete call."""
    call_id, name = call.call_id, call.name
    request = ev.ApprovalRequested(call_id, name, arguments, "digest", "why", "rule", 1.5)
    edited = ev.ApprovalDecided(call_id, name, "edited", "so", {"path": {"b": []}}, "conversation")
    paused: list[ev.Event] = [request, ev.RunPaused(RUN, (request,))]
    approvals: list[list[ev.Event]] = [
        [],
        [*paused, ev.RunResumed(RUN), edited],
        [*paused],
        [request, ev.ApprovalDecided(call_id, name, "denied")],
    ]
    approval = draw(st.sampled_from(approvals))
    running: list[ev.Event] = [ev.ToolExecutionStarted(call_id, name, "key")]
    if draw(st.booleans()):
        running += [ev.RunResumed(RUN, "crash"), ev.ToolExecutionStarted(call_id, name, "key", 2)]
    running += [ev.ToolOutputDelta(call_id, name, one) for one in draw(st.sampled_from(_OUTPUTS))]
    result = draw(_results)
    ends: list[ev.Event] = [
        ev.ToolCallCompleted(call_id, name, {"path": {"b": []}}, result),
        ev.ToolCallFailed(call_id, name, {"why": [result]}),
    ]
    return [*approval, *(running if draw(st.booleans()) else []), draw(st.sampled_from(ends))]


# Claude Code with two sub-agents that work at the same time. One of them succeeds.
CLAUDE_CODE_LINES = [
    claude.init(),
    *streamed(message_start("msg_1"), *thinking_block(0, "Hm, ", "two.")),
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
    claude.run_result(result="All done."),
]


def claude_code() -> list[ev.Event]:
    """A run of Claude Code with two concurrent sub-agents."""
    return [ev.RunStarted(RUN, "Go"), *claude.read("lines", CLAUDE_CODE_LINES)[1]]


@st.composite
def observed_runs(draw: st.DrawFn) -> list[ev.Event]:
    """A run of Claude Code that goes on while some of its calls need approval."""
    events: list[ev.Event] = [ev.RunStarted(RUN, "Go", mode="observed")]
    pending: dict[str, ev.ApprovalRequested] = {}

    def pause() -> list[ev.Event]:
        return [ev.RunPaused(RUN, tuple(pending.values()), keeps_lease=True)] if pending else []

    def decide(call_id: str) -> list[ev.Event]:
        decision = ev.ApprovalDecided(call_id, pending.pop(call_id).name, "approved")
        return [ev.RunResumed(RUN), decision, *pause()]

    for event in claude_code()[1:]:
        call_id = getattr(event, "call_id", None)
        is_over = isinstance(event, ev.ToolCallCompleted | ev.ToolCallFailed | ev.RunCompleted)
        for one in [*pending]:
            if draw(st.integers(0, 5)) == 0 or (is_over and call_id in (one, None)):
                events += decide(one)
        events.append(event)
        if isinstance(event, ev.ToolArgsCompleted) and draw(st.booleans()):
            about: Any = (event.call_id, event.name, event.arguments, f"digest of {call_id}", "why")
            pending[event.call_id] = ev.ApprovalRequested(*about)
            events += [pending[event.call_id], *pause()]
    return events
