"""``argstream lint``: tools → what in their schemas keeps people and rules waiting."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap

import typer

from argstream.cli._input import UnreadableFile, chunks, complain
from argstream.cli._options import LintScope
from argstream.errors import MissingExtra, UsageError
from argstream.sanitise import visible_line
from argstream.terminal.words import count
from argstream.validation.order import Finding, FindingCode, lint, place
from argstream.validation.tools import ToolSpec, tool_specs

__all__ = ["lint_files"]

_WIDTH = 79
_INDENT = " " * 12
_REASONS: dict[FindingCode, str] = {
    "order": (
        "A model writes one argument after the other. What a person or a rule decides by should"
        " come first, so that nobody has to wait for a long text, or pay for it in vain."
    ),
    "late": "If its schema allows, a call is refused with the first character that is wrong.",
}


def lint_files(files: Sequence[str], scope: LintScope, *, as_json: bool) -> int:
    """Print what is found in each file. One that cannot be read does not keep the others back.

    Returns the exit status: 0 if nothing is found, 1 if something is, 2 if a file cannot be read.
    """
    status = 0
    said: set[FindingCode] = set()
    for file in files:
        try:
            tools = _tools(file)
            findings = [finding for finding in lint(tools) if _is_wanted(finding, scope)]
        except UnreadableFile as error:
            complain(str(error))
            status = 2
            continue
        except MissingExtra as error:
            complain(str(error))
            return 2
        if as_json:
            _write_lines(file, findings)
        else:
            _show(file, tools, findings)
        said |= {finding.code for finding in findings}
        status = max(status, 1 if findings else 0)
    if not as_json:
        _explain(said)
    sys.stdout.flush()
    return status


def _is_wanted(finding: Finding, scope: LintScope) -> bool:
    return scope == "all" or finding.code in (scope, "unusable")


def _tools(file: str) -> list[ToolSpec]:
    data = b"".join(chunks(file, "waiting for tools on standard input"))
    try:
        content = json.loads(data)
        if not isinstance(content, list | dict):
            raise UnreadableFile(file, "give a list of tools, or a request with its tools")
        return tool_specs(content)
    except RecursionError as error:
        raise UnreadableFile(file, "it is nested too deeply") from error
    except UsageError as error:
        raise UnreadableFile(file, visible_line(str(error))) from error
    except ValueError as error:
        raise UnreadableFile(file, f"it is no JSON: {visible_line(str(error))}") from error


# For programs


def _write_lines(file: str, findings: Sequence[Finding]) -> None:
    for finding in findings:
        line = {
            "file": file,
            "tool": finding.tool,
            "path": finding.path,
            "code": finding.code,
            "severity": finding.severity,
            "message": finding.message,
            "suggestion": finding.suggestion,
        }
        sys.stdout.write(json.dumps(line) + "\n")


# For people


def _show(file: str, tools: Sequence[ToolSpec], findings: Sequence[Finding]) -> None:
    found = count(len(findings), "finding") if findings else "no findings"
    _say(f"{visible_line(file)}: {count(len(tools), 'tool')}, {found}")
    for tool, group in groupby(findings, lambda finding: finding.tool):
        _say()
        _say(f"● {_bold(visible_line(tool))}")
        for finding in group:
            for line in _lines(finding):
                _say(line)


def _lines(finding: Finding) -> Iterator[str]:
    where = f"{place(finding.path)}: " if finding.path else ""
    text = visible_line(where + finding.message)
    first, *rest = wrap(text, _WIDTH - len(_INDENT))
    yield f"  {_mark(finding)}{first}"
    for line in rest:
        yield _INDENT + line
    if finding.suggestion:
        order = visible_line(", ".join(finding.suggestion))
        for index, line in enumerate(wrap(order, _WIDTH - len(_INDENT) - 2)):
            yield f"{_INDENT}{'  ' if index else '→ '}{_bold(line)}"


def _explain(codes: set[FindingCode]) -> None:
    """Say once, at the end, why any of this matters."""
    for code, reason in _REASONS.items():
        if code in codes:
            _say()
            for line in wrap(f"{code}: {reason}", _WIDTH):
                _say(_dim(line))


def _mark(finding: Finding) -> str:
    colour = "red" if finding.severity == "error" else "yellow"
    return typer.style(f"{finding.code:<{len(_INDENT) - 2}}", fg=colour)


def _bold(text: str) -> str:
    return typer.style(text, bold=True)


def _dim(text: str) -> str:
    return typer.style(text, dim=True)


def _say(text: str = "") -> None:
    # None: in colour if it is a terminal.
    typer.echo(text, color=False if os.environ.get("NO_COLOR") else None)
