"""The waterfall of ``argstream inspect``: below its report, and as a picture in a file."""

import sys
from pathlib import Path
from shutil import get_terminal_size
from typing import NamedTuple

from argstream.cli._input import complain
from argstream.sanitise import visible_line
from argstream.terminal.palette import Palette
from argstream.terminal.waterfall import Timeline, draw, svg
from argstream.terminal.widths import rows_of

__all__ = ["Picture", "show_waterfall"]


def show_waterfall(timeline: Timeline) -> None:
    """Draw it on standard output, if there is a call."""
    columns = get_terminal_size().columns - 1
    palette = Palette.of(sys.stdout)
    lines = draw(timeline, columns)
    if lines:
        sys.stdout.write("\n")
    for line in lines:
        for row in rows_of(line, columns):
            sys.stdout.write(palette.ansi(row).rstrip() + "\n")


class Picture(NamedTuple):
    """Where to write the picture."""

    file: str
    overwrite: bool = False

    def write(self, timeline: Timeline, about: str) -> bool:
        """Write it, and say whether that went well; if not, why is told."""
        name = visible_line(self.file)
        if not timeline.calls:
            complain(f"there is no call in it, so there is nothing to draw in {name}")
            return False
        try:
            with Path(self.file).open("w" if self.overwrite else "x", encoding="utf-8") as file:
                file.write(svg(timeline, about))
        except FileExistsError:
            complain(f"{name} exists already: name another, or overwrite with --force")
            return False
        except OSError as error:
            complain(f"cannot write {name}: {error.strerror}")
            return False
        return True
