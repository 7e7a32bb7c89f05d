"""Show the arguments of a tool call while they arrive on standard input.

Try it with a pipe that takes its time::

    { printf '{"path": "a.py", "con'; sleep 1; printf 'tent": "import os"}'; } |
    python examples/live_arguments.py
"""

import sys
from pathlib import Path

from argstream.jsonstream import Done, Invalid, Key, Parser, Start, Text


def main() -> int:
    """Print each top-level argument as soon as anything about it is known."""
    parser = Parser(unique_keys=True)
    # Without a buffer, a read gives what has arrived and does not wait for more.
    with Path("/dev/stdin").open("rb", buffering=0) as source:
        while chunk := source.read(4096):
            for fragment in parser.feed(chunk):
                match fragment:
                    case Key((name,)):
                        print(f"{name}: ", end="")
                    case Text((_,), text):
                        print(ascii(text)[1:-1], end="", flush=True)
                    case Start((_,), "object" | "array"):
                        print("…", end=" ", flush=True)
                    case Done((_,), str()):
                        print()
                    case Done((_,), value):
                        print(ascii(value))
                    case Invalid():
                        print(f"\nrefused: {fragment.message}")
    parser.close()
    print(f"({parser.verdict})")
    return 0 if parser.verdict == "complete" else 1


if __name__ == "__main__":
    sys.exit(main())
