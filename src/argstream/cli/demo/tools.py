"""The tools of the demo that are no file tools: programs of the project, run for real."""

import asyncio
import sys
from pathlib import Path

import anyio

from argstream.agent import Tool, ToolContext, tool
from argstream.errors import ToolFailure

__all__ = ["project_tools"]


def project_tools(folder: Path, pause: float) -> list[Tool]:
    """Give tools that run what is in the folder; after each line of its output is a pause."""

    @tool
    async def run_tests(file: str, context: ToolContext) -> str:
        """Run the tests in a file."""
        return await _run("-m", "unittest", file, context=context)

    @tool
    async def preview_report(sales: str, context: ToolContext) -> str:
        """Show the report of a file of sales."""
        return await _run("report.py", sales, "--only", "item", context=context)

    async def _run(*arguments: str, context: ToolContext) -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-X", "utf8", *arguments),
            cwd=folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:  # the demo was stopped
                process.kill()
                with anyio.CancelScope(shield=True):
                    await process.wait()
        for line in output.decode().splitlines(keepends=True):
            context.output(line)
            await asyncio.sleep(pause)  # or nobody would see that two run at once
        if process.returncode:
            raise ToolFailure(output.decode())
        return output.decode()

    return [run_tests, preview_report]
