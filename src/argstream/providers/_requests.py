"""What a model is asked, in words that belong to no provider, and what all request writers share.

A history becomes turns that alternate, in which each call has its result right after it. All APIs
want that, and their errors about it are hard to read; so a history that a user has made is checked
here, once for all of them. Calls get the ids and names under which an API takes them.
"""

import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Struct, structs

from argstream.errors import UsageError
from argstream.history import CallPart, Item, Message, Part, ResultPart
from argstream.providers import ProtocolName
from argstream.providers._deltas import RUN_BY_PROVIDER

# What the APIs call how hard a model thinks; which of them a model takes is for it to say.
_EFFORTS: Final = ("minimal", "low", "medium", "high", "xhigh", "max")
_ApiName: TypeAlias = Literal["anthropic", "openai-chat", "openai-responses"]
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
# Anthropic's, each with the field that it is checked by; Cohere's have the same type.
_THOUGHTS: Final = {"thinking": "signature", "redacted_thinking": "data"}
_ANTHROPIC: Final = {
    "text",
    "tool_use",
    "server_tool_use",
    "mcp_tool_use",
    "container_upload",
    "image",
    "document",
    "search_result",
}
_RESPONSES: Final = {
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "code_interpreter_call",
    "web_search_call",
    "file_search_call",
    "image_generation_call",
    "computer_call",
    "computer_call_output",
    "local_shell_call",
    "local_shell_call_output",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "additional_tools",
    "program",
    "program_output",
    "input_image",
    "input_file",
}
_CHAT_FIELDS: Final = {"field", "reasoning_details", "extra_content"}
_CHAT_PARTS: Final = {"image_url", "input_audio", "file"}
_SPOKEN: Final = {"output_text", "refusal"}
_MESSAGE_IDS: Final[dict[str, _ApiName]] = {"msg_": "anthropic", "resp_": "openai-responses"}
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high"]
BUDGETS: Final[dict[str, int]] = {"low": 2048, "medium": 8192, "high": 16384}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NOTHING: Final = "(no output)"  # some servers refuse an empty text, and no model minds this one


class ModelSettings(Struct, frozen=True, kw_only=True):
    """How a model is to answer. What is not set is left to the provider."""

    max_tokens: int | None = None
    """At most so many are written. Anthropic wants a number, so there it is 8192 if not set."""
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: tuple[str, ...] = ()
    tool_choice: str | None = None
    """Whether it calls tools: ``auto``, ``any`` (at least one), ``none``, or one by its name."""
    parallel_tool_calls: bool | None = None
    thinking: int | Literal["low", "medium", "high"] | None = None
    """How much it may think: tokens (Anthropic), or an effort (OpenAI and compatible servers)."""
    headers: Mapping[str, str] = {}
    """Sent with each request, besides those that the API needs."""
    extra: Mapping[str, Any] = {}
    """Fields of the request's body, as the provider calls them; they win."""

    def __post_init__(self) -> None:
        """Raise UsageError for what no API takes."""
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError(f"max_tokens is a number of 1 or more, not {self.max_tokens!r}")
        thinking: object = self.thinking
        is_tokens = type(thinking) is int and thinking >= 0
        if thinking is not None and not is_tokens and thinking not in _EFFORTS:
            raise UsageError(
                f"thinking is a number of tokens from 0, or one of {', '.join(_EFFORTS)}; not "
                f"{thinking!r}"
            )

    def __repr__(self) -> str:
        """Show what is set, but of headers only the names: a value may be a token."""
        shown = (f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"ModelSettings({', '.join(shown)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Show the same to rich: what a struct would tell it has the values of headers in it."""
        return [
            (name, list(value) if name == "headers" else value)
            for name, value in structs.asdict(self).items()
            if value not in (None, (), {})
        ]


class OfferedTool(Struct, frozen=True, kw_only=True):
    """A tool that the model may call."""

    name: str
    description: str = ""
    schema: Mapping[str, Any]
    eager_input_streaming: bool | None = None
    """Whether its input is streamed without being buffered (Anthropic); None: as the API does."""


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One turn that is asked of a model."""

    messages: tuple[Message, ...]
    """The last one is the user's, or the assistant's own if it paused."""
    instructions: str = ""
    tools: tuple[OfferedTool, ...] = ()
    settings: ModelSettings = ModelSettings()


class Model(Protocol):
    """A model that can be asked. Any object with these attributes can be one."""

    name: str
    """Shown to users, such as ``anthropic:claude-opus-4-7``."""
    protocol: ProtocolName
    """Of what it answers; ``auto`` if that is to be detected."""

    def stream(self, request: ModelRequest) -> AsyncIterator[object]:
        """Ask for a turn, and yield what the provider sends: bytes, payloads or an SDK's events.

        Raises ``ProviderError`` if no answer begins. An iterator that is closed closes the
        connection.
        """


class Api(Protocol):
    """Writes the requests of one API. Pure: the same request gives the same body."""

    protocol: ProtocolName  # of the answers
    path: str  # below the base URL that its own SDK would be given

    def headers(self, key: str | None) -> dict[str, str]: ...

    def body(self, model: str, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a request for a stream.

        Raises ``UsageError`` if the history is one that no API takes, such as a call without its
        result, or if the settings contradict each other.
        """


def request_body(
    request: ModelRequest, api: _ApiName, *, model: str, server: str | None = None
) -> dict[str, Any]:
    """Return the body of a request: messages, tools, settings, and ``stream``, which is true.

    ``server`` names a server of the Chat Completions API other than OpenAI, as ``make_model`` does
    (``deepseek``, ``mistral``, ``vllm`` …): they do not accept the same fields. Headers of the
    settings are not in it.

    >>> from argstream.history import Message, TextPart
    >>> question = Message(role="user", parts=(TextPart(text="hi"),))
    >>> body = request_body(ModelRequest(messages=(question,)), "openai-chat", model="gpt-5")
    >>> body["messages"]
    [{'role': 'user', 'content': 'hi'}]
    """
    from argstream.providers.anthropic_requests import AnthropicApi
    from argstream.providers.openai_requests import CHAT_COMPATIBILITY, ChatApi, ResponsesApi

    apis: dict[str, Api] = {
        "anthropic": AnthropicApi(),
        "openai-chat": ChatApi(CHAT_COMPATIBILITY.get("openai" if server is None else server)),
        "openai-responses": ResponsesApi(),
    }
    if api not in apis:
        raise UsageError(f"no API is called {api!r}; there are: {', '.join(apis)}")
    if server is not None and api != "openai-chat":
        raise UsageError("server: only openai-chat has servers that differ")
    return apis[api].body(model, request)


class Said(NamedTuple):
    part: Part
    message: Message

    @property
    def origin(self) -> _ApiName | None:
        return origin_of(self.part.item, self.message.id)


class Answer(NamedTuple):
    """A call of the turn before, and what came of it."""

    call: CallPart
    wire_id: str
    result: ResultPart


class Turn(NamedTuple):
    """All that one side says before the other one does."""

    role: Literal["user", "assistant"]
    said: list[Said]  # in order; of a user, all but the results of calls
    wire_ids: dict[str, str]  # the API's id for each of ours, of calls that a client runs
    answers: list[Answer]  # of a user: the results of the calls of the turn before


class CallIds:
    """The ids under which calls go to an API: the provider's own, unless the API refuses it.

    Some servers count from 0 in each turn, and a call that another provider has made may have an id
    that is too long here. The same history always gives the same ids, also when it has grown.
    """

    def __init__(self, pattern: str, *, unique: bool) -> None:
        # An id must match all of the pattern. If unique, no id comes twice in the whole history.
        self._pattern = re.compile(pattern)
        self._unique = unique
        self._taken: set[str] = set()

    def for_calls(self, calls: Iterable[CallPart]) -> dict[str, str]:
        """Return the API's id for each of our ids."""
        if not self._unique:
            self._taken = set()
        ids: dict[str, str] = {}
        for call in calls:
            if call.call_id in ids:
                raise UsageError(f"two calls of one turn have the id {call.call_id!r}")
            ids[call.call_id] = self._id_of(call)
        return ids

    def _id_of(self, call: CallPart) -> str:
        id_ = own_id(call)
        attempt = 0
        while id_ in self._taken or not self._pattern.fullmatch(id_):
            # Nine letters and digits are what every API takes; Mistral takes nothing else.
            seed = f"{own_id(call)} {attempt}".encode(errors="surrogatepass")
            id_ = hashlib.sha256(seed).hexdigest()[:9]
            attempt += 1
        self._taken.add(id_)
        return id_


def own_id(call: CallPart) -> str:
    """Return the id under which the provider that made a call knows it."""
    item = call.item or {}
    ids = (item.get("call_id"), item.get("id"))
    return next((id_ for id_ in ids if isinstance(id_, str) and id_), call.call_id)


def wire_name(name: str, offered: Collection[str]) -> str:
    """Return a name that an API accepts: a model may have called a tool that was not offered."""
    if name in offered or _NAME.fullmatch(name):
        return name
    return _NOT_IN_NAMES.sub("_", name)[:64] or "unnamed"


def turns_of(messages: Iterable[Message], ids: CallIds) -> list[Turn]:
    """Join neighbours of one role, and find the result of each call.

    Raises ``UsageError``, which names the call, if there is none right after it, or if a result
    belongs to no call.
    """
    turns: list[Turn] = []
    open_calls: dict[str, CallPart] = {}  # of the turn before, that a client runs
    by_provider: set[str] = set()
    wire_ids: dict[str, str] = {}
    for role, group in groupby(messages, key=lambda message: message.role):
        said = [Said(part, message) for message in group for part in message.parts]
        if role == "assistant":
            calls = [part for part, _ in said if isinstance(part, CallPart)]
            by_provider |= {call.call_id for call in calls if call.kind in RUN_BY_PROVIDER}
            clients = [call for call in calls if call.kind not in RUN_BY_PROVIDER]
            wire_ids = ids.for_calls(clients)
            open_calls = {call.call_id: call for call in clients}
            turns.append(Turn(role, said, wire_ids, []))
        else:
            answers = list(_answers(said, open_calls, wire_ids, by_provider))
            _check_all_answered(open_calls, answers)
            open_calls = {}
            rest = [one for one in said if not isinstance(one.part, CallPart | ResultPart)]
            turns.append(Turn(role, rest, {}, answers))
    _check_all_answered(open_calls, [])
    return turns


def _answers(
    said: list[Said],
    calls: dict[str, CallPart],
    wire_ids: dict[str, str],
    by_provider: Collection[str],
) -> Iterator[Answer]:
    answered: set[str] = set()
    for part, _ in said:
        if not isinstance(part, ResultPart):
            continue
        id_ = part.call_id
        if id_ in answered:
            raise UsageError(f"the call {id_!r} has two results: give it one")
        if id_ in calls:
            answered.add(id_)
            yield Answer(calls[id_], wire_ids[id_], part)
        elif id_ not in by_provider:
            raise UsageError(
                f"there is a result of the call {id_!r}, but no such call in the assistant's "
                "message before it"
            )


def _check_all_answered(calls: dict[str, CallPart], answers: list[Answer]) -> None:
    answered = {answer.call.call_id for answer in answers}
    for id_, call in calls.items():
        if id_ not in answered:
            raise UsageError(
                f"the call {id_!r} of {call.name!r} has no result: put a ResultPart with its "
                "call_id into the user's message right after it"
            )


def origin_of(item: Item | None, message_id: str = "") -> _ApiName | None:
    """Return which of the APIs that we can ask made an item of this message, if one did."""
    if not item:
        return None
    type_ = item.get("type")
    if "index" in item or item.get("object") == "realtime.item":
        return None  # LangChain's and Realtime's copies of what others made
    if not isinstance(type_, str):
        if item.keys() & _CHAT_FIELDS:
            return "openai-chat"
        return "anthropic" if "container" in item else None
    if type_ in _CHAT_PARTS:
        return "openai-chat"
    if type_ in _THOUGHTS:
        # A thought that was cut has no signature, and the API refuses it without one.
        return "anthropic" if item.get(_THOUGHTS[type_]) else None
    if type_ == "compaction":
        return "anthropic" if "content" in item else "openai-responses"
    if type_ in _ANTHROPIC or (type_.endswith("tool_result") and "tool_use_id" in item):
        return "anthropic"
    if type_ in _RESPONSES or type_ in _CHECKED:
        return "openai-responses" if _CHECKED.get(type_, bool)(item) else None
    return next((api for start, api in _MESSAGE_IDS.items() if message_id.startswith(start)), None)


def _has_call_id(item: Item) -> bool:
    return bool(item.get("call_id"))


def _has_summary(item: Item) -> bool:
    return isinstance(item.get("summary"), list)


def _is_spoken(item: Item) -> bool:
    content = item.get("content")
    return isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") in _SPOKEN for part in content
    )


# What others call by the same name as Responses does: Gemini a call, LangChain a thought.
_CHECKED: Final[dict[str, Callable[[Item], bool]]] = {
    "function_call": _has_call_id,
    "custom_tool_call": _has_call_id,
    "apply_patch_call": _has_call_id,
    "reasoning": _has_summary,
    "message": _is_spoken,
}


def effort_of(settings: ModelSettings) -> Effort | None:
    """Return the effort that was set, or that corresponds to the number of tokens."""
    thinking = settings.thinking
    if not isinstance(thinking, int):
        return thinking
    if thinking == 0:
        return "none"
    if thinking <= BUDGETS["low"]:
        return "low"
    return "medium" if thinking <= BUDGETS["medium"] else "high"


def schema_of(tool: OfferedTool) -> dict[str, Any]:
    """Return the schema of a tool's arguments. All APIs require that it describes an object."""
    schema = dict(tool.schema)
    if schema.setdefault("type", "object") != "object":
        raise UsageError(
            f'the schema of the tool {tool.name!r} must have "type": "object", not '
            f"{schema['type']!r}: arguments have names"
        )
    if "$ref" not in schema:
        schema.setdefault("properties", {})  # OpenAI refuses a schema without
    return schema


def choice_of(request: ModelRequest) -> str | None:
    """Return the choice of tools; raise ``UsageError`` if it names a tool that is not offered."""
    choice, names = request.settings.tool_choice, [tool.name for tool in request.tools]
    is_known = choice in (None, "auto", "any", "none", *names)
    if is_known or "tools" in request.settings.extra:  # where there may be others
        return choice
    raise UsageError(
        f"tool_choice: no tool is called {choice!r}: say auto, any, none, or the name of one, of "
        f"which there are: {', '.join(names)}"
    )


def sendable(text: str) -> str:
    """Replace what cannot be encoded: names of files may hold surrogates."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def result_text(part: ResultPart) -> str:
    """Return the note of a result, if it has one, and the result, a text or else JSON."""
    if isinstance(part.result, str):
        text = part.result
    else:
        text = _written(part.result, f"the result of the call {part.call_id}")
    text = "\n\n".join(piece for piece in (part.note, text) if piece.strip())
    return sendable(text) or _NOTHING


def arguments_object(call: CallPart) -> dict[str, Any]:
    """Return the arguments of a call as an object. Free text is put into one."""
    arguments = call.arguments
    return arguments if isinstance(arguments, dict) else {"input": sendable(arguments)}


def arguments_text(call: CallPart) -> str:
    """Return the arguments of a call as JSON text: exactly what came, if that is what it meant.

    Servers parse what they get back. So a text that is cut or malformed is told in an object
    (``INVALID_JSON``), and one that was read in another way than as it stands is written anew.
    """
    arguments = arguments_object(call)
    if call.verdict == "complete" and _read(call.raw) == arguments:
        return call.raw
    return _written(arguments, f"what the call {call.call_id} was called with")


def _read(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None  # then it is not what the call was taken for


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _written(value: object, what: str) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{what} cannot be written as JSON: {error}") from None
    return sendable(text)
