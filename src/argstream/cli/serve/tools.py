"""The tools of the script: they work, and touch nothing but a temporary folder."""

import asyncio
import shutil
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from argstream.agent import Tool, ToolContext, tool
from argstream.agent.toolkits import file_tools

__all__ = ["script_tools"]

_STEPS: Final = 5
_MOST_RUNS: Final = 100
"""Whose files are kept: a server that is open for weeks must not fill the disk."""


def script_tools(folder: Path, pause: float) -> list[Tool]:
    """Give two tools that run at once, and one that asks; files go into this folder.

    ``pause`` is how many seconds each step of the longer one takes.
    """

    @tool
    def count_words(text: str) -> str:
        """Count the words and the characters of a text.

        :param text: Any text.
        """
        return f"{_counted(text.split(), 'word')} and {_counted(text, 'character')}"

    @tool
    async def count_primes(
        below: Annotated[int, Field(ge=2, le=1_000_000)], context: ToolContext
    ) -> str:
        """Count the prime numbers below a number, and tell how far it has come.

        :param below: The first number that is too large.
        """
        is_prime = _sieve(below)
        for step in range(1, _STEPS + 1):
            end = below * step // _STEPS
            context.output(f"below {end:,}: {sum(is_prime[:end]):,}\n")
            await asyncio.sleep(pause)  # or nobody would see that it takes its time
        return f"{sum(is_prime):,} primes are below {below:,}"

    @tool(requires_confirmation=True)
    def write_file(path: str, content: str, context: ToolContext) -> str:
        """Write a text file; a person must approve it first.

        :param path: Where, such as notes/today.md.
        :param content: The whole text.
        """
        place = folder / context.run_id  # nobody finds what somebody else has written
        place.mkdir(exist_ok=True)
        _forget_oldest(folder)
        write = next(one for one in file_tools(place) if one.name == "write_file")
        return f"{write.function(path, content)}, in a temporary folder of the server"

    return [count_words, count_primes, write_file]


def _counted(things: list[str] | str, name: str) -> str:
    return f"{len(things):,} {name}{'' if len(things) == 1 else 's'}"


def _sieve(below: int) -> bytearray:
    is_prime = bytearray([1]) * below
    is_prime[:2] = bytes(2)
    for number in range(2, int(below**0.5) + 1):
        if is_prime[number]:
            multiples = range(number * number, below, number)
            is_prime[number * number :: number] = bytes(len(multiples))
    return is_prime


def _forget_oldest(folder: Path) -> None:
    places = sorted(folder.iterdir(), key=lambda place: place.stat().st_mtime_ns)
    for place in places[:-_MOST_RUNS]:
        shutil.rmtree(place, ignore_errors=True)  # another call may be about it as well
