"""Draws the picture in the README: the demo in a real terminal, when it asks.

    python -m tests.terminal.picture docs/terminal.svg

Each run of cells of one style is a text of its own, at its own place and as wide as its cells: so
the columns stand where they should, whichever font is there.
"""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from rich.console import Console
from rich.style import Style
from rich.text import Text
from wcwidth import wcswidth

from tests.terminal.emulator import Emulator
from tests.terminal.tmux import Tmux

__all__ = ["drawn"]

COMMAND: Final = Path(sys.executable).parent / "argstream"
COLUMN, ROW, MARGIN, BAR = 8.4, 19, 20, 38
PAPER, INK, FAINT = "#14181d", "#d3d9e0", "#717c89"
COLOURS: Final = {
    "red": "#f07a7f",
    "green": "#8fd08a",
    "yellow": "#e3c56f",
    "blue": "#6fb1ea",
    "magenta": "#c78ae0",
    "cyan": "#6cc3c6",
    "bright_black": FAINT,
}
FRAME: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">
<title>{title}</title>
<rect width="100%" height="100%" rx="9" fill="{paper}"/>
<g>{lights}</g>
<g font-family="ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
 font-size="14" fill="{ink}" style="white-space: pre">
{rows}
</g>
</svg>
"""


def drawn(text: Text, columns: int, title: str) -> str:
    """Draw the rows of a terminal as SVG."""
    lines = text.split("\n", allow_blank=True)
    rows = [piece for number, line in enumerate(lines) for piece in _row(line, number)]
    lights = "".join(
        f'<circle cx="{MARGIN + 18 * place}" cy="19" r="5.5" fill="{colour}"/>'
        for place, colour in enumerate(("#ec6a5e", "#f4bf4f", "#61c454"))
    )
    return FRAME.format(
        width=columns * COLUMN + 2 * MARGIN,
        height=len(lines) * ROW + BAR + MARGIN,
        title=escape(title),
        paper=PAPER,
        ink=INK,
        lights=lights,
        rows="\n".join(rows),
    )


def _row(line: Text, number: int) -> Iterator[str]:
    column, console = 0, Console(file=io.StringIO())
    for piece, style, _ in line.render(console):
        cells = wcswidth(piece)
        if piece.strip() or (style is not None and style.reverse):
            yield _piece(piece, style or Style.null(), column, number, cells)
        column += cells


def _piece(text: str, style: Style, column: int, row: int, cells: int) -> str:
    x, y = MARGIN + column * COLUMN, BAR + row * ROW
    ink = COLOURS.get(style.color.name, INK) if style.color else FAINT if style.dim else INK
    box, weight = "", ' font-weight="bold"' if style.bold else ""
    slant = ' font-style="italic"' if style.italic else ""
    if style.reverse:
        size = f'width="{cells * COLUMN:.1f}" height="{ROW}"'
        box = f'<rect x="{x:.1f}" y="{y}" {size} fill="{ink}"/>'
        ink = PAPER
    fill = "" if ink == INK else f' fill="{ink}"'
    place = f'x="{x:.1f}" y="{y + 14}" textLength="{cells * COLUMN:.1f}"'
    # Browsers and others heed one of these, not both, and only here.
    spaces = 'xml:space="preserve"'
    return f"{box}<text {spaces} {place}{fill}{weight}{slant}>{escape(text)}</text>"


def main(file: str, columns: int = 92, rows: int = 75) -> None:
    """Play the demo until it asks, and draw what is on the screen then."""
    with Tmux([str(COMMAND), "demo", "--speed", "3"], columns=columns, rows=rows) as terminal:
        terminal.wait_for("? help", timeout=60)
        screen = terminal.screen(colours=True)
    emulator = Emulator(columns, rows)
    emulator.feed(screen.rstrip("\n").replace("\n", "\r\n"))
    Path(file).write_text(drawn(emulator.text(), columns, "argstream demo"), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
