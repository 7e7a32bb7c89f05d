"""Why there is no answer, in words: one clear failure for each way in which a request can fail."""

import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httpx2

from argstream.clients.http._error_bodies import Told, read_error
from argstream.clients.http._retries import may_succeed_later
from argstream.clients.http._secrets import Secrets, proxy_secrets, secret_headers
from argstream.deltas import ProviderFailed
from argstream.errors import ProviderFailure

__all__ = ["Asked", "Unanswered", "failed_at_once", "not_a_stream", "refused", "unreachable"]

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


class Asked(NamedTuple):
    """Whom a request went to, as far as it may be told."""

    name: str
    model: str
    url: str
    key: str
    """Where the key comes from."""
    secrets: Secrets = Secrets(())

    def hiding(self, headers: Mapping[str, str]) -> "Asked":
        """Know what these headers of the request hold, so that it is not told."""
        return self._replace(secrets=Secrets([*secret_headers(headers), *proxy_secrets()]))


class Unanswered(NamedTuple):
    """A request to which no answer has begun."""

    failure: ProviderFailure
    again: bool
    """Whether it may be made again."""
    told_wait: float | None = None

    def after(self, tries: int) -> ProviderFailure:
        """Give the failure that tells how often it was tried, and what the provider asks for."""
        failure = self.failure
        message = failure.message
        if self.told_wait:
            message += f"; it asks to wait for {self.told_wait:g} s"
        if tries > 1:
            message += f"; tried {tries} times"
        return ProviderFailure(
            failure.code,
            message,
            retryable=failure.retryable,
            status=failure.status,
            request_id=failure.request_id,
        )


def refused(
    asked: Asked, status: int, headers: Mapping[str, str], body: bytes, told_wait: float | None
) -> Unanswered:
    """Say what an answer means whose status is no success."""
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
    return Unanswered(failure, again, told_wait)


def _headline(status: int, asked: Asked) -> str:
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


def _details(told: Told) -> str:
    if not told.message:
        return "" if told.code else ", and does not say why"
    return f": {told.message}" + (f" ({told.param})" if told.param else "")


def failed_at_once(asked: Asked, said: ProviderFailed, headers: Mapping[str, str]) -> Unanswered:
    """Say that an answer began with an error."""
    message = f"{asked.name} failed before it said anything: {said.message}"
    failure = _failure(
        asked, said.code, message, retryable=said.retryable, status=200, headers=headers
    )
    return Unanswered(failure, said.retryable)


def not_a_stream(asked: Asked, body: bytes, headers: Mapping[str, str]) -> Unanswered:
    """Say that an answer is over, and that there was no event in it."""
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
    return Unanswered(failure, again)


def unreachable(asked: Asked, error: Exception, patience: str) -> Unanswered:
    """Say what an error of the connection means; ``patience`` is how long was waited for what."""
    again = True
    match error:
        case httpx2.ConnectTimeout():
            code, message = "timeout", f"no connection to {_origin(asked.url)} within {patience}"
        case TimeoutError() | httpx2.TimeoutException():
            code, message = "timeout", f"{asked.name} sent nothing for {patience}"
        case httpx2.LocalProtocolError():
            # Its text may show a header, and so a key.
            code, again = "bad_request", False
            message = "the request breaks the rules of HTTP: are all headers valid?"
        case httpx2.ConnectError() | httpx2.ProxyError():
            code, again = "connection_failed", not _is_about_certificates(error)
            message = f"cannot connect to {_origin(asked.url)}: {_text(error)}"
        case _:
            code = "connection_lost"
            message = f"the connection to {asked.name} was lost: {_text(error)}"
    return Unanswered(_failure(asked, code, message, retryable=again), again)


def _failure(  # noqa: PLR0913 - all but the first three by name
    asked: Asked,
    code: str,
    message: str,
    *,
    retryable: bool,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> ProviderFailure:
    found = (headers.get(name) for name in _REQUEST_IDS) if headers is not None else ()
    request_id = next((value for value in found if value), None)
    return ProviderFailure(
        asked.secrets.removed_from(code[:200]),
        asked.secrets.removed_from(message[:_MOST_TOLD]),
        retryable=retryable,
        status=status,
        request_id=None if request_id is None else asked.secrets.removed_from(request_id[:200]),
    )


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _is_about_certificates(error: BaseException) -> bool:
    """Say whether a server could not show who it is; that will not change in a second."""
    cause = error.__cause__ or error.__context__
    if isinstance(error, ssl.SSLCertVerificationError):
        return True
    return cause is not None and _is_about_certificates(cause)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _without_query(url: str) -> str:
    return url.partition("?")[0].partition("#")[0][:200]
