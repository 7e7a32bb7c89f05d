"""Random turns of a model, as payloads of three APIs, with faults."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

from hypothesis import strategies as st
from pydantic import AfterValidator

from argstream.agent import Streamed, as_tool, tool
from argstream.policy import Policy
from argstream.providers import ProtocolName
from argstream.streaming import make_check
from argstream.testing import cut
from tests import provider_streams as ps
from tests.agent.ordering import LETS_CALLS_RUN
from tests.provider_streams import Payload
from tests.support.provider_rules import signature
from tests.turns import Templates


@tool(idempotent=True)
def write(path: str, content: str = "") -> str:
    return path + content


@tool(read_only=True, start="when_complete")
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


TEMPLATES: Final[dict[ProtocolName, Templates]] = {
    protocol: Templates(protocol) for protocol in ("anthropic", "openai-chat", "openai-responses")
}
TOOLS: Final = (write, now, shell, halve, send, note, letter)
STREAMED: Final = ("note", "letter")
IDEMPOTENT: Final = ("write",)
READ_ONLY: Final = ("now",)
POLICY: Final = Policy.from_toml(
    'default = "allow"\n'
    '[[rules]]\ntool = "shell"\naction = "deny"\nargument = "command"\nprefix = "rm"\n'
    '[[rules]]\nname = "commands"\ntool = "shell"\naction = "ask"\n'
)
JUDGE: Final = make_check([as_tool(one).spec for one in TOOLS], POLICY, on_ask="report")

# What must happen to a call after a turn that allows it. The rules are those of the policy.
Fate = Literal["runs", "asks", "never", "rule asks", "rule denies"]

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
    """Return what must happen to a call if its arguments are complete."""
    fate = _WRITTEN[name].get(text, "never")
    if fate in ("rule asks", "rule denies"):
        by_rule = {"rule asks": "asks", "rule denies": "never"}
        return by_rule[fate] if has_policy else "runs"
    return fate


@dataclass(frozen=True)
class Words:
    text: str
    is_thinking: bool


@dataclass(frozen=True)
class Wanted:
    """A call that the agent runs."""

    name: str
    text: str
    is_closed: bool = True  # the provider marks its end, if the protocol has such a mark


@dataclass(frozen=True)
class Elsewhere:
    """A call that the provider runs."""

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
    st.sampled_from(sorted(LETS_CALLS_RUN)),
    st.sampled_from(["content_filter", "error", "failed", "safety", "malformed_function_call"]),
)
faults: Final = st.sampled_from([None] * 16 + ["hangs up", "error", "unreadable", "raises"])


@dataclass(frozen=True)
class Turn:
    protocol: ProtocolName
    payloads: list[object]
    raises: bool  # whether the source fails after these


@st.composite
def turns(draw: st.DrawFn, number: int) -> Turn:
    """Return a turn. Its IDs may be those of an earlier turn."""
    protocol: ProtocolName = draw(st.sampled_from(list(TEMPLATES)))
    drawn = draw(parts)
    sizes = draw(st.sampled_from([[100], [1], [3, 5], [7, 0, 2]]))
    templates = TEMPLATES[protocol]
    ids = draw(st.sampled_from([f"turn{number}_", "again_"]))
    strands = [
        _write(templates, place, part, f"{ids}{place}", sizes) for place, part in enumerate(drawn)
    ]
    payloads: list[object] = [
        *templates.write("head", id=f"{protocol}_m{number}"),
        *_woven(strands, draw(st.lists(st.integers(0, 3), max_size=12))),
        *end_of(protocol, draw(reasons)),
    ]
    fault = draw(faults)
    if fault is not None:
        place = draw(st.integers(0, len(payloads)))
        unreadable = ["{no json", *payloads[place:]]
        ends: dict[str, list[Any]] = {
            "error": templates.write("error"),
            "unreadable": unreadable,
        }
        payloads = [*payloads[:place], *ends.get(fault, [])]
    return Turn(protocol, payloads, fault == "raises")


def _woven(strands: list[list[Payload]], order: Sequence[int]) -> list[Payload]:
    """Interleave the payloads of parallel turns in this order, then append the rest of each."""
    rest = [iter(strand) for strand in strands]
    taken = [next(rest[place], None) for place in order if place < len(rest)]
    return [*filter(None, taken), *(payload for strand in rest for payload in strand)]


def _write(
    templates: Templates, place: int, part: Part, id_: str, sizes: list[int]
) -> list[Payload]:
    values: dict[str, Any] = {"place": place, "id": id_}
    if isinstance(part, Elsewhere):
        result = templates.write(f"server-{part.result}", **values)
        return [*templates.write("server", **values), *result]
    pieces, values["text"] = cut(part.text, sizes), part.text
    if isinstance(part, Wanted):
        is_closed = part.is_closed
        return templates.write_block("call", pieces, is_closed=is_closed, name=part.name, **values)
    kind = "thinking" if part.is_thinking else "text"
    return templates.write_block(kind, pieces, signature=signature(part.text), **values)


def end_of(protocol: ProtocolName, reason: str | None) -> list[Payload]:
    """Return the end of a response. The Responses API has no stop reasons, but states."""
    match reason:
        case _ if protocol != "openai-responses":
            return TEMPLATES[protocol].write("end", reason=reason)
        case None:
            return [ps.response_ended("incomplete")]
        case "tool_use" | "end_turn":
            return [ps.response_ended()]
        case "failed" | "error":
            return [ps.response_ended("failed", error={"code": "server_error", "message": "Oh"})]
        case _:
            return [ps.response_ended("incomplete", incomplete_details={"reason": reason})]
