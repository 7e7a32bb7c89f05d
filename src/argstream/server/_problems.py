"""Error responses: problem+json (RFC 9457) with the problem and what to do."""

import hashlib
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from argstream.errors import (
    AlreadyDecidedError,
    ArgstreamError,
    RunBusyError,
    RunNotFoundError,
    StoreError,
    UsageError,
)

# An error must not repeat a large request.
_LONGEST_DETAIL: Final = 400
_LONGEST_INSTANCE: Final = 200


class Problem(Exception):  # noqa: N818 - what RFC 9457 calls it
    """The reason why a request is refused, for the client."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        headers: Mapping[str, str] | None = None,
        *,
        raw_detail: object = None,
    ) -> None:
        """``code`` is for programs, such as ``unknown-run``. ``detail`` is for people.

        ``raw_detail`` is sent unchanged in place of ``detail``.
        """
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})
        self.raw_detail = raw_detail


# The last item replaces the message of the error, which may contain paths and process names.
_PROBLEMS: Final[tuple[tuple[type[ArgstreamError], int, str, str], ...]] = (
    (RunNotFoundError, 404, "unknown-run", ""),
    (AlreadyDecidedError, 403, "already-decided", ""),
    (UsageError, 422, "unusable", ""),
    (RunBusyError, 409, "run-taken", "another process drives the run. Retry in a moment"),
    (StoreError, 503, "store-failure", "the store is unavailable. Retry later"),
)


def problem_of(error: Exception) -> Problem:
    """Return the problem for an exception. An unexpected one is not described to clients."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        return _of_router(error)
    for kind, status, code, words in _PROBLEMS:
        if isinstance(error, kind):
            return Problem(status, code, words or str(error))
    return Problem(500, "internal-error", "internal error. See the server log")


def _of_router(error: HTTPException) -> Problem:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return Problem(404, "not-found", "not found")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = dict(error.headers or {})
        detail = f"this path accepts {allowed.get('Allow', 'other methods')}"
        return Problem(405, "method-not-allowed", detail, allowed)
    phrase = HTTPStatus(error.status_code).phrase.lower()
    return Problem(error.status_code, phrase.replace(" ", "-"), phrase, error.headers)


def problem_of_host_app(error: HTTPException) -> Problem:
    """Return the problem for an exception of ``user=``, with its status, detail and headers."""
    code = {401: "not-signed-in", 403: "not-allowed"}.get(error.status_code, "refused")
    return Problem(
        error.status_code, code, str(error.detail), error.headers, raw_detail=error.detail
    )


def problem_response(problem: Problem, request: Request | None = None) -> Response:
    body: dict[str, object] = {
        "type": f"urn:argstream:{problem.code}",
        "title": problem.code.replace("-", " "),
        "status": problem.status,
        "detail": _cut(problem.detail, _LONGEST_DETAIL),
    }
    if problem.raw_detail is not None:
        body["detail"] = problem.raw_detail
    if request is not None:
        body["instance"] = _cut(request.url.path, _LONGEST_INSTANCE)
    return Response(
        msgspec.json.encode(body, enc_hook=str),
        problem.status,
        {**problem.headers, "cache-control": "no-store"},
        "application/problem+json",
    )


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def etag_of(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def is_known(request: Request, etag: str) -> bool:
    """Return True if the client has the content with this ETag."""
    known = request.headers.get("if-none-match", "")
    return known.strip() == "*" or etag in re.findall(r'"[^"]*"', known)
