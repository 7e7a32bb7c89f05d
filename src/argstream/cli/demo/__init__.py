"""``argstream demo``: three tool calls, shown while they are being written."""

import json
import os
import time
from collections.abc import Iterator
from random import Random

import typer

from argstream.jsonstream import Done, Fragment, Key, Parser, Text
from argstream.testing import cut

__all__ = ["show_demo"]

_SOURCE = '''\
def primes(limit):
    """Yield the primes below a limit."""
    composite = set()
    for n in range(2, limit):
        if n not in composite:
            yield n
            composite.update(range(n * n, limit, n))'''
_GOOD_CALL = json.dumps(
    {"path": "src/primes.py", "executable": False, "tags": ["math", "new"], "content": _SOURCE}
)
_BROKEN_CALL = (
    '{"path": "deploy.sh", "mode": 0755, "content": "#!/bin/sh\\nexec ./deploy --now\\n"}'
)
_MEANT_CALL = '{"command": "rm -rf /var/lib/app/cache/old-2019"}'
_CUT_CALL = _MEANT_CALL[:28]

_SECONDS_PER_CHARACTER = 0.01


def show_demo(speed: float) -> None:
    """Play the three calls."""
    model = _Model(speed)
    _show_good_call(model)
    _show_broken_call(model)
    _show_cut_call(model)


class _Model:
    """Writes a text at a model's pace, a few characters at a time."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._random = Random(7)  # noqa: S311 - not for secrets
        self.seconds = 0.0
        self.written = 0

    def write(self, text: str) -> Iterator[str]:
        self.seconds = 0.0
        self.written = 0
        for chunk in cut(text, [self._random.randint(1, 7) for _ in text]):
            pause = len(chunk) * _SECONDS_PER_CHARACTER
            time.sleep(pause / self._speed)
            self.seconds += pause
            self.written += len(chunk)
            yield chunk


def _show_good_call(model: _Model) -> None:
    _heading("1. A model calls write_file. Its arguments, while it is still writing them:")
    parser = Parser()
    for chunk in model.write(_GOOD_CALL):
        for fragment in parser.feed(chunk):
            _show_argument(fragment, model.seconds)
    parser.close()
    _say()
    _say(
        f"\n   {parser.verdict} after {model.seconds:.1f} s."
        " Until then, json.loads would have shown nothing at all."
    )


def _show_argument(fragment: Fragment, seconds: float) -> None:
    match fragment:
        case Key((str(name),)):
            _say(f"\n   {_dim(f'{seconds:3.1f} s')}  {name:<12}", end="")
        case Text((_,), text):
            _say(text.replace("\n", f"\n{'':22}"), end="")
        case Done((_, int()), value):
            _say(f"{value}  ", end="")
        case Done((_,), bool(value)):
            _say(json.dumps(value), end="")
        case _:
            pass


def _show_broken_call(model: _Model) -> None:
    _heading("2. A broken call is refused at the first character that cannot be right:")
    parser = _show_text(model, _BROKEN_CALL)
    assert parser.error is not None, "the call is broken"  # noqa: S101 - it is our own text
    spared = len(_BROKEN_CALL) - model.written
    _say(f"\n   {'':{parser.offset}}{_red('^')}\n   {parser.error.message}")
    _say(
        f"\n   {parser.verdict} after {model.seconds:.1f} s."
        f" The other {spared} characters need not be paid for."
    )


def _show_cut_call(model: _Model) -> None:
    _heading("3. A call is cut off by a token limit:")
    parser = _show_text(model, _CUT_CALL)
    repaired = json.dumps(parser.value)
    parser.close()
    _say(f"\n\n   Repaired, it would run  {_red(repaired)}")
    _say(f"   What the model meant    {_MEANT_CALL}")
    _say(f"\n   {parser.verdict}. Nothing runs because a prefix happens to parse.\n")


def _show_text(model: _Model, text: str) -> Parser:
    """Show the text itself as it is written, up to its first error."""
    _say("\n   ", end="")
    parser = Parser()
    for chunk in model.write(text):
        parser.feed(chunk)
        _say(chunk, end="")
        if parser.error is not None:
            break
    return parser


def _heading(text: str) -> None:
    _say("\n" + typer.style(text, bold=True))


def _dim(text: str) -> str:
    return typer.style(text, dim=True)


def _red(text: str) -> str:
    return typer.style(text, fg="red", bold=True)


def _say(text: str = "", end: str = "\n") -> None:
    # None: in colour if it is a terminal.
    typer.echo(text + end, nl=False, color=False if os.environ.get("NO_COLOR") else None)
