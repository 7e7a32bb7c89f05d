"""Error messages of failed requests, without secrets. ``_retries`` decides about retries."""

import html
import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies

from argstream._secrets import Secrets, secrets_of_request, secrets_of_url
from argstream.errors import ProviderError, UsageError
from argstream.models._providers import Provider
from argstream.models._retries import may_succeed_later
from argstream.providers._deltas import ProviderFailed

MAX_ERROR_BYTES: Final = 64 * 1024  # read of an error response
# Each alternative ends at the end of the page at the latest, so that a search takes linear time.
_TITLE: Final = re.compile(r"<title\b[^>]*+(?:>|\Z)(.*?)(?:</title|\Z)", re.IGNORECASE | re.DOTALL)
_MARKUP: Final = re.compile(
    r"<(script|style)\b.*?(?:</\1[^<>]{0,9}>|\Z)|<!--.*?(?:-->|\Z)|<[^>]*+(?:>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_CODES: Final = {
    400: "bad_request",
    401: "unauthorized",
    402: "payment_required",
    403: "forbidden",
    404: "not_found",
    408: "timeout",
    413: "request_too_large",
    422: "unprocessable",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
_HEADLINES: Final = {  # formatted with a RequestInfo
    401: "{0.name} refused {0.key} (401)",
    403: "{0.name} does not allow this for {0.key} (403)",
    404: "{0.url} does not know the model {0.model!r}, or is not the URL of the API (404). "
    "Check the name and base_url",
    407: "the proxy for {0.origin} requires authentication (407)",
    413: "the request is too long for {0.name} (413)",
    429: "{0.name} limits the rate of requests or tokens (429)",
}
_MAX_MESSAGE_CHARS: Final = 1000
_MAX_CODE_CHARS: Final = 200  # also of the request ID
_REQUEST_IDS: Final = ("request-id", "x-request-id", "x-amzn-requestid", "cf-ray")


class Hidden:
    """Hides a value from tracebacks that show local variables."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value: object = value

    def __repr__(self) -> str:
        return "<hidden>"


class Key:
    """An API key that was passed, or the environment variables that are read on each request."""

    __slots__ = ("_given", "_is_needed", "_provider", "_variables")

    def __init__(self, given: Hidden, provider: Provider, *, is_needed: bool) -> None:
        if not isinstance(given.value, str | None):
            raise UsageError(f"api_key must be a str, not {type(given.value).__name__}")
        self._given = given.value
        self._variables = (*provider.key_variables, provider.token_variable)
        self._provider = provider
        self._is_needed = is_needed

    def __repr__(self) -> str:
        return f"<Key: {self.origin}>"

    @property
    def origin(self) -> str:
        """Where the key comes from, for messages."""
        if self._given:
            return "the key passed as api_key"
        if (variable := self._found()) is not None:
            return f"the key of ${variable}"
        return "a request without a key"

    @property
    def is_token(self) -> bool:
        """Whether it must be sent as a bearer token."""
        return not self._given and self._found() == self._provider.token_variable != ""

    def value(self) -> str | None:
        """Return the key, or None if there is none and none is needed."""
        # No local variables for the key: tracebacks may show them.
        if not self._read() and self._is_needed:
            raise UsageError(
                f"{self._provider.name} needs an API key. Set {self._variables[0]} or pass api_key"
            )
        if not (self._read().isascii() and self._read().isprintable()):
            raise UsageError(f"{self.origin} contains characters that are not allowed in a key")
        return self._read() or None

    def _read(self) -> str:
        variable = self._found()
        key = self._given or ("" if variable is None else os.environ[variable])
        return key.strip()  # keys from files often end with a newline

    def _found(self) -> str | None:
        return next((name for name in self._variables if os.environ.get(name, "").strip()), None)


class RequestInfo(NamedTuple):
    """The destination of a request, as it may appear in messages."""

    name: str
    model: str
    url: str
    key: str  # where the key comes from
    secrets: Secrets = Secrets()
    tries: int = 1

    @property
    def origin(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def hiding(self, headers: Mapping[str, str]) -> "RequestInfo":
        """Return a copy that hides the secrets in these request headers, and those of proxies."""
        proxies = map(secrets_of_url, getproxies().values())
        return self._replace(secrets=Secrets(secrets_of_request(headers.items()).union(*proxies)))


class FailedAttempt(NamedTuple):
    failure: ProviderError
    retry_after: float | None = None


def refused(
    info: RequestInfo,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    retry_after: float | None,
) -> FailedAttempt:
    details = parse_error(body)
    if 300 <= status < 400:
        target = headers.get("location", "").partition("?")[0].partition("#")[0]
        message = f"{info.url} redirects to {target!r} ({status}). Pass the target as base_url"
        return failed(info, "redirect", message, status=status, headers=headers)
    return failed(
        info,
        details.code or _CODES.get(status) or ("server_error" if status >= 500 else "refused"),
        f"{headline(status, info)}{_details(details)}",
        retryable=may_succeed_later(status, headers),
        status=status,
        headers=headers,
        retry_after=retry_after,
    )


def headline(status: int, info: RequestInfo) -> str:
    verb = "failed" if status >= 500 else "refused the request"
    return _HEADLINES.get(status, f"{{0.name}} {verb} with {status}").format(info)


def _details(details: "ErrorDetails") -> str:
    if not details.message.strip():
        return "" if details.code else ", without a reason"
    return f": {details.message}" + (f" ({details.param})" if details.param else "")


def failed_at_once(
    info: RequestInfo, event: ProviderFailed, headers: Mapping[str, str]
) -> FailedAttempt:
    message = f"{info.name} failed before its first event: {event.message}"
    return failed(info, event.code, message, retryable=event.retryable, status=200, headers=headers)


def not_a_stream(info: RequestInfo, body: bytes, headers: Mapping[str, str]) -> FailedAttempt:
    details = parse_error(body)
    if not details.message.strip():
        message = f"{info.name} sent an empty response"
        return failed(info, "empty_response", message, retryable=True, status=200, headers=headers)
    message = (
        f"the response of {info.url} is not a stream of events. Check base_url. The response is "
        f"{details.message}"
    )
    return failed(info, "not_a_stream", message, status=200, headers=headers)


def failed(
    info: RequestInfo,
    code: str,
    message: str,
    *,
    retryable: bool = False,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    retry_after: float | None = None,
) -> FailedAttempt:
    """Return a failure without secrets."""
    request_id = next(filter(None, map((headers or {}).get, _REQUEST_IDS)), None)
    redacted = info.secrets.redacted_message
    message = redacted(" ".join(message.split()))  # before shortening: a cut secret is not found
    if len(message) > _MAX_MESSAGE_CHARS:
        message = f"{message[:_MAX_MESSAGE_CHARS]} …"
    if retry_after:
        message += f"; retry after {retry_after:g} s"
    if info.tries > 1:
        message += f"; tried {info.tries} times"
    failure = ProviderError(
        redacted(code)[:_MAX_CODE_CHARS],
        message,
        retryable=retryable,
        status=status,
        request_id=None if request_id is None else redacted(request_id)[:_MAX_CODE_CHARS],
    )
    return FailedAttempt(failure, retry_after)


class ErrorDetails(NamedTuple):
    """The content of an error response. Each field may be empty."""

    message: str = ""
    code: str = ""
    param: str = ""  # the invalid field of the request


def parse_error(body: bytes) -> ErrorDetails:
    text = body[:MAX_ERROR_BYTES].decode(errors="replace").strip()
    try:
        return _parse_json(json.loads(text))
    except (ValueError, RecursionError):
        return _parse_page(text) if text.startswith("<") else ErrorDetails(text)


def _parse_json(document: Any) -> ErrorDetails:
    match document:
        case [first, *_]:  # Google's gateways wrap the error in a list
            return _parse_json(first)
        case {"error": dict(error)}:
            return _parse_object(error)
        case {"error": str(message), **others}:  # Ollama; xAI has a code beside it
            return _parse_object(dict(others))._replace(message=message)
        case {"detail": [*details]}:  # FastAPI
            return _parse_details(details)
        case {"detail": str(message)}:
            return ErrorDetails(message)
        case dict():
            return _parse_object(document)
        case str():
            return ErrorDetails(document)
    return ErrorDetails(_dump(document))


def _parse_object(error: dict[Any, Any]) -> ErrorDetails:
    message = error.get("message")
    if isinstance(message, dict):  # Mistral
        return _parse_json(message)
    names = (error.get("code"), error.get("type"))
    code = next((name for name in names if isinstance(name, str) and name), "")
    param = error.get("param")
    upstream = error.get("metadata")  # OpenRouter: the error of the provider behind it
    raw = upstream.get("raw") if isinstance(upstream, dict) else None
    texts = [text for text in (message, raw) if isinstance(text, str) and text]
    param = param if isinstance(param, str) else ""
    return ErrorDetails(": ".join(texts) or _dump(error), code, param)


def _parse_details(details: list[Any]) -> ErrorDetails:
    found = [
        (".".join(map(str, location)), message)
        for detail in details
        if isinstance(detail, dict)
        and isinstance(location := detail.get("loc"), list)
        and isinstance(message := detail.get("msg"), str)
    ]
    if not found:
        return ErrorDetails(_dump(details))
    message = "; ".join(f"{location}: {message}" for location, message in found)
    return ErrorDetails(message, param=found[0][0])


def _parse_page(page: str) -> ErrorDetails:
    title = _TITLE.search(page)
    text = _MARKUP.sub(" ", title[1] if title and title[1].strip() else page)
    return ErrorDetails(f"an HTML page with the text {' '.join(html.unescape(text).split())!r}")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
