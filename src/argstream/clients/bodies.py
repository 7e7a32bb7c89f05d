"""A request in the words of an API, for those who send it with an SDK of their own."""

from typing import Any, Final, Literal, get_args

from argstream.clients.apis import CHAT_HABITS, AnthropicApi, Api, ChatApi, ResponsesApi
from argstream.clients.request import ModelRequest
from argstream.errors import UsageError

__all__ = ["request_body"]

_ApiName = Literal["anthropic", "openai-chat", "openai-responses"]
_APIS: Final[dict[str, Api]] = {
    "anthropic": AnthropicApi(),
    "openai-chat": ChatApi(CHAT_HABITS["openai"]),
    "openai-responses": ResponsesApi(),
}


def request_body(
    request: ModelRequest, api: _ApiName, *, model: str, server: str | None = None
) -> dict[str, Any]:
    """Give the fields of a request: messages, tools and settings, and ``stream``, which is true.

    ``server`` is who is asked, if it is another than OpenAI that has its Chat Completions, by the
    name that ``make_model`` knows it by (``deepseek``, ``mistral``, ``vllm`` …): they do not take
    the same. Headers of the settings are not in it.

    >>> from argstream.history import Message, TextPart
    >>> question = Message(role="user", parts=(TextPart(text="hi"),))
    >>> body = request_body(ModelRequest(messages=(question,)), "openai-chat", model="gpt-5")
    >>> body["messages"]
    [{'role': 'user', 'content': 'hi'}]
    """
    if api not in _APIS:
        raise UsageError(f"no API is called {api!r}; there are: {', '.join(get_args(_ApiName))}")
    if server is None:
        return _APIS[api].body(model, request)
    if api != "openai-chat":
        raise UsageError("server: only openai-chat has servers that differ")
    return ChatApi(CHAT_HABITS.get(server)).body(model, request)
