"""Turns of a model by chance: what it may say, how each API would send that, and what goes wrong.

They are real payloads, so what the loop is told of them is what it would be told of a provider.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

from hypothesis import strategies as st
from pydantic import AfterValidator

from argstream.agent import Streamed, as_tool, tool
from argstream.policy import Policy
from argstream.providers import ProtocolName
from argstream.streaming import make_judge
from argstream.testing import cut
from tests.agent.ordering import LETS_CALLS_RUN
from tests.provider_streams import (
    Payload,
    arguments_delta,
    arguments_done,
    block_delta,
    block_start,
    block_stop,
    chunk,
    entry,
    input_json,
    item_added,
    item_done,
    message_end,
    message_start,
    response_created,
    response_ended,
    tool_calls,
    tool_use,
)
from tests.support.provider_rules import reasoning_item, signature

# The tools: nothing of them is run here


@tool(idempotent=True)
def write(path: str, content: str = "") -> str:
    return path + content


def now() -> str:
    return "now"


def shell(command: str) -> str:
    return command


def _even(number: int) -> int:
    assert number % 2 == 0
    return number


def halve(number: Annotated[int, AfterValidator(_even)]) -> int:
    return number // 2


@tool(requires_confirmation=True)
def send(to: str) -> str:
    return to


@tool
async def note(title: str, text: Streamed[str]) -> str:
    return title + await text.read()


@tool(requires_confirmation=True)
async def letter(text: Streamed[str]) -> str:
    return await text.read()


TOOLS: Final = (write, now, shell, halve, send, note, letter)
STREAMED: Final = ("note", "letter")
IDEMPOTENT: Final = ("write",)
POLICY: Final = Policy.from_toml(
    'default = "allow"\n'
    '[[rules]]\ntool = "shell"\naction = "deny"\nargument = "command"\nprefix = "rm"\n'
    '[[rules]]\nname = "commands"\ntool = "shell"\naction = "ask"\n'
)
JUDGE: Final = make_judge([as_tool(one).spec for one in TOOLS], POLICY, on_ask="report")

Fate = Literal["runs", "asks", "never", "rule asks", "rule denies"]
"""What must become of a call whose turn lets it: the rules are those of the policy, if any."""

_WRITTEN: Final[dict[str, dict[str, Fate]]] = {
    "write": {
        '{"path": "a.txt"}': "runs",
        '{"content": "é\\n\\ud83d\\ude00", "path": ""}': "runs",
        '"{\\"path\\": \\"twice encoded\\"}"': "runs",
        '{}{"path": "after nothing"}': "runs",
        '{"path": 7, "content": "much"}': "never",
        '{"content": "no path"}': "never",
        '{"path": "a", "mode": "unheard of"}': "never",
        '{"path": a.txt}': "never",
        '{"path": "a.txt", "content": "cu': "never",
        '{"path": "a", "path": "b"}': "never",
        '["a.txt"]': "never",
        "": "never",
    },
    "now": {"": "runs", "{}": "runs", "null": "runs", '{"zone": "UTC"}': "never", "{": "never"},
    "shell": {'{"command": "ls"}': "rule asks", '{"command": "rm -r ."}': "rule denies"},
    "halve": {'{"number": 4}': "runs", '{"number": 3}': "never"},
    "send": {'{"to": "ada"}': "asks", '{"to": ["ada"]}': "never", '{"to": "ad': "never"},
    "note": {
        '{"title": "t", "text": "first second third"}': "runs",
        '{"text": "before its title", "title": "t"}': "runs",
        '{"title": "t", "text": ""}': "runs",
        '{"title": "t", "text": "cut her': "never",
        '{"title": "t", "text": "bad \\x"}': "never",
        '{"title": "t", "text": "more", "and": 1}': "never",
        '{"title": "t", "text": ["no", "text"]}': "never",
        '{"title": 1, "text": "first"}': "never",
    },
    "letter": {'{"text": "Dear Ada"}': "asks", '{"text": "Dea': "never"},
    "unheard_of": {'{"a": 1}': "never"},
}


def fate_of(name: str, text: str, *, has_policy: bool) -> str:
    """What must become of a call if its arguments are found to be whole."""
    fate = _WRITTEN[name].get(text, "never")
    if fate in ("rule asks", "rule denies"):
        by_rule = {"rule asks": "asks", "rule denies": "never"}
        return by_rule[fate] if has_policy else "runs"
    return fate


# What a model says


@dataclass(frozen=True)
class Words:
    text: str
    is_thinking: bool


@dataclass(frozen=True)
class Wanted:
    """A call of one of our tools."""

    name: str
    text: str
    is_closed: bool = True
    """Whether the provider says that it is over, where it says so."""


@dataclass(frozen=True)
class Elsewhere:
    """A call of a tool that the provider runs."""

    result: Literal["found", "failed", "none"]


Part = Words | Wanted | Elsewhere

_all_calls: Final = [
    (name, text, fate) for name, texts in _WRITTEN.items() for text, fate in texts.items()
]


def _calls(*fates: Fate, is_closed: Sequence[bool] = (True,)) -> st.SearchStrategy[Wanted]:
    found = [Wanted(name, text) for name, text, fate in _all_calls if fate in fates]
    closed = st.sampled_from(is_closed)
    return st.builds(
        lambda call, is_closed: replace(call, is_closed=is_closed), st.sampled_from(found), closed
    )


parts: Final[st.SearchStrategy[list[Part]]] = st.lists(
    st.one_of(
        _calls("runs", is_closed=(True, True, True, False)),
        _calls("asks", "rule asks"),
        _calls("never", "rule denies", is_closed=(True, True, False)),
        st.builds(Words, st.sampled_from(["I look.", " ", "Hm\n"]), st.booleans()),
        st.builds(Elsewhere, st.sampled_from(["found", "failed", "none"])),
    ),
    max_size=4,
)
reasons: Final = st.one_of(
    st.just("tool_use"),
    st.sampled_from(["end_turn", "max_tokens", "pause_turn", "refusal", "nobody_knows", None]),
    st.sampled_from(
        sorted(
            {
                *LETS_CALLS_RUN,
                "content_filter",
                "error",
                "failed",
                "safety",
                "malformed_function_call",
            }
        )
    ),
)
faults: Final = st.sampled_from([None] * 16 + ["hangs up", "error", "unreadable", "raises"])


@dataclass(frozen=True)
class Turn:
    """A turn as it arrives."""

    protocol: ProtocolName
    payloads: list[object]
    raises: bool
    """Whether the source fails at the end of these."""


@st.composite
def turns(draw: st.DrawFn, number: int) -> Turn:
    """A turn, the how manieth it may be: ids may come again in each."""
    protocol: ProtocolName = draw(st.sampled_from(list(_WRITERS)))
    said = draw(parts)
    sizes = draw(st.sampled_from([[100], [1], [3, 5], [7, 0, 2]]))
    write_part, head, tail = _WRITERS[protocol]
    ids = draw(st.sampled_from([f"turn{number}_", "again_"]))
    strands = [write_part(place, part, f"{ids}{place}", sizes) for place, part in enumerate(said)]
    payloads: list[object] = [
        head(f"m{number}"),
        *_woven(strands, draw(st.lists(st.integers(0, 3), max_size=12))),
        *tail(draw(reasons)),
    ]
    fault = draw(faults)
    if fault is not None:
        place = draw(st.integers(0, len(payloads)))
        ends: dict[str, list[object]] = {
            "error": [_ERRORS[protocol]],
            "unreadable": ["{no json", *payloads[place:]],
        }
        payloads = [*payloads[:place], *ends.get(fault, [])]
    return Turn(protocol, payloads, fault == "raises")


def _woven(strands: list[list[Payload]], order: Sequence[int]) -> list[Payload]:
    """Take from the strands in this order, as long as they last; then the rest of each."""
    rest = [iter(strand) for strand in strands]
    taken = [next(rest[place], None) for place in order if place < len(rest)]
    return [*filter(None, taken), *(payload for strand in rest for payload in strand)]


# How Anthropic sends it


def _anthropic(place: int, part: Part, id_: str, sizes: list[int]) -> list[Payload]:
    index = 2 * place
    match part:
        case Words(text, is_thinking=True):
            return [
                block_start(index, "thinking", thinking="", signature=""),
                *(block_delta(index, "thinking_delta", thinking=one) for one in cut(text, sizes)),
                block_delta(index, "signature_delta", signature=signature(text)),
                block_stop(index),
            ]
        case Words(text):
            deltas = [block_delta(index, "text_delta", text=one) for one in cut(text, sizes)]
            return [block_start(index, "text", text=""), *deltas, block_stop(index)]
        case Wanted(name, text, is_closed):
            deltas = [input_json(index, one) for one in cut(text, sizes)]
            return [tool_use(index, name, id_), *deltas, *[block_stop(index)] * is_closed]
        case Elsewhere(result):
            id_ = f"srvtoolu_{id_}"
            call = [
                block_start(index, "server_tool_use", id=id_, name="web_search", input={}),
                input_json(index, '{"query": "q"}'),
                block_stop(index),
            ]
            failed = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
            content: Any = failed if result == "failed" else [{"type": "web_search_result"}]
            type_ = "web_search_tool_result"
            found = block_start(index + 1, type_, tool_use_id=id_, content=content)
            return call if result == "none" else [*call, found, block_stop(index + 1)]


def _anthropic_end(reason: str | None) -> list[Payload]:
    return message_end(reason)  # type: ignore[arg-type]  # some send none


# How OpenAI does, in Chat Completions


def _chat(place: int, part: Part, id_: str, sizes: list[int]) -> list[Payload]:
    match part:
        case Words(text, is_thinking):
            pieces = cut(text, sizes)
            if is_thinking:
                return [chunk(reasoning_content=one) for one in pieces]
            return [chunk(content=one) for one in pieces]
        case Wanted(name, text):
            start = tool_calls(entry("", index=place, id=id_, name=name, type="function"))
            pieces = cut(text, sizes)
            return [start, *(tool_calls(entry(one, index=place)) for one in pieces)]
        case Elsewhere():
            return []


def _chat_start(id_: str) -> Payload:
    return {**chunk(role="assistant", content=""), "id": f"chatcmpl-{id_}"}


def _chat_end(reason: str | None) -> list[Payload]:
    return [chunk(finish=reason)]


# And in Responses


def _responses(place: int, part: Part, id_: str, sizes: list[int]) -> list[Payload]:
    item: Payload
    match part:
        case Words(text, is_thinking=True):
            item = reasoning_item(f"rs_{id_}", text)
            type_ = "response.reasoning_summary_text.delta"
            of_item = {"type": type_, "output_index": place, "summary_index": 0}
            deltas = [{**of_item, "delta": one} for one in cut(text, sizes)]
            return [item_added(place, **item | {"summary": []}), *deltas, item_done(place, **item)]
        case Words(text):
            item = {"type": "message", "id": f"msg_{id_}", "role": "assistant"}
            said = {"type": "output_text", "annotations": [], "text": text}
            of_item = {"type": "response.output_text.delta", "output_index": place}
            deltas = [{**of_item, "content_index": 0, "delta": one} for one in cut(text, sizes)]
            start = item_added(place, **item, content=[])
            return [start, *deltas, item_done(place, **item, content=[said])]
        case Wanted(name, text, is_closed):
            item = {"type": "function_call", "id": f"fc_{id_}", "call_id": id_, "name": name}
            deltas = [arguments_delta(place, one) for one in cut(text, sizes)]
            end = [
                arguments_done(place, text),
                item_done(place, **item, arguments=text, status="completed"),
            ]
            return [item_added(place, **item, arguments=""), *deltas, *(end if is_closed else [])]
        case Elsewhere(result):
            item = {"type": "mcp_call", "id": f"mcp_{id_}", "name": "ask", "server_label": "s"}
            failed = {"type": "mcp_protocol_error"} if result == "failed" else None
            done = {"output": None if failed else "found", "error": failed}
            type_ = "response.mcp_call_arguments"
            return [
                item_added(place, **item, arguments=""),
                {"type": f"{type_}.delta", "output_index": place, "delta": "{}"},
                {"type": f"{type_}.done", "output_index": place, "arguments": "{}"},
                *([] if result == "none" else [item_done(place, **item, arguments="{}", **done)]),
            ]


def _responses_end(reason: str | None) -> list[Payload]:
    match reason:
        case None:
            return [response_ended("incomplete")]
        case "tool_use" | "end_turn":
            return [response_ended()]
        case "failed" | "error":
            return [response_ended("failed", error={"code": "server_error", "message": "Oh"})]
        case _:
            return [response_ended("incomplete", incomplete_details={"reason": reason})]


_WRITERS: Final[
    dict[
        ProtocolName,
        tuple[
            Callable[[int, Part, str, list[int]], list[Payload]],
            Callable[[str], Payload],
            Callable[[str | None], list[Payload]],
        ],
    ]
] = {
    "anthropic": (_anthropic, lambda id_: message_start(f"msg_{id_}"), _anthropic_end),
    "openai-chat": (_chat, _chat_start, _chat_end),
    "openai-responses": (_responses, lambda id_: response_created(f"resp_{id_}"), _responses_end),
}
_ERRORS: Final[dict[ProtocolName, Payload]] = {
    "anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    "openai-chat": {"error": {"message": "Oh", "type": "server_error", "code": "server_error"}},
    "openai-responses": {"type": "error", "code": "server_error", "message": "Oh"},
}
