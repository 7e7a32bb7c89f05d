"""Keep a run of Claude Code in a log, and let another process decide what it may do.

The run is written to an SQLite file while it happens. A colleague opens the same file, as another
process would, sees the run from its beginning, and decides on the call that Claude Code wants a
permission for. Needs no key: without a prompt, Claude Code is played. With one it is the real one:
``python examples/claude_code_log.py "Write a song about bottles into song.txt"``.
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    PermissionResultAllow,
    ToolPermissionContext,
    query,
)

from argstream.agent import Approve, Deny, Observer
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    RunCompleted,
    RunFailed,
    ToolArgsCompleted,
    ToolCallCompleted,
    ToolCallFailed,
)
from argstream.runs import open_store
from argstream.sanitise import visible_line

SONG = {"file_path": "song.txt", "content": "99 bottles of beer on the wall\n"}


async def played(observer: Observer) -> AsyncIterator[dict[str, Any]]:
    """Say what Claude Code would, one message after the other."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "Write", "input": SONG}
    yield {"type": "system", "subtype": "init"}
    yield {"type": "assistant", "message": {"id": "msg_1", "content": [call]}}
    context = ToolPermissionContext(tool_use_id="toolu_1")
    answer = await observer.can_use_tool("Write", SONG, context)
    is_allowed = isinstance(answer, PermissionResultAllow)
    said = "file created" if is_allowed else "not allowed"
    came = {"tool_use_id": "toolu_1", "content": said, "is_error": not is_allowed}
    yield {"type": "user", "message": {"content": [{"type": "tool_result", **came}]}}
    yield {"type": "result", "subtype": "success", "is_error": False, "result": "Sing along!"}


async def decide_elsewhere(file: Path, run_id: str) -> None:
    """Follow the run in the file, and decide on what it asks."""
    async with aclosing(open_store(file)) as store, aclosing(store.follow(run_id)) as records:
        async for record in records:
            if isinstance(record.event, ApprovalRequested):
                request = record.event
                may_run = request.name in ("Write", "Edit")
                decision = Approve(digest=request.digest) if may_run else Deny("only files, please")
                await store.decide(run_id, {request.call_id: decision})


async def run(prompt: str, file: Path) -> bool:
    """Have Claude Code work, keep that in the file, and show it."""
    async with Observer(store=file) as observer:
        options = ClaudeAgentOptions(can_use_tool=observer.can_use_tool)
        source = query(prompt=prompt, options=options) if prompt else played(observer)
        observed = observer.observe(source, prompt or "Write me a song.")
        colleague: asyncio.Task[None] | None = None
        async for event in observed:
            if colleague is None:  # what is told is in the file
                colleague = asyncio.create_task(decide_elsewhere(file, observed.run_id))
            match event:
                case ToolArgsCompleted(name=name, arguments=arguments):
                    print(f"{name} {visible_line(str(arguments))}")
                case ApprovalDecided(decision=decision, reason=reason):
                    print(f"  {decision} {visible_line(reason)}".rstrip())
                case ToolCallCompleted(result=result):
                    print(f"  = {visible_line(str(result))}")
                case ToolCallFailed(error=error):
                    print(f"  ✗ {visible_line(str(error))}")
                case RunCompleted(result=result):
                    print(visible_line(str(result)))
                case RunFailed(message=message):
                    print(f"failed: {visible_line(message)}")
                case _:
                    pass
        if colleague is not None:
            await colleague
        info = await observer.store.info(observed.run_id)
        print(f"in the log: {info.seq} records of a run that has {info.status}")
        return info.status == "completed"


def main() -> int:
    """Run the prompt that was given, or a play."""
    prompt = " ".join(sys.argv[1:])
    if prompt:
        return 0 if asyncio.run(run(prompt, Path("runs.db"))) else 1
    with tempfile.TemporaryDirectory() as directory:
        return 0 if asyncio.run(run("", Path(directory) / "runs.db")) else 1


if __name__ == "__main__":
    sys.exit(main())
