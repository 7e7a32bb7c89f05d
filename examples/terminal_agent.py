"""Watch an agent write a file and edit it, in your terminal. Needs no key.

The tools see one folder and nothing else. The terminal shows each argument while it is written:
the file with its line numbers, the edit as a diff against what is there. In a pipe, it is plain
lines. A scripted model plays along; for a real one, ``Agent("anthropic:…", file_tools("."))`` is
all.
"""

import sys
import tempfile
from pathlib import Path

from argstream import Agent, ScriptedModel
from argstream.agent.toolkits import file_tools
from argstream.models import CallTool
from argstream.terminal import ToolViews, file_reader, open_terminal

CODE = '''"""Greets people."""


def greet(name: str) -> str:
    return f"hello, {name}"


if __name__ == "__main__":
    print(greet("you"))
'''
EDITS = [
    {"old": '    return f"hello, {name}"', "new": '    return f"good morning, {name}!"'},
    {"old": 'greet("you")', "new": 'greet("everybody")'},
]


def main() -> int:
    """Let a model work in an empty folder, and show it."""
    model = ScriptedModel(
        CallTool("write_file", {"path": "greet.py", "content": CODE}),
        CallTool("edit_file", {"path": "greet.py", "edits": EDITS}),
        "Now it is polite.",
        delay=0.01,
    )
    with tempfile.TemporaryDirectory() as project:
        agent = Agent(model, file_tools(project))
        looks = ToolViews(read_file=file_reader(Path(project)))
        with open_terminal(looks) as terminal:
            for event in agent.run("Write a greeter, and make it polite.", stream=True):
                terminal.show(event)
        is_polite = "good morning" in (Path(project) / "greet.py").read_text(encoding="utf-8")
    return 0 if is_polite else 1


if __name__ == "__main__":
    sys.exit(main())
