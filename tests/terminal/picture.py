"""Draws the pictures of docs/terminal.md: real runs in a real terminal.

python -m tests.terminal.picture docs
"""

import asyncio
import io
import re
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from argstream.agent import Agent, tool
from argstream.models import CallTool, Reply, Say, ScriptedModel
from argstream.policy import Policy, Rule
from argstream.terminal import TerminalApprover, open_terminal
from tests.terminal.tmux import Tmux

COMMAND = Path(sys.executable).parent / "argstream"
PAPER, INK, FAINT = (20, 24, 29), (211, 217, 224), (113, 124, 137)
RED, GREEN, YELLOW, BLUE = (240, 122, 127), (143, 208, 138), (227, 197, 111), (111, 177, 234)
COLOURS = [PAPER, RED, GREEN, YELLOW, BLUE, (199, 138, 224), (108, 195, 198), INK]
# Without web fonts: an image must load nothing.
FORMAT = re.sub(r"@font-face {{.*?}}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
ANSWER = """\
## What I found

The tests **fail** for *one* reason: `tax()` rounds down.

| function | calls | cents lost |
|---|---:|---:|
| `tax` | 40 | 17 |
| `discount` | 12 | 3 |

1. Round at the end, see [PEP 327](https://peps.python.org/pep-0327/).
2. Run the tests again:

```python
def tax(item):
    return round(item.cents * RATES[item.kind] / 100)
```
"""


async def run_agent() -> None:
    """Run an agent that answers in Markdown, then asks for approval."""

    @tool
    def run_command(command: str) -> str:
        """Run a command."""
        return f"ran {command}"

    reason = "Shell commands always need approval"
    policy = Policy([Rule("ask", tool="run_command", name="shell", reason=reason)], default="allow")
    call = CallTool("run_command", {"command": "python3 -m pytest tests/test_shop.py"})
    model = ScriptedModel(Reply(Say(ANSWER), call), "Done.", piece_size=9, delay=0.001)
    with open_terminal() as terminal:
        approver = TerminalApprover(terminal)
        agent = Agent(model, [run_command], policy=policy, approver=approver)
        async for event in agent.run_stream("Why do the tests fail?"):
            terminal.show(event)


def draw(file: Path, title: str, command: list[str], columns: int, rows: int) -> None:
    with Tmux(command, columns=columns, rows=rows) as terminal:
        terminal.wait_for("? help", timeout=60)
        asyncio.run(asyncio.sleep(0.5))  # until the keys count
        save(file, title, terminal.screen("-e"), columns)


def save(file: Path, title: str, screen: str, columns: int) -> None:
    console = Console(file=io.StringIO(), record=True, width=columns, force_terminal=True)
    # Rich cuts the lower half of the last row, so that one is blank.
    console.print(Text.from_ansi(screen.rstrip("\n")), end="\n\n")
    theme = TerminalTheme(PAPER, INK, COLOURS, [FAINT, *COLOURS[1:]])
    console.save_svg(str(file), title=title, theme=theme, code_format=FORMAT)


def main(folder: Path) -> None:
    demo = [str(COMMAND), "demo", "--speed", "3"]
    draw(folder / "terminal.svg", "argstream demo", demo, 92, 62)
    agent = [sys.executable, "-m", "tests.terminal.picture"]
    draw(folder / "approval.svg", "an agent", agent, 80, 26)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        asyncio.run(run_agent())
