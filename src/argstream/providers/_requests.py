"""Model requests in a provider-neutral form, and the code that all request writers share.

A history becomes alternating turns in which each call is followed by its result. All APIs require
that, and their errors about it are hard to read, so the history is checked here. Calls get IDs and
names that the API accepts.
"""

import hashlib
import json
import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Struct, structs

from argstream.errors import UsageError
from argstream.history import CallPart, Item, Message, Part, ResultPart
from argstream.providers import ProtocolName
from argstream.providers._deltas import RUN_BY_PROVIDER
from argstream.providers._payloads import json_or_none
from argstream.sanitise import replace_lone_surrogates_in_json

# Reasoning efforts of all APIs. Which of them a model accepts is checked by its API.
_EFFORTS: Final = ("minimal", "low", "medium", "high", "xhigh", "max")
_ApiName: TypeAlias = Literal["anthropic", "openai-chat", "openai-responses"]
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
# Anthropic's thinking blocks and the field that each must have; Cohere's have the same type.
_THOUGHTS: Final = {"thinking": "signature", "redacted_thinking": "data"}
_TYPES: Final[dict[_ApiName, str]] = {
    "anthropic": "text tool_use server_tool_use mcp_tool_use container_upload image document "
    "search_result",
    "openai-chat": "image_url input_audio file",
    "openai-responses": "mcp_call mcp_list_tools mcp_approval_request mcp_approval_response "
    "code_interpreter_call web_search_call file_search_call image_generation_call computer_call "
    "computer_call_output local_shell_call local_shell_call_output shell_call shell_call_output "
    "tool_search_call tool_search_output additional_tools program program_output input_image "
    "input_file",
}
_ORIGINS: Final = {type_: api for api, types in _TYPES.items() for type_ in types.split()}
_CHAT_FIELDS: Final = {"field", "reasoning_details", "extra_content"}
# Types that other APIs use as well: Gemini for calls, LangChain for reasoning.
_SHARED_CALLS: Final = {"function_call", "custom_tool_call", "apply_patch_call"}
_MESSAGE_PARTS: Final = {"output_text", "refusal"}
_MESSAGE_IDS: Final[dict[str, _ApiName]] = {"msg_": "anthropic", "resp_": "openai-responses"}
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high"]
BUDGETS: Final[dict[str, int]] = {"low": 2048, "medium": 8192, "high": 16384}
_NOTHING: Final = "(no output)"  # some servers reject an empty text


class ModelSettings(Struct, frozen=True, kw_only=True):
    """Options of a model request. The provider decides what is not set."""

    max_tokens: int | None = None
    """Limit of output tokens. Anthropic requires one: 8192 if not set."""
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: tuple[str, ...] = ()
    tool_choice: str | None = None
    """Whether the model calls tools: ``auto``, ``any`` (at least one), ``none``, or a tool name."""
    parallel_tool_calls: bool | None = None
    provider_tools: tuple[Mapping[str, Any], ...] = ()
    """Tools that the provider defines, such as its tool search, in the form of its API. They are
    sent in addition to the agent's tools."""
    thinking: int | Literal["low", "medium", "high"] | None = None
    """Thinking budget in tokens (Anthropic), or an effort (OpenAI and compatible servers)."""
    headers: Mapping[str, str] = {}
    """Sent with each request, in addition to those that the API requires."""
    extra: Mapping[str, Any] = {}
    """Fields of the request body, as the provider names them. They override all others."""

    def __post_init__(self) -> None:
        """Raise UsageError for values that no API accepts."""
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError(f"max_tokens must be at least 1, not {self.max_tokens!r}")
        thinking: object = self.thinking
        is_tokens = type(thinking) is int and thinking >= 0
        if thinking is not None and not is_tokens and thinking not in _EFFORTS:
            raise UsageError(
                f"thinking must be a number of tokens or one of {', '.join(_EFFORTS)}, "
                f"not {thinking!r}"
            )

    def __repr__(self) -> str:
        """Show the values that are set, without header values: one may be a token."""
        shown = (f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"ModelSettings({', '.join(shown)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return the same for rich. The default of a struct would show header values."""
        return [
            (name, list(value) if name == "headers" else value)
            for name, value in structs.asdict(self).items()
            if value not in (None, (), {})
        ]


class OfferedTool(Struct, frozen=True, kw_only=True):
    """A tool that the model may call. An option is sent only to APIs that have it."""

    name: str
    description: str = ""
    schema: Mapping[str, Any]
    strict: bool | None = None
    """Whether the API enforces the schema while the model writes. None: its default, except that
    Responses enforces each schema that it accepts as strict."""
    eager_input_streaming: bool | None = None
    """Whether input is streamed without buffering (Anthropic). None: the API's default."""
    defer_loading: bool = False
    """Whether the model finds the tool with the API's tool search (Anthropic, Responses)."""
    allowed_callers: tuple[str, ...] = ()
    """``direct``, ``programmatic`` (Responses), ``code_execution_…`` (Anthropic)."""
    input_examples: tuple[Mapping[str, Any], ...] = ()
    """Arguments of typical calls (Anthropic)."""


class ModelRequest(Struct, frozen=True, kw_only=True):
    """A request for one turn of a model."""

    messages: tuple[Message, ...]
    """The last one is from the user, or from the assistant if its turn was paused."""
    instructions: str = ""
    tools: tuple[OfferedTool, ...] = ()
    settings: ModelSettings = ModelSettings()


class Model(Protocol):
    """The interface of a model. Any object with these attributes can be used."""

    name: str
    """Shown to users, such as ``anthropic:claude-opus-4-7``."""
    protocol: ProtocolName
    """The protocol of the responses; ``auto`` to detect it."""

    def stream(self, request: ModelRequest) -> AsyncIterator[object]:
        """Request a turn and yield the response: bytes, payloads or SDK events.

        Raises ``ProviderError`` if no response begins. Closing the iterator closes the connection.
        """


class Api(Protocol):
    """Writes the requests of one API. Pure: the same request has the same body."""

    protocol: ProtocolName  # of the responses
    path: str  # relative to the base URL that the provider's SDK uses

    def headers(self, key: str | None) -> dict[str, str]: ...

    def body(self, model: str, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a streaming request.

        Raises ``UsageError`` if no API would accept the history, for example a call without a
        result, or if the settings contradict each other.
        """


def request_body(
    request: ModelRequest, api: _ApiName, *, model: str, server: str | None = None
) -> dict[str, Any]:
    """Return the body of a request: messages, tools, settings, and ``stream``, which is true.

    ``server`` is the name of a Chat Completions server other than OpenAI, as in ``make_model``
    (``deepseek``, ``mistral``, ``vllm`` …), because servers accept different fields. Headers of
    the settings are not part of the body.

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
        raise UsageError(f"unknown API {api!r}. Known APIs: {', '.join(apis)}")
    if server is not None and api != "openai-chat":
        raise UsageError(f"server can be used only with openai-chat, not with {api!r}")
    return apis[api].body(model, request)


class TurnPart(NamedTuple):
    part: Part
    message: Message

    @property
    def origin(self) -> _ApiName | None:
        return origin_of(self.part.item, self.message.id)


class Answer(NamedTuple):
    """A call of the previous turn and its result."""

    call: CallPart
    wire_id: str
    result: ResultPart


class Turn(NamedTuple):
    """Consecutive messages of one role."""

    role: Literal["user", "assistant"]
    parts: list[TurnPart]  # without the results in ``answers``
    wire_ids: dict[str, str]  # assistant: the API's ID for each call ID, of calls that clients run
    answers: list[Answer]  # user: the results of the calls of the previous turn


class CallIds:
    """Call IDs for an API: the provider's own ID, unless the API would reject it.

    Some servers count from 0 in each turn, and an ID of another provider may be too long. The IDs
    of a history do not change when the history grows.
    """

    def __init__(self, pattern: str, *, unique: bool) -> None:
        # An ID must match the whole pattern. ``unique``: within the history, not only the turn.
        self._pattern = re.compile(pattern)
        self._unique = unique
        self._taken: set[str] = set()

    def for_calls(self, calls: Iterable[CallPart]) -> dict[str, str]:
        if not self._unique:
            self._taken = set()
        ids: dict[str, str] = {}
        for call in calls:
            if call.call_id in ids:
                raise UsageError(f"two calls of one turn have the ID {call.call_id!r}")
            ids[call.call_id] = self._id_of(call)
        return ids

    def _id_of(self, call: CallPart) -> str:
        id_ = own_id(call)
        attempt = 0
        while id_ in self._taken or not self._pattern.fullmatch(id_):
            # Every API accepts nine letters and digits; Mistral accepts nothing else.
            seed = f"{own_id(call)} {attempt}".encode(errors="surrogatepass")
            id_ = hashlib.sha256(seed).hexdigest()[:9]
            attempt += 1
        self._taken.add(id_)
        return id_


def own_id(call: CallPart) -> str:
    """Return the ID that the provider of a call uses for it."""
    item = call.item or {}
    ids = (item.get("call_id"), item.get("id"))
    return next((id_ for id_ in ids if isinstance(id_, str) and id_), call.call_id)


def wire_name(name: str, offered: Collection[str]) -> str:
    """Return a name that APIs accept: the model may have called a tool that was not offered."""
    if name in offered or _NAME.fullmatch(name):
        return name
    return _NOT_IN_NAMES.sub("_", name)[:64] or "unnamed"


def turns_of(messages: Iterable[Message], ids: CallIds) -> list[Turn]:
    """Join consecutive messages of one role, and find the result of each call.

    Raises ``UsageError`` for a call without a result in the next turn, and for a result without a
    call.
    """
    turns: list[Turn] = []
    open_calls: dict[str, CallPart] = {}  # calls of the previous turn that a client runs
    by_provider: set[str] = set()
    wire_ids: dict[str, str] = {}
    for role, group in groupby(messages, key=lambda message: message.role):
        parts = [TurnPart(part, message) for message in group for part in message.parts]
        if role == "assistant":
            calls = [part for part, _ in parts if isinstance(part, CallPart)]
            by_provider |= {call.call_id for call in calls if call.kind in RUN_BY_PROVIDER}
            clients = [call for call in calls if call.kind not in RUN_BY_PROVIDER]
            wire_ids = ids.for_calls(clients)
            open_calls = {call.call_id: call for call in clients}
            turns.append(Turn(role, parts, wire_ids, []))
        else:
            answers = _answers(parts, open_calls, wire_ids, by_provider)
            _refuse_unanswered(open_calls)
            rest = [one for one in parts if not isinstance(one.part, CallPart | ResultPart)]
            turns.append(Turn(role, rest, {}, answers))
    _refuse_unanswered(open_calls)
    return turns


def _answers(
    parts: list[TurnPart],
    calls: dict[str, CallPart],
    wire_ids: dict[str, str],
    by_provider: Collection[str],
) -> list[Answer]:
    """Return the results of the open calls, and remove these from ``calls``."""
    answers: dict[str, Answer] = {}
    for part, _ in parts:
        if not isinstance(part, ResultPart):
            continue
        id_ = part.call_id
        if id_ in answers:
            raise UsageError(f"call {id_!r} has two results. Pass only one.")
        if id_ in calls:
            answers[id_] = Answer(calls.pop(id_), wire_ids[id_], part)
        elif id_ not in by_provider:
            raise UsageError(
                f"no call for the result with call_id {id_!r}. The call must be in the "
                "assistant's message before it."
            )
    return list(answers.values())


def _refuse_unanswered(calls: dict[str, CallPart]) -> None:
    for id_, call in calls.items():
        raise UsageError(
            f"call {id_!r} of {call.name!r} has no result. Add a ResultPart with its call_id to "
            "the user's message after it."
        )


def origin_of(item: Item | None, message_id: str = "") -> _ApiName | None:
    """Return the API that created an item of this message; None if it is another one."""
    if not item:
        return None
    type_ = item.get("type")
    if "index" in item or item.get("object") == "realtime.item":
        return None  # copies by LangChain and Realtime of another API's items
    if not isinstance(type_, str):
        if item.keys() & _CHAT_FIELDS:
            return "openai-chat"
        return "anthropic" if "container" in item else None
    if type_ in _ORIGINS:
        return _ORIGINS[type_]
    if type_ in _THOUGHTS:
        # The API rejects thinking without a signature, which it lacks if it was cut.
        return "anthropic" if item.get(_THOUGHTS[type_]) else None
    if type_ == "compaction":
        return "anthropic" if "content" in item else "openai-responses"
    if type_.endswith("tool_result") and "tool_use_id" in item:
        return "anthropic"
    if type_ in ("reasoning", "message", *_SHARED_CALLS):
        return "openai-responses" if _is_of_responses(item, type_) else None
    return next((api for start, api in _MESSAGE_IDS.items() if message_id.startswith(start)), None)


def _is_of_responses(item: Item, type_: str) -> bool:
    if type_ == "reasoning":
        return isinstance(item.get("summary"), list)
    if type_ != "message":
        return bool(item.get("call_id"))
    content = item.get("content")
    return isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") in _MESSAGE_PARTS for part in content
    )


def effort_of(settings: ModelSettings) -> Effort | None:
    """Return the effort setting, or the effort that corresponds to the number of tokens."""
    thinking = settings.thinking
    if not isinstance(thinking, int):
        return thinking
    if thinking == 0:
        return "none"
    if thinking <= BUDGETS["low"]:
        return "low"
    return "medium" if thinking <= BUDGETS["medium"] else "high"


def sampling_of(settings: ModelSettings, max_tokens: str, stop: str = "") -> dict[str, Any]:
    """Return the sampling options that are set. The APIs have two of them under other names."""
    fields = {
        max_tokens: settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        stop: list(settings.stop_sequences),
    }
    return set_fields(fields)


def set_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


def schema_of(tool: OfferedTool) -> dict[str, Any]:
    """Return the schema of a tool's arguments. All APIs require that it describes an object."""
    schema = dict(tool.schema)
    if schema.setdefault("type", "object") != "object":
        raise UsageError(
            f'the schema of tool {tool.name!r} must have "type": "object", not {schema["type"]!r}'
        )
    if "$ref" not in schema:
        schema.setdefault("properties", {})  # OpenAI requires it
    return schema


def loading_options(tool: OfferedTool, *, unknown: str) -> dict[str, Any]:
    """Return the options of a tool that Anthropic and Responses share.

    Each of them rejects the other's callers, whose names start with ``unknown``.
    """
    callers = [name for name in tool.allowed_callers if not name.startswith(unknown)]
    return set_fields({"defer_loading": tool.defer_loading or None, "allowed_callers": callers})


def choice_of(request: ModelRequest) -> str | None:
    """Return the tool choice; raise ``UsageError`` if it names a tool that is not offered."""
    choice, names = request.settings.tool_choice, [tool.name for tool in request.tools]
    names += [str(tool.get("name")) for tool in request.settings.provider_tools]
    is_known = choice in (None, "auto", "any", "none", *names)
    if is_known or "tools" in request.settings.extra:  # which may name more tools
        return choice
    raise UsageError(
        f"tool_choice names an unknown tool: {choice!r}. Use auto, any, none or one of: "
        f"{', '.join(names)}"
    )


def encodable(body: dict[str, Any]) -> dict[str, Any]:
    """Replace lone surrogates, which cannot be encoded. File names may contain some."""
    return {name: replace_lone_surrogates_in_json(value) for name, value in body.items()}


def result_text(part: ResultPart) -> str:
    """Return the note of a result, if any, and the result as text or JSON."""
    if isinstance(part.result, str):
        text = part.result
    else:
        text = _json_text(part.result, f"the result of call {part.call_id!r}")
    return "\n\n".join(piece for piece in (part.note, text) if piece.strip()) or _NOTHING


def arguments_object(call: CallPart) -> dict[str, Any]:
    """Return the arguments of a call as an object. Free text becomes its field ``input``."""
    arguments = call.arguments
    return arguments if isinstance(arguments, dict) else {"input": arguments}


def arguments_text(call: CallPart) -> str:
    """Return the arguments of a call as JSON text, unchanged if they are complete and valid.

    Servers parse the text. A cut or malformed text is wrapped in an object (``INVALID_JSON``), and
    arguments that were repaired are encoded again.
    """
    arguments = arguments_object(call)
    is_complete = call.verdict == "complete"
    if is_complete and json_or_none(call.raw, parse_constant=_reject_constant) == arguments:
        return call.raw
    return _json_text(arguments, f"the arguments of call {call.call_id!r}")


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _json_text(value: object, what: str) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{what} cannot be encoded as JSON: {error}") from None
