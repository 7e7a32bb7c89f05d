"""The body of a request, read with all limits and decoded in one go: it has one meaning only."""

import asyncio
import json
import re
from itertools import accumulate
from typing import Final, NamedTuple, TypeVar

import msgspec
from starlette.requests import Request

from argstream.server.limits import Limits
from argstream.server.problems import Problem
from argstream.server.rates import Place, Places, client_of

__all__ = ["read_json"]

T = TypeVar("T")

_SHORT: Final = 64 * 1024
"""What is longer is decoded in a thread, and looked at in pieces, so that others need not wait."""

_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1, ord(","): 0}
_NO_MARKS: Final = bytes(set(range(256)) - _STEPS.keys())

# What begins with a backslash: escaped backslashes, a surrogate pair, or else half of one.
_SURROGATES: Final = re.compile(
    rb"\\(?:(\\(?:\\\\)*+|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


class _Length(NamedTuple):
    """How long a body may be, and what says so."""

    most: int
    named: str = ""


async def read_json(  # noqa: PLR0913 - by name
    request: Request,
    kind: type[T],
    limits: Limits,
    *,
    default: T | None = None,
    incoming: Places | None = None,
    most: int | None = None,
) -> T:
    """Read a JSON body as what it should be; a ``Problem`` says what is wrong with it, and where.

    Where there is a default, there need be no body. With ``incoming``, what all bodies need that
    are on their way is bounded. ``most`` is for bodies that are never as long as others may be.

    Half of a surrogate pair becomes U+FFFD: a page can cut a text there, and no store could keep
    it. 400: it is no JSON, or has a key twice. 408: it did not come. 413: it is too long. 422: it
    is JSON, and not what is asked for. 429 and 503: too much is on its way.
    """
    place = None if incoming is None else incoming.hold(client_of(request.scope))
    try:
        try:
            body = await _read(request, limits, place, _length(limits, most))
        except Problem as problem:
            # What is left unread is not waited for: the connection is of no more use.
            problem.headers["connection"] = "close"
            raise
        if not body:
            if default is not None:
                return default
            raise Problem(400, "no-body", "the request has no body: send a JSON object")
        if len(body) <= _SHORT:
            return _decode(body, kind, limits)
        return await asyncio.to_thread(_decode, body, kind, limits)
    finally:
        if place is not None:
            place.release()


def _length(limits: Limits, most: int | None) -> _Length:
    if most is not None and most < limits.max_body_bytes:
        return _Length(most)
    return _Length(limits.max_body_bytes, f" (max_body_bytes={limits.max_body_bytes})")


async def _read(request: Request, limits: Limits, place: Place | None, allowed: _Length) -> bytes:
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise Problem(400, "wrong-length", "the header Content-Length is no number")
    # So many digits are more than is ever allowed, and int() would be slow.
    if len(length) > 18 or int(length) > allowed.most:
        raise _too_long(allowed)
    chunks: list[bytes] = []
    total = 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                total += len(chunk)
                if total > allowed.most:
                    raise _too_long(allowed)
                if place is not None:
                    place.grow(len(chunk))
                chunks.append(chunk)
    except TimeoutError:
        detail = f"the body did not come within {limits.body_seconds:g} s"
        raise Problem(408, "body-too-slow", f"{detail} (body_seconds)") from None
    return b"".join(chunks)


def _too_long(allowed: _Length) -> Problem:
    detail = f"the body is longer than {allowed.most} bytes, which is all that is taken"
    return Problem(413, "body-too-long", f"{detail}{allowed.named}")


def _decode(body: bytes, kind: type[T], limits: Limits) -> T:
    _check_shape(body, limits)
    if rb"\ud" in body or rb"\uD" in body:
        body = _SURROGATES.sub(lambda match: match[0] if match[1] else rb"\ufffd", body)
    try:
        decoded = msgspec.json.decode(body, type=kind)
        # Only the keys are looked at: whatever else it holds is counted, and forgotten.
        json.loads(body.decode(), object_pairs_hook=_check_keys, parse_int=len, parse_float=len)
    except msgspec.ValidationError as error:
        raise Problem(422, "wrong-body", f"the body is not what is asked for: {error}") from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Problem(400, "no-json", f"the body is no JSON: {error}") from None
    return decoded


def _check_shape(body: bytes, limits: Limits) -> None:
    """Refuse what is nested too deep, before anything recurses into it, or holds too much."""
    opened = body.count(b"[") + body.count(b"{")
    if opened <= limits.max_depth and len(body) <= limits.max_values:
        return
    # What is escaped ends no string; outside of one it is no JSON, which is found out later.
    text = body.replace(rb"\\", b"").replace(rb"\"", b"")
    inside = level = values = 0
    for start in range(0, len(text), _SHORT):
        parts = text[start : start + _SHORT].split(b'"')
        marks = b"".join(parts[inside::2]).translate(None, _NO_MARKS)
        inside = (inside + len(parts) - 1) % 2
        values += len(marks) - marks.count(b"]") - marks.count(b"}")
        if values > limits.max_values:
            detail = f"the body holds more than {limits.max_values} values (max_values)"
            raise Problem(413, "body-too-large", detail)
        levels = list(accumulate(map(_STEPS.__getitem__, marks), initial=level))
        if max(levels) > limits.max_depth:
            detail = f"the body is nested deeper than {limits.max_depth} levels (max_depth)"
            raise Problem(400, "body-too-deep", detail)
        level = levels[-1]


def _check_keys(pairs: list[tuple[str, object]]) -> None:
    """Refuse an object with a key twice: others could have read it in another way."""
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise Problem(400, "doubled-key", f"an object of the body has the key {key!r} twice")
        seen.add(key)
