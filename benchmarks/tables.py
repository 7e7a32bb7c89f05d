"""Figures and tables as text, for a terminal and for Markdown."""

from collections.abc import Sequence
from typing import NamedTuple


class Table(NamedTuple):
    """A table before it is known where it will be read. Its first columns name the rows."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    """How many columns have names in them; all others have figures."""


def size_name(size: int) -> str:
    """Write a number of characters as people say it."""
    return f"{size // 1_000_000} MB" if size >= 1_000_000 else f"{size // 1000} kB"


def fraction(ratio: float) -> str:
    """Write a ratio so that its size is seen at once.

    >>> fraction(0.25), fraction(0.0005), fraction(2)
    ('1/4.0', '1/2,000', '2.0 ×')
    """
    if ratio >= 1:
        return f"{_figure(ratio)} ×"
    return f"1/{_figure(1 / ratio)}"


def microseconds(value: float, *, sampled: bool) -> str:
    """Write a time with no more digits than it deserves."""
    figure = f"{_rounded(value, 3):,.0f}" if value >= 100 else f"{value:.2f}"
    return f"~ {figure}" if sampled else figure


def milliseconds(seconds: float) -> str:
    """Write a time that somebody waits.

    >>> milliseconds(0.01234), milliseconds(0.000047)
    ('12.34', '0.05')
    """
    return f"{seconds * 1000:.2f}"


def rate(per_second: float) -> str:
    """Write how many there are in a second.

    >>> rate(8316.4), rate(201_300)
    ('8,320', '201,000')
    """
    return f"{_rounded(per_second, 3):,.0f}"


def growth(ratio: float) -> str:
    """Write by how much something grew.

    >>> growth(0.987), growth(164.2)
    ('0.99 ×', '160 ×')
    """
    return f"{ratio:.2f} ×" if ratio < 10 else f"{_figure(ratio)} ×"


def _figure(value: float) -> str:
    return f"{_rounded(value, 2):,.0f}" if value >= 100 else f"{value:.1f}"


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def share(part: float) -> str:
    """Write how much of a whole something is.

    >>> share(0), share(0.0071), share(1)
    ('0%', '0.7%', '100%')
    """
    return f"{part:.1%}" if 0 < part < 1 else f"{part:.0%}"


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> str:
    """Align columns: names to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < names else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, ["-" * width for width in widths], *rows)
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> str:
    """Write the same for Markdown."""
    rule = ["---"] * names + ["---:"] * (len(header) - names)
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))
