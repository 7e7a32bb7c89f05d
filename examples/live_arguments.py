"""Show the arguments of a tool call while they arrive on standard input.

Try it with a pipe that takes its time::

    { printf '{"path": "a.py", "con'; sleep 1; printf 'tent": "import os"}'; } |
    python examples/live_arguments.py
"""

import os
import sys

from argstream.jsonstream import Done, Fragment, Invalid, Key, Parser, Start, Text


def main() -> int:
    """Read until the call is complete, or cannot become so."""
    parser = Parser(unique_keys=True)
    # os.read gives what has arrived and does not wait for more.
    while parser.error is None and (chunk := os.read(sys.stdin.fileno(), 4096)):
        for fragment in parser.feed(chunk):
            show(fragment)
    parser.close()
    print(f"({parser.verdict})")
    return 0 if parser.verdict == "complete" else 1


def show(fragment: Fragment) -> None:
    """Print what is new about a top-level argument, with nothing that could act on a terminal."""
    match fragment:
        case Key((str(name),)):
            print(f"{ascii(name)[1:-1]}: ", end="", flush=True)
        case Text((_,), text):
            print(ascii(text)[1:-1], end="", flush=True)
        case Start((_,), "object" | "array"):
            print("… ", end="", flush=True)
        case Done((_,), str()):
            print()
        case Done((_,), value):
            print(ascii(value))
        case Invalid():
            print(f"\nrefused: {fragment.message}")
        case _:
            pass


if __name__ == "__main__":
    sys.exit(main())
