"""The body of a request, read with all limits and decoded in one go: it has one meaning only."""

import asyncio
import re
from typing import Final, TypeVar

import msgspec
from starlette.requests import Request

from argstream.server.limits import Limits
from argstream.server.problems import Problem

__all__ = ["read_json"]

T = TypeVar("T")

# What is left unread is not waited for: the connection is of no more use.
_HANG_UP: Final = {"connection": "close"}

_LONGEST_DETAIL: Final = 300

# A string as a whole, also one that is cut, or else brackets; nothing is looked at twice.
_STRING_OR_BRACKETS: Final = re.compile(
    rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|([\[{]++)|([\]}]++)', re.DOTALL
)


async def read_json(request: Request, kind: type[T], limits: Limits, default: T | None = None) -> T:
    """Read a JSON body as what it should be; a ``Problem`` says what is wrong with it, and where.

    Where there is a default, there need be no body.

    Of two equal keys the last counts, as everywhere. 400: it is no JSON. 408: it did not come.
    413: it is too long. 422: it is JSON, and not what is asked for.
    """
    body = await _read(request, limits)
    if not body:
        if default is not None:
            return default
        raise Problem(400, "no-body", "the request has no body: send a JSON object")
    if _is_deeper(body, limits.max_depth):
        detail = f"the body is nested deeper than {limits.max_depth} levels"
        raise Problem(400, "body-too-deep", detail)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Problem(
            422, "wrong-body", f"the body is not what is asked for: {_cut(error)}"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "no-json", f"the body is no JSON: {_cut(error)}") from None


async def _read(request: Request, limits: Limits) -> bytes:
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise Problem(400, "wrong-length", "the header Content-Length is no number", _HANG_UP)
    # So many digits are more than is ever allowed, and int() would be slow.
    if len(length) > 18 or int(length) > limits.max_body_bytes:
        raise _too_long(limits)
    chunks: list[bytes] = []
    total = 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                total += len(chunk)
                if total > limits.max_body_bytes:
                    raise _too_long(limits)
                chunks.append(chunk)
    except TimeoutError:
        detail = f"the body did not come within {limits.body_seconds:g} s"
        raise Problem(408, "body-too-slow", detail, _HANG_UP) from None
    return b"".join(chunks)


def _too_long(limits: Limits) -> Problem:
    detail = f"the body is longer than {limits.max_body_bytes} bytes, which is all that is taken"
    return Problem(413, "body-too-long", detail, _HANG_UP)


def _is_deeper(body: bytes, depth: int) -> bool:
    """Tell whether JSON is nested too deep, before anything recurses into it."""
    if body.count(b"[") + body.count(b"{") <= depth:
        return False
    level = 0
    for match in _STRING_OR_BRACKETS.finditer(body):
        opened, closed = match.span(1), match.span(2)
        level += opened[1] - opened[0] - (closed[1] - closed[0])
        if level > depth:
            return True
    return False


def _cut(error: Exception) -> str:
    """Give what it says, but not a page of what was sent: it may quote the names of fields."""
    text = str(error)
    return text if len(text) <= _LONGEST_DETAIL else f"{text[:_LONGEST_DETAIL]}…"
