"""What a terminal does with keys while we paint: no echo, for that would tear the tail.

Ctrl-C, Ctrl-Z and Ctrl-S keep their meaning, and what is typed waits for who reads it next. Only
the one setting is changed and put back, so that whatever others set meanwhile stays; unless the
process ends or stops, for then they cannot put it back themselves.
"""

import sys
from typing import Any, TextIO, TypeAlias

from argstream.terminal._writing import descriptor, is_in_background

__all__ = ["Modes"]

if sys.platform == "win32":

    class Modes:
        """Nothing to do here: a console echoes only while somebody reads from it."""

        def __init__(self, output: TextIO) -> None:
            """Take the output that is painted on."""

        def remember(self) -> None:
            """Note how everything is set."""

        def quiet(self) -> None:
            """Do not echo keys."""

        def restore(self) -> None:
            """Echo keys again, if they were echoed before."""

        def reset(self) -> None:
            """Set everything as it was."""

else:
    import termios

    _Settings: TypeAlias = list[Any]
    _LOCAL = 3  # the index of the flags that ECHO is one of

    class Modes:
        """Switches the echo of a terminal off and on."""

        def __init__(self, output: TextIO) -> None:
            """Take the output that is painted on; if it is no terminal, keys come from stdin's."""
            self._keyboards = [output, sys.stdin]
            self._hushed: TextIO | None = None  # whose echo we have switched off
            self._remembered: list[tuple[TextIO, _Settings]] = []

        def remember(self) -> None:
            """Note how everything is set."""
            known = ((keyboard, _settings(keyboard)) for keyboard in self._keyboards)
            self._remembered = [(keyboard, found) for keyboard, found in known if found]

        def quiet(self) -> None:
            """Do not echo keys, whoever has switched that on meanwhile.

            In the background nothing is done: the system stops those who try.
            """
            for keyboard in self._keyboards:
                if _switch_echo(keyboard, on=False):
                    self._hushed = keyboard

        def restore(self) -> None:
            """Echo keys again, if they were echoed before."""
            if self._hushed is not None:
                _switch_echo(self._hushed, on=True)
                self._hushed = None

        def reset(self) -> None:
            """Set everything as it was."""
            for keyboard, settings in self._remembered:
                _set(keyboard, settings)
            self._hushed = None

    def _switch_echo(keyboard: TextIO, *, on: bool) -> bool:
        """Switch it, and tell whether that has changed anything."""
        settings = _settings(keyboard)
        if settings is None or bool(settings[_LOCAL] & termios.ECHO) is on:
            return False
        settings[_LOCAL] ^= termios.ECHO
        return _set(keyboard, settings)

    def _settings(keyboard: TextIO) -> _Settings | None:
        number = descriptor(keyboard)
        try:
            return None if number is None else termios.tcgetattr(number)
        except termios.error:  # no terminal, or it is gone
            return None

    def _set(keyboard: TextIO, settings: _Settings) -> bool:
        if is_in_background(keyboard):
            return False
        try:
            # Now, and not when all is written: that would wait while Ctrl-S holds the terminal.
            termios.tcsetattr(keyboard, termios.TCSANOW, settings)
        except (termios.error, ValueError):  # it is gone, or closed
            return False
        return True
