"""What is parsed: tool calls' arguments of four shapes, the same in every run.

The root is always an object, as the arguments of a tool are, and the text is what a model writes:
one line, a space after each comma and colon, characters beyond ASCII as themselves.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

_WORDS = [
    "the", "value", "of", "this", "loop", "def", "return", "import",
    "self", "for", "if", "not", "None", "in", "raise", "with",
]  # fmt: skip
_BEYOND_ASCII = ["café", "naïve", "→", "Größe", "日本語"]
_FIRST_NAMES = ["Ada", "Grace", "Alan", "Edsger", "Barbara"]
_LAST_NAMES = ["Lovelace", "Hopper", "Turing", "Dijkstra", "Liskov"]
TAGS = ["new", "eu", "paid", "trial", "beta"]


@dataclass(frozen=True)
class Workload:
    """One JSON text and the pieces in which it arrives."""

    name: str
    text: str
    chunks: list[str]

    @classmethod
    def of(cls, name: str, text: str) -> "Workload":
        """Cut the text and keep both."""
        return cls(name, text, chunks(text))


def chunks(text: str, seed: int = 1) -> list[str]:
    """Cut a text into pieces of 1 to 7 characters, 4 on average: about a token each."""
    choose = random.Random(seed)
    pieces = []
    position = 0
    while position < len(text):
        length = choose.randint(1, 7)
        pieces.append(text[position : position + length])
        position += length
    return pieces


def one_string(size: int) -> str:
    """Make a file to be written: nearly all of it is one string."""
    return write({"path": "src/app.py", "content": code(random.Random(2), size)})


def nested_edits(size: int) -> str:
    """Make a file to be edited in many places: strings of some hundred characters, nested."""
    choose = random.Random(3)
    edits: list[object] = []
    length = 0
    while length < size:
        edit = {
            "old": code(choose, choose.randint(80, 320), _BEYOND_ASCII),
            "new": code(choose, choose.randint(80, 320), _BEYOND_ASCII),
        }
        length += len(write(edit)) + 2
        edits.append(edit)
    return write({"path": "src/app.py", "edits": edits})


def small_rows(size: int) -> str:
    """Make a table to be stored: keys, numbers, words and short strings, hardly any text."""
    return write({"rows": rows_of(size)})


def rows_of(size: int) -> list[dict[str, object]]:
    """Make the rows alone."""
    choose = random.Random(4)
    rows: list[dict[str, object]] = []
    length = 0
    while length < size:
        row = {
            "id": 1000 + len(rows),
            "name": f"{choose.choice(_FIRST_NAMES)} {choose.choice(_LAST_NAMES)}",
            "score": round(choose.uniform(0, 1000), 2),
            "active": choose.random() < 0.5,
            "tags": choose.sample(TAGS, 2),
        }
        length += len(write(row)) + 2
        rows.append(row)
    return rows


def workloads() -> Iterator[Workload]:
    """Give the four that every parser is measured on."""
    yield Workload.of("string 10 kB", one_string(10_000))
    yield Workload.of("string 100 kB", one_string(100_000))
    yield Workload.of("edits 100 kB", nested_edits(100_000))
    yield Workload.of("rows 100 kB", small_rows(100_000))


def write(value: object) -> str:
    """Write JSON as a model does."""
    return json.dumps(value, ensure_ascii=False)


def code(choose: random.Random, size: int, rare: list[str] | None = None) -> str:
    """Make lines that look like code, of about this size once they are JSON.

    Some have quotes, some a tab before a comment, and if wanted some a word beyond ASCII.
    """
    lines = []
    length = 0
    while length < size:
        words = [choose.choice(_WORDS) for _ in range(choose.randint(3, 9))]
        if choose.random() < 0.1:
            words.append(f'"{choose.choice(_WORDS)}"')
        if choose.random() < 0.05:
            words.append("\t# see above")
        if rare and choose.random() < 0.1:
            words.append(choose.choice(rare))
        line = "    " * choose.randint(0, 3) + " ".join(words) + "\n"
        lines.append(line)
        length += len(write(line)) - len('""')
    return "".join(lines)
