"""What goes to the log of a failure: nothing that is secret.

Neither the token, nor what came in the headers Authorization and Cookie, nor the query of a request
gets into a log, also not as part of an exception's text.
"""

import logging
import re
import traceback
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote, unquote_plus

from starlette.types import Scope

from argstream.errors import StoreFailure
from argstream.server.problems import Problem

__all__ = ["log_failure", "logger"]

logger: Final = logging.getLogger("argstream.server")

_SHORTEST_SECRET: Final = 6  # what is shorter would take half the text with it


def log_failure(
    error: Exception,
    problem: Problem,
    scope: Scope,
    secrets: Iterable[str] = (),
    *,
    where: str = "",
) -> None:
    """Log what went wrong, with all that helps to find it.

    ``where`` names the callback that raised the error: its type and message are then in the first
    line.

    That a store does not work happens, and then to each request: a line says all there is to say.
    """
    text = (
        " ".join(str(error).split())
        if isinstance(error, StoreFailure)
        else "\n" + "".join(traceback.format_exception(error))
    )
    if where:
        message = " ".join(str(error).split())
        text = f"{where} raised {type(error).__name__}: {message}{text}"
    for secret in sorted({*secrets, *_secrets_of(scope)}, key=len, reverse=True):
        text = text.replace(secret, "[removed]")
    # A path may hold what would look like another line of the log.
    logger.error(
        "%s %r: %d %s: %s", scope["method"], scope["path"], problem.status, problem.code, text
    )


def _secrets_of(scope: Scope) -> Iterator[str]:
    query = scope.get("query_string", b"").decode("latin-1")
    candidates = [query, *_forms(query)]
    # Names too: ?=secret and ?secret are no more than another spelling.
    for part in re.split("[&;=]", query):
        candidates += _forms(part)
    for name, value in scope["headers"]:
        if name in (b"authorization", b"cookie", b"proxy-authorization"):
            text = value.decode("latin-1")
            candidates += [text, *text.replace(";", " ").replace("=", " ").split()]
    for candidate in candidates:
        if len(candidate) >= _SHORTEST_SECRET:
            yield candidate


def _forms(text: str) -> tuple[str, ...]:
    """Give what came as it came, and as it is read: an error may quote either."""
    return text, unquote(text), unquote_plus(text)
