"""``python -m argstream``: the command line, where its command is not on the path."""

from argstream.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
