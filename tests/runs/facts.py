"""The state of a run as JSON, to compare ``RunState`` with ``Run`` of argstream.js.

``tests/server/node/facts.mjs`` returns the same for a ``Run``. Fields without content are omitted.
"""

from typing import Any

import msgspec

from argstream.runs import Argument, Call, RunState, TextBlock

_RUN = """
    run_id status prompt user mode turns usage stop_reason end failures seq time started_at ended_at
"""
_TEXT = "block parent_id turn text is_over is_lost started_at last_text_at"
_CALL = """
    call_id index name kind parent_id turn is_lost is_free_text is_pending state raw verdict
    arguments written_arguments error request decision attempts interruptions output outcome result
    started_at last_text_at completed_at requested_at decided_at executed_at ended_at
"""
_TURN = "turn attempt parent_id started_at ended_at end"
_BREAK = "cause started_at ended_at call_ids"
OMITTED = {"time", "started_at", "last_text_at", "turn_times", "failures", "user", "written"}
"""What a snapshot does not have, or what differs because pieces of text were joined."""


def facts_of(state: RunState) -> Any:
    """Return all that ``Run`` of argstream.js has too, as JSON."""
    facts = {
        **_fields(state, _RUN),
        "pending": [request.call_id for request in state.pending],
        "blocks": [_block(block) for block in state.blocks],
        "turn_times": [_turn(turn) for turn in state.turn_times],
        "breaks": [_fields(one, _BREAK) for one in state.breaks],
    }
    return without_blanks(msgspec.json.decode(msgspec.json.encode(facts)))


def _fields(thing: object, names: str) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names.split()}


def _turn(turn: Any) -> dict[str, Any]:
    reason = None if turn.end is None else turn.end.stop_reason
    return {**_fields(turn, _TURN), "end": reason}


def _block(block: TextBlock | Call) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "thinking" if block.is_thinking else "text", **_fields(block, _TEXT)}
    # A snapshot has no argument events of lost calls.
    tree = [] if block.is_lost else list(_rows(block.root))
    written = [] if block.written is block.root else list(_rows(block.written))
    return {"type": "call", **_fields(block, _CALL), "tree": tree, "written": written}


def _rows(argument: Argument) -> Any:
    """Yield path, kind, value, is_done and times of each value inside the arguments.

    The time when all of them are complete is that of the verdict.
    """
    done_at = argument.done_at if argument.path else None
    times = (argument.started_at, done_at)
    yield [argument.path, argument.kind, argument.value, argument.is_done, *times]
    for child in argument.children.values():
        yield from _rows(child)


def without_blanks(facts: Any) -> Any:
    kept = {name: value for name, value in facts.items() if value not in (None, "", [], False)}
    if "usage" in kept:
        kept["usage"] = {name: count for name, count in kept["usage"].items() if count is not None}
    for name in ("blocks", "turn_times", "breaks"):
        if name in kept:
            kept[name] = [without_blanks(one) for one in kept[name]]
    return kept


def without_times(facts: Any) -> Any:
    """Omit what a late viewer may not have: also the order of keys that are numbers."""
    kept = {key: facts[key] for key in facts.keys() - OMITTED}
    if "blocks" in kept:
        kept["blocks"] = [without_times(block) for block in kept["blocks"]]
    if "tree" in kept:
        kept["tree"] = sorted((row[:4] for row in kept["tree"]), key=repr)
    return kept
