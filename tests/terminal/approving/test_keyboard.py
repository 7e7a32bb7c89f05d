"""Keys, as they come from a terminal."""

import asyncio
import os
import termios
from collections.abc import Iterator
from typing import TextIO
from unittest.mock import patch

import pytest

from argstream.terminal.approving._keyboard import Hangup, Keyboard
from argstream.terminal.approving._keys import Key

LOCAL_FLAGS = 3


class Pair:
    """A terminal, and the keys of it."""

    def __init__(self) -> None:
        self.keys, self._file = os.openpty()
        self.source: TextIO = os.fdopen(self._file)

    def press(self, keys: bytes) -> None:
        os.write(self.keys, keys)

    def flags(self) -> int:
        flags: int = termios.tcgetattr(self._file)[LOCAL_FLAGS]
        return flags


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.source.close()
    os.close(pair.keys)


def read(pair: Pair, keys: bytes, problem: type[Exception] | None = None) -> list[Key]:
    """Give what is read after keys were pressed; a problem is one of who watches files."""

    async def reading() -> list[Key]:
        loop = asyncio.get_running_loop()
        keyboard = Keyboard(pair.source)
        watching = patch.object(loop, "add_reader", side_effect=problem, wraps=loop.add_reader)
        with keyboard.listening(), watching:
            pair.press(keys)
            return await asyncio.wait_for(keyboard.read(), 5)

    return asyncio.run(reading())


def test_a_key_comes_without_enter(pair: Pair) -> None:
    assert read(pair, b"y") == [Key("character", "y")]


def test_escape_comes_when_nothing_follows(pair: Pair) -> None:
    assert read(pair, b"\x1b") == [Key("escape")]


def test_a_key_is_not_alone_if_another_follows_as_in_a_word(pair: Pair) -> None:
    async def typing() -> list[bool]:
        keyboard = Keyboard(pair.source)
        with keyboard.listening():
            asyncio.get_running_loop().call_later(0.15, pair.press, b"o")
            return [await keyboard.is_more_coming(), await nothing_more(keyboard)]

    async def nothing_more(keyboard: Keyboard) -> bool:
        await keyboard.read()
        return not await keyboard.is_more_coming()

    assert asyncio.run(typing()) == [True, True]


@pytest.mark.parametrize("problem", [NotImplementedError, PermissionError])
def test_keys_come_where_the_event_loop_cannot_watch_files(
    pair: Pair, problem: type[Exception]
) -> None:
    assert read(pair, b"y", problem) == [Key("character", "y")]
    assert read(pair, b"\x1b", problem) == [Key("escape")]


def test_what_was_typed_before_is_dropped(pair: Pair) -> None:
    pair.press(b"yyy\n")
    assert read(pair, b"n") == [Key("character", "n")]


def test_ctrl_c_stays_a_signal_and_lines_are_lines_again_afterwards(pair: Pair) -> None:
    before = pair.flags()

    def listen_and_fail() -> None:
        keyboard = Keyboard(pair.source)
        with keyboard.listening():
            assert not pair.flags() & termios.ICANON
            assert pair.flags() & termios.ISIG
            with keyboard.left():
                assert pair.flags() == before
            assert not pair.flags() & termios.ICANON
            raise KeyError

    with pytest.raises(KeyError):
        listen_and_fail()
    assert pair.flags() == before


def test_what_others_change_meanwhile_stays(pair: Pair) -> None:
    with Keyboard(pair.source).listening():
        modes = termios.tcgetattr(pair.source)
        modes[LOCAL_FLAGS] ^= termios.ECHO
        termios.tcsetattr(pair.source, termios.TCSANOW, modes)
    assert not pair.flags() & termios.ECHO
    assert pair.flags() & termios.ICANON


def test_what_was_typed_for_a_shell_is_dropped_and_its_modes_are_set_again(pair: Pair) -> None:
    async def stopped_for_a_while() -> list[list[Key]]:
        keyboard = Keyboard(pair.source)
        with keyboard.listening():
            modes = termios.tcgetattr(pair.source)
            modes[LOCAL_FLAGS] |= termios.ICANON
            termios.tcsetattr(pair.source, termios.TCSANOW, modes)
            pair.press(b"y\ny")
            readings = [await asyncio.wait_for(keyboard.read(), 5)]
            pair.press(b"n")
            return [*readings, await asyncio.wait_for(keyboard.read(), 5)]

    before = pair.flags()
    with patch("argstream.terminal.approving._keyboard._LOOK_SECONDS", 0.02):
        assert asyncio.run(stopped_for_a_while()) == [[], [Key("character", "n")]]
    assert pair.flags() == before


def test_in_the_background_keys_are_those_of_the_shell(pair: Pair) -> None:
    where = "argstream.terminal.approving._keyboard"

    async def in_the_background() -> list[list[Key]]:
        keyboard = Keyboard(pair.source)
        with patch(f"{where}._LOOK_SECONDS", 0.02), keyboard.listening():
            with patch(f"{where}.is_in_background", return_value=True):
                reading = asyncio.ensure_future(keyboard.read())
                pair.press(b"y")
                await asyncio.sleep(0.1)
                assert not reading.done()
            readings = [await asyncio.wait_for(reading, 5)]
            pair.press(b"n")
            return [*readings, await asyncio.wait_for(keyboard.read(), 5)]

    assert asyncio.run(in_the_background()) == [[], [Key("character", "n")]]


def test_a_terminal_that_is_gone_is_told() -> None:
    pair = Pair()

    async def reading() -> None:
        keyboard = Keyboard(pair.source)
        with keyboard.listening():
            os.close(pair.keys)
            await asyncio.wait_for(keyboard.read(), 5)

    with pytest.raises(Hangup):
        asyncio.run(reading())
    with pytest.raises(Hangup), Keyboard(pair.source).listening():
        pass
    pair.source.close()
