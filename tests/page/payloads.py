"""Texts that try to become markup or code, for every place that shows text."""

import json
from pathlib import Path

_LINES = Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines()

# Most try to set window.pwned. The file has one JSON string per line, and comments.
PAYLOADS: tuple[str, ...] = (
    *(json.loads(line) for line in _LINES if not line.startswith("# ")),
    "<img src=x onerror=window.pwned=1>" * 300,
    "A" * 5_000,
    "<" * 2_000,
    "\u202e\x1b" * 500,
    "[" * 400 + "{" * 400,
)


def harmless(payload: str, number: int) -> str:
    """Return plain text of the same shape: as long, with the same lines and tabs, and unique."""
    name = f"w{number}"
    return name + "".join(one if one in "\n\t" else "x" for one in payload[len(name) :])
