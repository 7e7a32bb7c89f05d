"""What a failed request says: one message for each way to fail, and no key in any of them.

Whether it is made again is decided in ``_retries``.
"""

import base64
import binascii
import html
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies

import httpx2

from argstream.errors import ProviderError, UsageError
from argstream.models._retries import connection_may_recover, may_succeed_later
from argstream.providers._deltas import ProviderFailed

MOST_BYTES: Final = 64 * 1024  # more of an error's body is not read
_MOST_SHOWN: Final = 1000
_TITLE: Final = re.compile(r"<title\b", re.IGNORECASE)
_TITLE_END: Final = re.compile(r"</title", re.IGNORECASE)
# What is not shown, by how it begins, and how it ends.
_NOT_SHOWN: Final = tuple(
    (re.compile(begins, re.IGNORECASE), re.compile(ends, re.IGNORECASE))
    for begins, ends in (
        (r"<script\b", r"</script[^<>]{0,9}>"),
        (r"<style\b", r"</style[^<>]{0,9}>"),
        (r"<!--", r"-->"),
        (r"<", r">"),
    )
)
_REMOVED: Final = "[removed]"
_RUN: Final = 8  # characters of a key, in one go, that nobody may tell
_SHORTEST_IN_STREAM: Final = 12  # a shorter one may be a word that a model says
# What is left of a key when somebody has hidden its middle. A word is tried from its beginning
# only, and given up as a whole: a long one would else be read once for each of its letters.
_HIDDEN: Final = re.compile(r"((?:(?<![\w-])[\w-]++)?)(?:\*{2,}|•{2,}|…|\.{3,})([\w-]*+)")
_SECRET_HEADERS: Final = ("auth", "cookie", "key", "secret", "token")
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
_MOST_TOLD: Final = 2000  # characters of a message: more helps nobody
_REQUEST_IDS: Final = ("request-id", "x-request-id", "x-amzn-requestid", "cf-ray")


class Hidden:
    """Holds a value that must not be shown: a traceback may show the variables of its frames."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "<hidden>"


class Key:
    """A key that was passed, or the environment variables that may hold it when it is needed."""

    __slots__ = ("_bearer_variable", "_given", "_is_needed", "_provider", "_variables")

    def __init__(
        self,
        given: Hidden,
        variables: tuple[str, ...],
        *,
        provider: str,
        is_needed: bool,
        bearer_variable: str = "",
    ) -> None:
        if not isinstance(given.value, str | None):
            raise UsageError(f"api_key is a text, not a {type(given.value).__name__}")
        self._given = given.value
        self._variables = (*variables, bearer_variable) if bearer_variable else variables
        self._bearer_variable = bearer_variable
        self._provider = provider
        self._is_needed = is_needed

    def __repr__(self) -> str:
        return f"<Key: {self.origin}>"

    @property
    def origin(self) -> str:
        """Where the key comes from, for messages."""
        if self._given:
            return "the key that was given as api_key"
        if (variable := self._found()) is not None:
            return f"the key of ${variable}"
        return "a request without a key"

    @property
    def is_token(self) -> bool:
        """Whether it is sent as ``authorization``, even where a key is not."""
        return not self._given and self._found() == self._bearer_variable != ""

    def value(self) -> str | None:
        """Return the key, or None if there is none and none is needed."""
        # Nothing here is kept in a variable: a traceback may show them.
        if not self._read() and self._is_needed:
            raise UsageError(
                f"{self._provider} needs a key: set ${self._variables[0]}, or give api_key"
            )
        if not (self._read().isascii() and self._read().isprintable()):
            raise UsageError(f"{self.origin} has characters in it that no key can have")
        return self._read() or None

    def _read(self) -> str:
        variable = self._found()
        key = self._given or ("" if variable is None else os.environ[variable])
        return key.strip()  # a line end from a file is no part of it

    def _found(self) -> str | None:
        return next((name for name in self._variables if os.environ.get(name, "").strip()), None)


def secret_headers(headers: Mapping[str, str]) -> list[str]:
    return [
        secret
        for name, value in headers.items()
        if any(part in name.lower() for part in _SECRET_HEADERS)
        for secret in _secrets_in(value.strip())
    ]


def _secrets_in(value: str) -> Iterator[str]:
    scheme, _, rest = value.partition(" ")
    if not (rest and scheme.isalpha()):
        yield value
        return
    yield rest.strip()
    if scheme.lower() == "basic":  # a name and a password, which whoever reads it can tell, too
        try:
            pair = base64.b64decode(rest, validate=True).decode(errors="replace")
        except binascii.Error:
            return
        yield pair
        yield pair.partition(":")[2]


def proxy_secrets() -> list[str]:
    """Return the passwords of the proxies in the environment, also as they are sent."""
    secrets: list[str] = []
    for address in getproxies().values():
        try:
            userinfo = urlsplit(address).netloc.rpartition("@")[0]
        except ValueError:  # then no proxy is found there, either
            continue
        name, _, password = map(unquote, userinfo.partition(":"))
        if password:
            secrets += [password, base64.b64encode(f"{name}:{password}".encode()).decode()]
    return secrets


class Secrets:
    """Removes secrets, and recognisable parts of them, from texts."""

    __slots__ = ("_runs", "_whole", "_words", "in_stream")

    def __init__(self, secrets: Iterable[str]) -> None:
        spellings = {
            spelling for secret in secrets for spelling in (secret, quote(secret, safe=""))
        }
        self._whole = whole = spellings - {""}
        long = {secret for secret in whole if len(secret) >= _RUN}
        self._runs = {
            secret[start : start + _RUN]
            for secret in long
            for start in range(len(secret) - _RUN + 1)
        }
        words = "|".join(map(re.escape, sorted(whole - long)))
        self._words = re.compile(rf"\b(?:{words})\b") if words else None
        in_stream = (secret for secret in long if len(secret) >= _SHORTEST_IN_STREAM)
        self.in_stream = [secret.encode() for secret in sorted(in_stream, key=len, reverse=True)]
        """Those to be taken out of an answer, as bytes; of two that begin alike, the longer."""

    def __repr__(self) -> str:
        return "<Secrets>"

    def removed_from(self, text: str) -> str:
        """Return the text without secrets, parts of them, and what others left when hiding one."""
        text = self._without_runs(_HIDDEN.sub(self._hidden, text))
        return text if self._words is None else self._words.sub(_REMOVED, text)

    def _hidden(self, found: re.Match[str]) -> str:
        first, last = found.groups()
        is_one = any(
            (first and secret.startswith(first)) or (last and secret.endswith(last))
            for secret in self._whole
        )
        return _REMOVED if is_one else found[0]

    def _without_runs(self, text: str) -> str:
        pieces: list[str] = []
        done = 0  # up to where it is told, or a secret goes
        for start in range(len(text) - _RUN + 1):
            if text[start : start + _RUN] in self._runs:
                if start > done or not pieces:  # it is not the rest of the last one
                    pieces += [text[done:start], _REMOVED]
                done = start + _RUN
        return "".join([*pieces, text[done:]])


class StreamCleaner:
    """Removes secrets from a byte stream, wherever it is cut."""

    __slots__ = ("_held", "_pattern", "_secrets")

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets.in_stream
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets)))
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return what is safe. What may be the beginning of a secret is held back."""
        if not self._secrets:
            return chunk
        data = self._pattern.sub(_REMOVED.encode(), self._held + chunk)
        end = len(data) - self._growing(data)
        self._held = data[end:]
        return data[:end]

    def close(self) -> bytes:
        held, self._held = self._held, b""
        return held

    def _growing(self, data: bytes) -> int:
        if data.endswith(b"\n"):  # as nearly all chunks do: no key has a line end
            return 0
        longest = max(map(len, self._secrets)) - 1
        return next(
            (
                length
                for length in range(min(longest, len(data)), 0, -1)
                if any(secret.startswith(data[-length:]) for secret in self._secrets)
            ),
            0,
        )


class RequestInfo(NamedTuple):
    """The destination of a request, as it may appear in messages."""

    name: str
    model: str
    url: str
    key: str  # where the key comes from
    secrets: Secrets = Secrets(())

    def hiding(self, headers: Mapping[str, str]) -> "RequestInfo":
        """Also hide what these headers of the request hold."""
        return self._replace(secrets=Secrets([*secret_headers(headers), *proxy_secrets()]))


class FailedAttempt(NamedTuple):
    failure: ProviderError
    again: bool  # whether it may be made again
    told_wait: float | None = None

    def after(self, tries: int) -> ProviderError:
        failure = self.failure
        message = failure.message
        if self.told_wait:
            message += f"; it asks to wait for {self.told_wait:g} s"
        if tries > 1:
            message += f"; tried {tries} times"
        return ProviderError(
            failure.code,
            message,
            retryable=failure.retryable,
            status=failure.status,
            request_id=failure.request_id,
        )


def refused(
    asked: RequestInfo,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    told_wait: float | None,
) -> FailedAttempt:
    told = read_error(body)
    again = may_succeed_later(status, headers)
    if 300 <= status < 400:
        again = False
        message = (
            f"{asked.url} redirects to {_without_query(headers.get('location', ''))!r} ({status}): "
            "give the address that it leads to as base_url"
        )
        told = told._replace(message="", code="redirect")
    else:
        message = _headline(status, asked)
    failure = _failure(
        asked,
        told.code or _CODES.get(status) or ("server_error" if status >= 500 else "refused"),
        f"{message}{_details(told)}",
        retryable=again,
        status=status,
        headers=headers,
    )
    return FailedAttempt(failure, again, told_wait)


def _headline(status: int, asked: RequestInfo) -> str:
    match status:
        case 401:
            return f"{asked.name} refused {asked.key} (401)"
        case 403:
            return f"{asked.name} does not allow this for {asked.key} (403)"
        case 404:
            return (
                f"{asked.url} does not know the model {asked.model!r}, or is no address of its API "
                "(404): check the name and base_url"
            )
        case 407:
            return f"a proxy before {_origin(asked.url)} wants to know who asks (407)"
        case 413:
            return f"the request is too long for {asked.name} (413)"
        case 429:
            return f"{asked.name} is asked too often or for too much (429)"
        case _ if status >= 500:
            return f"{asked.name} failed with {status}"
        case _:
            return f"{asked.name} refused the request with {status}"


def _details(told: "ErrorDetails") -> str:
    if not told.message:
        return "" if told.code else ", and does not say why"
    return f": {told.message}" + (f" ({told.param})" if told.param else "")


def failed_at_once(
    asked: RequestInfo, said: ProviderFailed, headers: Mapping[str, str]
) -> FailedAttempt:
    message = f"{asked.name} failed before it said anything: {said.message}"
    failure = _failure(
        asked, said.code, message, retryable=said.retryable, status=200, headers=headers
    )
    return FailedAttempt(failure, said.retryable)


def not_a_stream(asked: RequestInfo, body: bytes, headers: Mapping[str, str]) -> FailedAttempt:
    told = read_error(body)
    if not told.message:
        code, message = "empty_answer", f"{asked.name} has sent an empty answer"
    else:
        code = "not_a_stream"
        message = (
            f"what {asked.url} answers is no stream of events; is base_url right? "
            f"It is {told.message}"
        )
    again = not told.message
    failure = _failure(asked, code, message, retryable=again, status=200, headers=headers)
    return FailedAttempt(failure, again)


def unreachable(asked: RequestInfo, error: Exception, patience: str) -> FailedAttempt:
    """Describe an error of the connection. ``patience`` is the time waited, in words."""
    match error:
        case httpx2.ConnectTimeout():
            code, message = (
                "timeout",
                f"no connection to {_origin(asked.url)} within {patience}",
            )
        case TimeoutError() | httpx2.TimeoutException():
            code, message = "timeout", f"{asked.name} sent nothing for {patience}"
        case httpx2.LocalProtocolError():  # its text may show a header, and so a key
            code = "bad_request"
            message = "the request breaks the rules of HTTP: are all headers valid?"
        case httpx2.ConnectError() | httpx2.ProxyError():
            code = "connection_failed"
            message = f"cannot connect to {_origin(asked.url)}: {_text(error)}"
        case _:
            code = "connection_lost"
            message = f"the connection to {asked.name} was lost: {_text(error)}"
    again = connection_may_recover(error)
    return FailedAttempt(_failure(asked, code, message, retryable=again), again)


def _failure(
    asked: RequestInfo,
    code: str,
    message: str,
    *,
    retryable: bool,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> ProviderError:
    found = (headers.get(name) for name in _REQUEST_IDS) if headers is not None else ()
    request_id = next((value for value in found if value), None)
    return ProviderError(
        asked.secrets.removed_from(code[:200]),
        asked.secrets.removed_from(message[:_MOST_TOLD]),
        retryable=retryable,
        status=status,
        request_id=None if request_id is None else asked.secrets.removed_from(request_id[:200]),
    )


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _without_query(url: str) -> str:
    return url.partition("?")[0].partition("#")[0][:200]


class ErrorDetails(NamedTuple):
    """What the body of an error says. Each field may be empty."""

    message: str = ""
    code: str = ""
    param: str = ""  # which field of the request is wrong


def read_error(body: bytes) -> ErrorDetails:
    text = body[:MOST_BYTES].decode(errors="replace").strip()
    try:
        told = _of_json(json.loads(text))
    except (ValueError, RecursionError):
        told = _of_page(text) if text.startswith("<") else ErrorDetails(text)
    return ErrorDetails(_shortened(told.message), told.code[:100], told.param[:100])


def _of_json(document: Any) -> ErrorDetails:
    match document:
        case [first, *_]:  # Google's gateways put it into a list
            return _of_json(first)
        case {"error": dict(error)}:
            told = _of_object(error)
            return told if told.message else told._replace(message=_written(error))
        case {"error": str(message), **others}:  # Ollama; xAI has a code beside it
            return _of_object(dict(others))._replace(message=message)
        case {"detail": [*details]}:  # FastAPI, of which many servers are made
            return _of_details(details)
        case {"detail": str(message)}:
            return ErrorDetails(message)
        case dict():
            told = _of_object(document)
            return told if told.message else told._replace(message=_written(document))
        case str():
            return ErrorDetails(document)
        case _:
            return ErrorDetails(_written(document))


def _of_object(error: dict[Any, Any]) -> ErrorDetails:
    message = error.get("message")
    if isinstance(message, dict):  # Mistral wraps details into it
        return _of_json(message)
    names = (error.get("code"), error.get("type"))
    code = next((name for name in names if isinstance(name, str) and name), "")
    param = error.get("param")
    upstream = error.get("metadata")  # OpenRouter: what the provider behind it has said
    raw = upstream.get("raw") if isinstance(upstream, dict) else None
    texts = [text for text in (message, raw) if isinstance(text, str) and text]
    return ErrorDetails(": ".join(texts), code, param if isinstance(param, str) else "")


def _of_details(details: list[Any]) -> ErrorDetails:
    found = [
        (".".join(map(str, location)), message)
        for detail in details
        if isinstance(detail, dict)
        and isinstance(location := detail.get("loc"), list)
        and isinstance(message := detail.get("msg"), str)
    ]
    if not found:
        return ErrorDetails(_written(details))
    message = "; ".join(f"{location}: {message}" for location, message in found)
    return ErrorDetails(message, param=found[0][0])


def _of_page(page: str) -> ErrorDetails:
    """Return the title of a proxy's page, or else its text."""
    text = _title(page) or " ".join(_texts(page))
    return ErrorDetails(f"an HTML page that says {' '.join(html.unescape(text).split())!r}")


def _title(page: str) -> str:
    begins = _TITLE.search(page)
    if begins is None:
        return ""
    text = page.find(">", begins.end()) + 1
    ends = _TITLE_END.search(page, text) if text else None
    return "" if ends is None else page[text : ends.start()]


def _texts(page: str) -> Iterator[str]:
    """Yield the text between tags. Linear: the page is read once, whatever is in it."""
    place = 0
    while (tag := page.find("<", place)) >= 0:
        yield page[place:tag]
        ending = next(ends for begins, ends in _NOT_SHOWN if begins.match(page, tag))
        end = ending.search(page, tag)
        if end is None:
            return  # the rest is inside
        place = end.end()
    yield page[place:]


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shortened(message: str) -> str:
    message = " ".join(message.split())
    return message if len(message) <= _MOST_SHOWN else f"{message[:_MOST_SHOWN]} …"
