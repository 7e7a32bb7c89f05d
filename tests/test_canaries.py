"""A key is sent to the provider, and appears nowhere else, however the provider repeats it."""

import asyncio
import base64
import html
import json
import logging
import re
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import pytest

from argstream.agent import Agent
from argstream.errors import ArgstreamError, ProviderError
from argstream.models import HttpModel, ModelRequest, ModelSettings, as_model
from argstream.recording import record_async
from argstream.testing import Cut, ErrorEvent, MockProvider, Reply, Status
from tests.models.over_http import PREFIXES, model_of

KEY: Final = "sk-canary-4f9b1c77e2d04a6aa1b3"
_CODES: Final = [ord(character) for character in KEY]
_BASIC: Final = base64.b64encode(f"me:{KEY}".encode()).decode()

SPELLINGS: Final = {
    "plain": f"{KEY}{KEY}",
    "in JSON": json.dumps({"error": json.dumps([KEY])}),
    "in a URL": quote(f"?key={KEY}&x"),
    "in HTML": html.escape(f"<b>{KEY}</b>"),
    "JSON in part": KEY.replace("-", "\\u002d"),
    "JSON in JSON in part": KEY.replace("-", "\\\\u002D"),
    "URL in part": KEY.replace("a", "%61"),
    "JSON and URL": "".join(f"%{code:X}" if code % 2 else f"\\u{code:04x}" for code in _CODES),
    "JSON in full": "".join(f"\\u{code:04x}" for code in _CODES),
    "JSON in full, upper case": "".join(f"\\u{code:04X}" for code in _CODES),
    "URL in full": "".join(f"%{code:02x}" for code in _CODES),
    "URL in full, upper case": "".join(f"%{code:02X}" for code in _CODES),
    "hex": KEY.encode().hex(),
    "hex, upper case": KEY.encode().hex().upper(),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 after a byte": base64.b64encode(f"?{KEY}".encode()).decode(),
    "base64 after a name": _BASIC,
    "URL-safe base64": base64.urlsafe_b64encode(f">??>{KEY}>>>".encode()).decode(),
}
# The headers in which a key is sent, besides that of the provider.
PLACES: Final[Mapping[str, Mapping[str, str]]] = {
    "the header of the provider": {},
    "a named header": {"x-gateway-token": KEY},
    "a scheme": {"x-access": f"Bearer {KEY}"},
    "a random value": {"x-acme-pat": KEY},
    "basic": {"authorization": f"Basic {_BASIC}"},
}
ANSWERS: Final[Mapping[str, Callable[[str], Reply]]] = {
    "refused": lambda text: Reply("Hi", faults=[Status(401, f"Incorrect API key: {text}")]),
    "limited": lambda text: Reply("Hi", faults=[Status(429, text)]),
    "failed at once": lambda text: Reply("Hi", faults=[ErrorEvent(at=0, message=text)]),
    "failed later": lambda text: Reply("Hi", faults=[ErrorEvent(at=3, message=text)]),
    "written": lambda text: Reply(f"You sent {text}", piece_size=10_000),
    "cut": lambda text: Reply(text + " and on" * 900, piece_size=10_000, faults=[Cut(at=5_000)]),
}


def leaks(text: str) -> bool:
    """Return True if a part of the key is in the text, or in what the text may encode."""
    parts = [KEY[start : start + 12] for start in range(len(KEY) - 11)]
    return any(part in one for one in decoded(text) for part in parts)


def decoded(text: str) -> Iterator[str]:
    yield text
    yield unquote(text)
    yield html.unescape(text)
    yield unquote(re.sub(r"\\+u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text))
    for run in re.findall("[0-9a-fA-F]{24,}", text):
        for digits in (run, run[1:]):
            yield bytes.fromhex(digits[: len(digits) // 2 * 2]).decode("latin-1")
    for run in re.findall("[A-Za-z0-9+/_-]{16,}", text):
        for start in range(4):
            digits = run[start:].replace("-", "+").replace("_", "/")
            yield base64.b64decode(digits[: len(digits) // 4 * 4]).decode("latin-1")


def shown(error: BaseException) -> str:
    """Return all that an exception may show: its chain, and the variables of our frames."""
    whole = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [frame for frame in whole.stack if "/src/" in frame.filename]
    return f"{error!r} {vars(error)} {frames} {[frame.locals for frame in frames]}"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_would_be_noticed(spelling: str) -> None:
    assert leaks(f"data: {SPELLINGS[spelling]}\n")
    assert not leaks("nothing of the kind: sk-canary")


@pytest.mark.parametrize(
    ("number", "place", "answer"),
    [(number, *case) for number, case in enumerate(product(PLACES, ANSWERS))],
)
def test_key_appears_nowhere(
    number: int, place: str, answer: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with MockProvider(list(map(ANSWERS[answer], SPELLINGS.values()))) as provider:
        model = model_of(provider, PREFIXES[number % len(PREFIXES)], retries=0)
        settings = ModelSettings(headers=PLACES[place])
        for spelling in SPELLINGS:
            found = asyncio.run(run_agent(model, settings, tmp_path / f"{spelling}.rec"))
            found += [*caplog.messages, repr(provider.requests[-1])]
            assert [one for one in found if leaks(one)] == [], spelling
            assert any("[removed]" in one for one in found), spelling
            caplog.clear()
    assert len(provider.requests) == len(SPELLINGS)
    assert not leaks(f"{provider!r} {model!r} {vars(model)}")


async def run_agent(model: HttpModel, settings: ModelSettings, file: Path) -> list[str]:
    """Return all that a run shows: events, exceptions, and a recording of the response."""
    found: list[str] = []

    async def recorded(request: ModelRequest) -> AsyncIterator[bytes]:
        try:
            async for chunk in record_async(model.stream(request), file):
                yield chunk
        except ProviderError as error:
            found.append(shown(error))
            raise

    source = as_model(recorded, protocol=model.protocol)
    agent = Agent(source, settings=settings, on_event=lambda record: found.append(repr(record)))
    try:
        await agent.run_async("Go")
    except ArgstreamError as error:
        found.append(shown(error))
    assert len(found) > 2
    return [*found, file.read_text()]
