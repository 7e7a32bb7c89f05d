"""Write a file while the model writes it; if the model is cut off, leave no trace. Needs no key.

The tool gets its text as it comes (``Streamed[str]``). It writes beside the target, and moves the
whole into place when the text has ended well. Here a scripted model is cut off in its first attempt
and succeeds in its second. For a real one, ``Agent("anthropic:…", [files.write_file])`` is all.
"""

import sys
import tempfile
from pathlib import Path

from argstream import (
    Agent,
    ScriptedModel,
    Streamed,
    ToolContext,
    tool,
)
from argstream.errors import TextInterruptedError
from argstream.events import (
    ToolCallCompleted,
    ToolCallFailed,
    ToolExecutionStarted,
    ToolOutputDelta,
)
from argstream.models import CallTool, Reply
from argstream.sanitise import visible_line

TEXT = "".join(f"{number:>2} bottles of beer on the wall\n" for number in range(99, 0, -1))


class Files:
    """The files of a project, for a model."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    @tool
    def write_file(self, path: str, content: Streamed[str], context: ToolContext) -> str:
        """Write a file of the project; what was there is replaced.

        :param path: where it goes, from the root of the project
        :param content: all that is in it
        """
        target = (self.root / path).resolve()
        if not target.is_relative_to(self.root):
            raise PermissionError(f"{path} is not in the project")
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as draft:
            beside = Path(draft.name)
        try:
            with beside.open("w", encoding="utf-8") as file:
                for piece in content:  # it ends only if all of the text is there
                    file.write(piece)
            beside.replace(target)
        except TextInterruptedError as interruption:
            context.output(f"the text is {interruption.verdict}: taken back")
            raise
        finally:
            beside.unlink(missing_ok=True)  # whatever went wrong
        return f"wrote {target.stat().st_size} bytes"


def main() -> int:
    """Let a model write a file twice: first it is cut off, then it is not."""
    call = CallTool("write_file", {"path": "song.txt", "content": TEXT})
    cut = CallTool("write_file", call.arguments[:1000])
    model = ScriptedModel(
        Reply(cut, stop="length"), Reply(call), "Sing along!", delay=0.001, piece_size=40
    )
    with tempfile.TemporaryDirectory() as project:
        song = Path(project) / "song.txt"
        song.write_text("nothing yet\n", encoding="utf-8")
        files = Files(Path(project))
        for event in Agent(model, [files.write_file]).run("Write me a song.", stream=True):
            match event:
                case ToolExecutionStarted(name=name):
                    print(f"{name} reads along …")
                case ToolOutputDelta(text=text):
                    print(f"  {visible_line(text)}")
                case ToolCallFailed():
                    print(f"  failed; there is still: {song.read_text(encoding='utf-8').strip()}")
                case ToolCallCompleted(result=result):
                    print(f"  {result}")
        left = [path.name for path in Path(project).iterdir()]
        whole = song.read_text(encoding="utf-8") == TEXT
    print(f"in the project: {', '.join(left)}; the song is {'whole' if whole else 'broken'}")
    return 0 if whole and left == ["song.txt"] else 1


if __name__ == "__main__":
    sys.exit(main())
