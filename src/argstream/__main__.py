"""``python -m argstream``: the command line."""

from argstream.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
