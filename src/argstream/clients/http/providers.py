"""Who can be asked: providers, their addresses, and the variables that are usual for them."""

import difflib
import os
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

import httpx2
from msgspec import Struct

from argstream.clients.apis import CHAT_HABITS, AnthropicApi, Api, ChatApi, ResponsesApi
from argstream.errors import UsageError

__all__ = ["PROVIDERS", "Provider", "checked_base_url", "find_provider"]


class Provider(Struct, frozen=True, kw_only=True):
    """A server, or a kind of server, that has one of the APIs."""

    name: str
    """What is written before the model: ``anthropic:…``."""
    api: Callable[[str], Api]
    """Makes the API that is found at an address."""
    base_url: str
    url_variable: str
    """The environment variable that may name another address."""
    key_variables: tuple[str, ...]
    token_variable: str = ""
    """Of a token that is used if there is no key, and is sent as ``authorization``."""
    needs_key: bool = True
    read_url: Callable[[str], str] = str
    """What becomes of the variable's value."""

    def base_url_set(self) -> str | None:
        """Give the address that the environment names, if it does."""
        value = os.environ.get(self.url_variable, "").strip()
        return self.read_url(value) if value else None


def _ollama_url(host: str) -> str:
    """Read ``OLLAMA_HOST`` as Ollama does: scheme and port may be missing, ``/v1`` always is.

    >>> _ollama_url("0.0.0.0"), _ollama_url("https://ollama.com"), _ollama_url(":8080")
    ('http://0.0.0.0:11434/v1', 'https://ollama.com/v1', 'http://127.0.0.1:8080/v1')
    """
    scheme, separator, rest = host.partition("://")
    if separator:
        return f"{scheme}://{rest.rstrip('/').removesuffix('/v1')}/v1"
    place, slash, path = host.partition("/")
    name, colon, port = place.rpartition(":")
    if not colon or port.endswith("]"):  # an address of IPv6 has colons, too
        name, port = place, "11434"
    path = f"{slash}{path}".rstrip("/").removesuffix("/v1")
    return f"http://{name or '127.0.0.1'}:{port}{path}/v1"


def _groq_url(url: str) -> str:
    """Give the address of Groq's API below the one that its SDK is given."""
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/openai/v1"


def _chat(
    name: str,
    base_url: str,
    *,
    needs_key: bool = True,
    url_variable: str = "",
    read_url: Callable[[str], str] = str,
) -> Provider:
    return Provider(
        name=name,
        api=lambda _: ChatApi(CHAT_HABITS.get(name)),
        base_url=base_url,
        url_variable=url_variable or f"{name.upper()}_BASE_URL",
        key_variables=(f"{name.upper()}_API_KEY",),
        needs_key=needs_key,
        read_url=read_url,
    )


def _openai(name: str, api: Callable[[str], Api]) -> Provider:
    return Provider(
        name=name,
        api=api,
        base_url="https://api.openai.com/v1",
        url_variable="OPENAI_BASE_URL",
        key_variables=("OPENAI_API_KEY",),
    )


def _openai_chat(base_url: str) -> Api:
    """Make OpenAI's own API, or that of a server which only speaks it: there, less is known."""
    is_own = (urlsplit(base_url).hostname or "").endswith(_OPENAI_HOSTS)
    return ChatApi(CHAT_HABITS["openai"] if is_own else None)


_OPENAI_HOSTS: Final = (".openai.com", ".azure.com")

PROVIDERS: Final[Mapping[str, Provider]] = {
    provider.name: provider
    for provider in (
        Provider(
            name="anthropic",
            api=lambda _: AnthropicApi(),
            base_url="https://api.anthropic.com",
            url_variable="ANTHROPIC_BASE_URL",
            key_variables=("ANTHROPIC_API_KEY",),
            token_variable="ANTHROPIC_AUTH_TOKEN",  # noqa: S106 - its name
        ),
        _openai("openai", _openai_chat),
        _openai("openai-responses", lambda _: ResponsesApi()),
        _chat("deepseek", "https://api.deepseek.com"),
        _chat("openrouter", "https://openrouter.ai/api/v1"),
        _chat("groq", "https://api.groq.com/openai/v1", read_url=_groq_url),
        _chat("mistral", "https://api.mistral.ai/v1"),
        _chat("xai", "https://api.x.ai/v1"),
        _chat("together", "https://api.together.ai/v1"),
        _chat(
            "ollama",
            "http://127.0.0.1:11434/v1",
            needs_key=False,
            url_variable="OLLAMA_HOST",
            read_url=_ollama_url,
        ),
        _chat("vllm", "http://127.0.0.1:8000/v1", needs_key=False),
    )
}
"""By the name that is written before a model."""

# How the names of models begin that everybody knows, for a guess.
_MODELS: Final = {
    "claude": "anthropic",
    "gpt": "openai",
    "chatgpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "deepseek": "deepseek",
    "mistral": "mistral",
    "codestral": "mistral",
    "grok": "xai",
    "llama": "ollama",
    "qwen": "ollama",
}


def find_provider(name: str) -> tuple[Provider, str]:
    """Read ``provider:model``."""
    if not isinstance(name, str):
        raise UsageError(
            f"a model is named by a text such as 'anthropic:claude-opus-4-7', not {name!r}"
        )
    prefix, colon, model = name.strip().partition(":")
    if colon and model and (provider := PROVIDERS.get(prefix)) is not None:
        return provider, model
    if prefix in PROVIDERS:
        raise UsageError(f"write the model after the provider: {prefix!r} alone is none")
    guess = _guess(name.strip(), prefix if colon else "", model)
    raise UsageError(
        f"no model is called {name!r}: write the provider before it"
        f"{f', such as {guess!r}' if guess else ''}; there are: {', '.join(PROVIDERS)}"
    )


def _guess(name: str, prefix: str, model: str) -> str:
    """Give what may have been meant; empty if nothing comes to mind."""
    start, slash, rest = name.partition("/")
    if slash and start in PROVIDERS:  # as others write it
        return f"{start}:{rest}"
    if near := difflib.get_close_matches(prefix.lower(), PROVIDERS, 1):
        return f"{near[0]}:{model or '…'}"
    known = next((known for known in _MODELS if name.lower().startswith(known)), None)
    return "" if known is None else f"{_MODELS[known]}:{name}"


def checked_base_url(url: str, origin: str) -> str:
    """Give an address without the slash at its end, if it is one that requests can be sent to.

    Nothing secret may be in it: addresses are told, in logs and in errors.
    """
    try:
        parts = urlsplit(url.strip())
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        httpx2.URL(url.strip())  # who sends requests there has rules of its own
    except (ValueError, httpx2.InvalidURL):
        parts, is_address = urlsplit(""), False
    if not is_address:
        raise UsageError(f"{origin} is an address such as 'http://127.0.0.1:8000/v1'")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            f"{origin} has a password, a query or a fragment in it, and addresses get into logs: "
            "send what is secret as a header (ModelSettings.headers, or http_client)"
        )
    return url.strip().rstrip("/")
