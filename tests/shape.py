"""Print the shape of the source, each figure with its bound. Exit status 1 if a bound is exceeded.

``make check`` runs this. All figures are counts, so they do not depend on the speed of the machine.
"""

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from argstream import __all__ as root_names
from argstream import stream
from argstream.events import Event

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src", ROOT / "tests"
SMALL = 150  # lines; a smaller private module with one importer belongs in that importer
LONG = 60  # lines; a longer function should be split
DELTAS = 200

ODD = re.compile(
    r"\b(?:whoever|somebody|nobody|anybody|everybody|himself|he|him|his|anew)\b"
    r"|\bwho (?:does|is|has|comes|drives|asks|watches|waits|follows|knows|goes|was|can)\b"
    r"|(?<!user )(?<!person )\bwho (?:decide[sd]|holds|name[sd]|reads|serves|tells|tries|writes)\b"
    r"|(?<!there )\bis no (?:regular )?(?:file|folder|host|model|name|origin|path|port|store|text)"
    r"|\bcomes? again\b|\bdoes no harm\b"
    r"|^(?:Give|Say|Tell|Take|Have) ",
    re.MULTILINE,
)
"""Sentences that a reader may have to read twice. See CONTRIBUTING.md."""
SUPPRESSION = re.compile(r"# (?:noqa|type: ignore|pyright: ignore|pragma: no cover)")
EVENTS = {event.__name__ for event in get_args(Event)}
TAGS = {event.type: event.__name__ for event in get_args(Event)}
PRIVATE_IMPORT = re.compile(r"^\s*(?:from|import) argstream[\w.]*\._[a-z]", re.MULTILINE)


def measure() -> dict[str, tuple[float, float]]:
    """Return each figure and its bound."""
    texts = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    scripts = [path.read_text() for path in SOURCE.rglob("*.js")]
    trees = {path: ast.parse(text) for path, text in texts.items()}
    tests = [path.read_text() for path in TESTS.rglob("*.py") if "node_modules" not in path.parts]
    return {
        "modules": (len(texts), 160),
        "lines": (sum(map(_lines, texts.values())), 53_000),
        "lines of JavaScript": (sum(map(_lines, scripts)), 11_500),
        "small private modules with one importer": (_one_importer(texts, trees), 10),
        "module names in two packages": (_repeated_names(texts), 8),
        "functions over 60 lines": (sum(map(_long_functions, trees.values())), 3),
        "modules that handle 7 or more event types": (
            sum(len(_handled_events(tree)) >= 7 for tree in trees.values()),
            3,
        ),
        "suppressions": (sum(len(SUPPRESSION.findall(text)) for text in texts.values()), 120),
        "names of the root package": (len(root_names), 60),
        "modules loaded by `from argstream import stream`": (_loaded("stream"), 30),
        "modules loaded by `from argstream import Agent`": (_loaded("Agent"), 90),
        "calls per delta of `stream(bytes)`": (_calls_per_delta(), 14),
        "lines of tests": (sum(map(_lines, tests)), 64_010),
        "test files that import private modules": (sum(map(_imports_private, tests)), 12),
        "odd sentences in source, docs and test names": (
            sum(map(_odd, texts.values()))
            + sum(len(ODD.findall(text)) for text in [*map(_bare, scripts), *_documents()])
            + sum(len(ODD.findall(name.replace("_", " "))) for name in _test_names(tests)),
            20,
        ),
    }


def _odd(text: str) -> int:
    """Count odd sentences in the comments and strings of a module."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    prose = (token.string for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING))
    return sum(len(ODD.findall(one.strip('#"frb \n'))) for one in prose)


def _bare(script: str) -> str:
    """Remove the comment marks at the starts of lines."""
    return re.sub(r"^[ \t]*(?:/\*+|\*|//) ", "", script, flags=re.MULTILINE)


def _documents() -> list[str]:
    return [path.read_text() for path in [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]]


def _test_names(tests: list[str]) -> list[str]:
    return [name for text in tests for name in re.findall(r"def (test_\w+)", text)]


def _lines(text: str) -> int:
    return text.count("\n")


def _imports_private(text: str) -> bool:
    return PRIVATE_IMPORT.search(text) is not None


def _one_importer(texts: dict[Path, str], trees: dict[Path, ast.Module]) -> int:
    imported = Counter(name for tree in trees.values() for name in set(_imports(tree)))
    return sum(
        imported[_module(path)] == 1
        for path, text in texts.items()
        if path.stem.startswith("_") and not path.stem.startswith("__") and _lines(text) < SMALL
    )


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def _module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def _repeated_names(texts: dict[Path, str]) -> int:
    names = Counter(path.stem.lstrip("_") for path in texts if path.name != "__init__.py")
    return sum(count > 1 for count in names.values())


def _long_functions(tree: ast.Module) -> int:
    functions = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return sum((node.end_lineno or node.lineno) - node.lineno >= LONG for node in functions)


def _handled_events(tree: ast.Module) -> set[str]:
    """Return the event types that a module tells apart.

    By ``match``, ``isinstance``, a dispatch table, or a comparison of types or of ``type`` fields.
    """
    handled: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.MatchClass(cls=tested):
                handled |= _event_names(tested)
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, tested]):
                handled |= _event_names(tested)
            case ast.Dict(keys=keys):
                handled |= {name for key in keys if key is not None for name in _event_names(key)}
            case ast.Compare(ops=[ast.Is() | ast.Eq() | ast.In()], comparators=[tested]):
                handled |= _event_names(tested)
    return handled


def _event_names(tested: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tested):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in EVENTS:
                names.add(name)
            case ast.Constant(value=str(tag)) if tag in TAGS:
                names.add(TAGS[tag])
    return names


def _loaded(name: str) -> int:
    code = f"import sys; from argstream import {name}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return sum(module.split(".")[0] == "argstream" for module in done.stdout.split())


def _calls_per_delta() -> float:
    """Count Python calls for two lengths of one call. The difference is the cost of the deltas."""
    _count_calls(1)  # loads modules and fills caches
    return (_count_calls(2 * DELTAS) - _count_calls(DELTAS)) / DELTAS


def _count_calls(deltas: int) -> int:
    pieces = ['{"content": "', *["word "] * deltas, '"}']
    payloads: list[dict[str, object]] = [
        {"type": "message_start", "message": {"id": "m", "content": []}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "c", "name": "write", "input": {}},
        },
    ]
    for piece in pieces:
        delta = {"type": "input_json_delta", "partial_json": piece}
        payloads.append({"type": "content_block_delta", "index": 0, "delta": delta})
    chunks = [
        f"event: {payload['type']}\ndata: {json.dumps(payload)}\n\n".encode()
        for payload in payloads
    ]
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    events = stream(iter(chunks), protocol="anthropic")
    sys.setprofile(count)
    try:
        for _ in events:
            pass
    finally:
        sys.setprofile(None)
    return calls


def main() -> None:
    """Print the figures."""
    exceeded = False
    for name, (figure, bound) in measure().items():
        note = "" if figure <= bound else "  too many"
        exceeded = exceeded or figure > bound
        print(f"{figure:>8,g}  of {bound:>6,}  {name}{note}")
    sys.exit(exceeded)


if __name__ == "__main__":
    main()
