"""One question at a time, on a screen and for a keyboard, whoever asks."""

import asyncio
from unittest.mock import patch

import pytest

from argstream.terminal.approving._attention import ANY_KEY
from argstream.terminal.approving._turns import turn


@pytest.mark.parametrize(
    ("second", "comes"),
    [
        (("screen", "other keys"), ["first", "second"]),
        (("other screen", "keys"), ["first", "second"]),
        (("other screen", "other keys"), ["second", "first"]),
    ],
)
def test_who_uses_the_same_screen_or_keyboard_waits(
    second: tuple[str, str], comes: list[str]
) -> None:
    over: list[str] = []

    async def ask(name: str, where: tuple[str, str], seconds: float) -> None:
        async with turn(*where):
            await asyncio.sleep(seconds)
            over.append(name)

    async def scenario() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ask("first", ("screen", "keys"), 0.02))
            tasks.create_task(ask("second", second, 0))

    with patch("argstream.terminal.approving._turns._TURN_SECONDS", 0.001):
        asyncio.run(scenario())
    assert over == comes


def test_a_position_is_told_if_there_are_several() -> None:
    positions: list[str] = []

    async def ask() -> None:
        async with turn("screen", "keys") as own:
            positions.append(own.position)

    async def scenario() -> None:
        async with turn("screen", "keys") as own:
            positions.append(own.position)
            waiting = asyncio.create_task(ask())
            await asyncio.sleep(0)
            positions.append(own.position)
        await waiting

    asyncio.run(scenario())
    assert positions == ["", "1 of 2", "2 of 2"]


def test_the_key_that_answered_something_just_now_is_known_to_the_next() -> None:
    async def scenario() -> None:
        async with turn("screen", "known keys") as own:
            assert own.key_before == ""
            own.answered("y")
        async with turn("screen", "known keys") as own:
            assert own.key_before == "y"
            with patch("argstream.terminal.approving._turns._RECENT_SECONDS", 0):
                assert own.key_before == ""

    asyncio.run(scenario())


def test_any_key_may_be_meant_for_a_question_that_has_disappeared() -> None:
    async def scenario() -> None:
        with pytest.raises(KeyError):
            async with turn("screen", "lost keys"):
                raise KeyError
        async with turn("screen", "lost keys") as own:
            assert own.key_before == ANY_KEY

    asyncio.run(scenario())
