"""What goes to the log of a failure: nothing that is secret.

Neither the token, nor what came in the headers Authorization and Cookie, nor the query of a request
gets into a log, also not as part of an exception's text.
"""

import logging
import traceback
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import parse_qsl

from starlette.types import Scope

from argstream.server.problems import Problem

__all__ = ["log_failure", "logger"]

logger: Final = logging.getLogger("argstream.server")

_SHORTEST_SECRET: Final = 6  # what is shorter would take half the text with it


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
