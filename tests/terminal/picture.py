"""Draws the picture in the README: the demo in a real terminal, when it asks.

python -m tests.terminal.picture docs/terminal.svg
"""

import io
import re
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.terminal.tmux import Tmux

COMMAND = Path(sys.executable).parent / "argstream"
PAPER, INK, FAINT = (20, 24, 29), (211, 217, 224), (113, 124, 137)
RED, GREEN, YELLOW, BLUE = (240, 122, 127), (143, 208, 138), (227, 197, 111), (111, 177, 234)
COLOURS = [PAPER, RED, GREEN, YELLOW, BLUE, (199, 138, 224), (108, 195, 198), INK]
# Without web fonts: an image must load nothing.
FORMAT = re.sub(r"@font-face {{.*?}}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def main(file: str, columns: int = 92, rows: int = 75) -> None:
    """Play the demo until it asks, and draw what is on the screen then."""
    with Tmux([str(COMMAND), "demo", "--speed", "3"], columns=columns, rows=rows) as terminal:
        terminal.wait_for("? help", timeout=60)
        screen = terminal.screen("-e")
    console = Console(file=io.StringIO(), record=True, width=columns, force_terminal=True)
    console.print(Text.from_ansi(screen.rstrip("\n")))
    theme = TerminalTheme(PAPER, INK, COLOURS, [FAINT, *COLOURS[1:]])
    console.save_svg(file, title="argstream demo", theme=theme, code_format=FORMAT)


if __name__ == "__main__":
    main(sys.argv[1])
