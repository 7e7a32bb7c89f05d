"""The providers that a model name can begin with: base URLs, APIs and environment variables."""

import difflib
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from argstream.errors import UsageError
from argstream.providers._requests import Api
from argstream.providers.anthropic_requests import AnthropicApi
from argstream.providers.openai_requests import CHAT_COMPATIBILITY, ChatApi, ResponsesApi

_OPENAI_URL: Final = "https://api.openai.com/v1"
# Prefixes of well-known model names, to suggest a provider.
_MODELS: Final = {
    "anthropic": ("claude",),
    "openai": ("gpt", "chatgpt", "o1", "o3", "o4"),
    "deepseek": ("deepseek",),
    "mistral": ("mistral", "codestral"),
    "xai": ("grok",),
    "ollama": ("llama", "qwen"),
}


class Provider(Struct):
    """A server, or a kind of server, with one of the APIs."""

    name: str  # the prefix of model names: ``anthropic:…``
    base_url: str
    api: Callable[[str], Api] | None = None  # at a base URL; None for Chat Completions
    needs_key: bool = True
    variables: str = ""  # what its environment variables begin with, if that is not its name
    url_variable: str = ""  # overrides base_url
    token_variable: str = ""  # of a bearer token that is used if there is no key
    read_url: Callable[[str], str] = str  # converts the value of url_variable

    def __post_init__(self) -> None:
        self.variables = self.variables or self.name.upper()
        self.url_variable = self.url_variable or f"{self.variables}_BASE_URL"

    @property
    def key_variables(self) -> tuple[str, ...]:
        return (f"{self.variables}_API_KEY",)

    def api_at(self, base_url: str) -> Api:
        return self.api(base_url) if self.api else ChatApi(CHAT_COMPATIBILITY.get(self.name))


def _ollama_url(host: str) -> str:
    """Parse ``OLLAMA_HOST`` as Ollama does. Scheme and port are optional; ``/v1`` is added.

    >>> _ollama_url("0.0.0.0"), _ollama_url("https://ollama.com"), _ollama_url(":8080")
    ('http://0.0.0.0:11434/v1', 'https://ollama.com/v1', 'http://127.0.0.1:8080/v1')
    """
    scheme, separator, rest = host.partition("://")
    if separator:
        return f"{scheme}://{rest.rstrip('/').removesuffix('/v1')}/v1"
    authority, slash, path = host.partition("/")
    name, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):  # IPv6 addresses contain colons
        name, port = authority, "11434"
    path = f"{slash}{path}".rstrip("/").removesuffix("/v1")
    return f"http://{name or '127.0.0.1'}:{port}{path}/v1"


def _groq_url(url: str) -> str:
    """Return the URL of Groq's API, given the shorter one that its SDK expects."""
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/openai/v1"


def _openai_chat(base_url: str) -> Api:
    """Assume OpenAI's extensions only for the hosts of OpenAI and Azure."""
    is_own = (urlsplit(base_url).hostname or "").endswith((".openai.com", ".azure.com"))
    return ChatApi(CHAT_COMPATIBILITY["openai"] if is_own else None)


PROVIDERS: Final[Mapping[str, Provider]] = {
    provider.name: provider
    for provider in (
        Provider(
            "anthropic",
            "https://api.anthropic.com",
            lambda _: AnthropicApi(),
            token_variable="ANTHROPIC_AUTH_TOKEN",  # noqa: S106 - the name of a variable
        ),
        Provider("openai", _OPENAI_URL, _openai_chat),
        Provider("openai-responses", _OPENAI_URL, lambda _: ResponsesApi(), variables="OPENAI"),
        Provider("deepseek", "https://api.deepseek.com"),
        Provider("openrouter", "https://openrouter.ai/api/v1"),
        Provider("groq", "https://api.groq.com/openai/v1", read_url=_groq_url),
        Provider("mistral", "https://api.mistral.ai/v1"),
        Provider("xai", "https://api.x.ai/v1"),
        Provider("together", "https://api.together.ai/v1"),
        Provider(
            "ollama",
            "http://127.0.0.1:11434/v1",
            needs_key=False,
            url_variable="OLLAMA_HOST",
            read_url=_ollama_url,
        ),
        Provider("vllm", "http://127.0.0.1:8000/v1", needs_key=False),
    )
}


def find_provider(name: str) -> tuple[Provider, str]:
    if not isinstance(name, str):
        raise UsageError(
            f"a model name must be a str such as 'anthropic:claude-opus-4-7', not {name!r}"
        )
    prefix, colon, model = name.strip().partition(":")
    if colon and model and (provider := PROVIDERS.get(prefix)) is not None:
        return provider, model
    if prefix in PROVIDERS:
        raise UsageError(f"{prefix!r} is a provider. Add a model: '{prefix}:MODEL'")
    guess = _guess(name.strip(), prefix if colon else "", model)
    problem = f"unknown provider {prefix!r}" if colon and model else f"unknown model {name!r}"
    fix = "" if colon else f" Write provider:name, e.g. openai:{name.strip() or 'MODEL'}."
    fix = f" Did you mean {guess!r}?" if guess else fix
    raise UsageError(f"{problem}.{fix} Providers: {', '.join(PROVIDERS)}")


def _guess(name: str, prefix: str, model: str) -> str:
    start, slash, rest = name.partition("/")
    if slash and start in PROVIDERS:  # the format of other libraries
        return f"{start}:{rest}"
    if near := difflib.get_close_matches(prefix.lower(), PROVIDERS, 1):
        return f"{near[0]}:{model or '…'}"
    known = (api for api, starts in _MODELS.items() if name.lower().startswith(starts))
    return next((f"{provider}:{name}" for provider in known), "")


def checked_base_url(url: str, origin: str) -> str:
    """Return a valid URL without its final slash.

    It must not contain secrets, because URLs appear in logs and errors.
    """
    url = str(url).strip()
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        is_address = parts.scheme in ("http", "https") and bool(host) and parts.port != 0
        if host.replace(".", "").isdecimal():
            IPv4Address(host)
    except ValueError:
        parts, is_address = urlsplit(""), False
    if not is_address or not url.isprintable() or " " in url:
        raise UsageError(f"{origin} must be a URL such as 'http://127.0.0.1:8000/v1'")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            f"{origin} must not contain a password, a query or a fragment, because URLs appear in "
            "logs. Send secrets in headers (ModelSettings.headers or session)"
        )
    return url.rstrip("/")
