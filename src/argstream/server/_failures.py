"""What is told of a failure, and what goes to the log: there, nothing that is secret.

Neither the token, nor what came in the headers Authorization and Cookie, nor the query of a request
gets into a log, also not as part of an exception's text.
"""

import logging
import traceback
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.types import Scope

from argstream.server.problems import Problem, problem_of

__all__ = ["log_failure", "logger", "problem_for"]

logger: Final = logging.getLogger("argstream.server")

_SHORTEST_SECRET: Final = 6  # what is shorter would take half the text with it


def problem_for(error: Exception) -> Problem:
    """Say what is wrong, also in what the router finds out."""
    if not isinstance(error, HTTPException):
        return problem_of(error)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return Problem(404, "not-found", "there is nothing at this path")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = dict(error.headers or {})
        detail = f"this path takes {allowed.get('Allow', 'other methods')}"
        return Problem(405, "method-not-allowed", detail, allowed)
    phrase = HTTPStatus(error.status_code).phrase.lower()
    return Problem(error.status_code, phrase.replace(" ", "-"), phrase, error.headers)


def log_failure(
    error: Exception, problem: Problem, scope: Scope, secrets: Iterable[str] = ()
) -> None:
    """Log what nobody expected, with all that helps to find it."""
    text = "".join(traceback.format_exception(error))
    for secret in sorted({*secrets, *_secrets_of(scope)}, key=len, reverse=True):
        text = text.replace(secret, "[removed]")
    # A path may hold what would look like another line of the log.
    logger.error(
        "%s %r: %d %s\n%s", scope["method"], scope["path"], problem.status, problem.code, text
    )


def _secrets_of(scope: Scope) -> Iterator[str]:
    query = scope.get("query_string", b"").decode("latin-1")
    candidates = [query, *(value for _, value in parse_qsl(query))]
    for name, value in scope["headers"]:
        if name in (b"authorization", b"cookie", b"proxy-authorization"):
            text = value.decode("latin-1")
            candidates += [text, *text.replace(";", " ").replace("=", " ").split()]
    for candidate in candidates:
        if len(candidate) >= _SHORTEST_SECRET:
            yield candidate
