"""When each argument was visible, against the silence it replaced: noted, and drawn.

``Timeline().note(event, at)`` notes events as they come, or as they once came. ``draw`` gives the
lines of a terminal, ``svg`` a picture, and ``conclusion`` what it comes to in a sentence.
"""

from argstream.terminal.waterfall.figures import conclusion, silence
from argstream.terminal.waterfall.rows import name_of
from argstream.terminal.waterfall.svg import svg
from argstream.terminal.waterfall.text import draw
from argstream.terminal.waterfall.timeline import ArgumentTimes, CallTimes, Moment, Timeline, Unit

__all__ = [
    "ArgumentTimes",
    "CallTimes",
    "Moment",
    "Timeline",
    "Unit",
    "conclusion",
    "draw",
    "name_of",
    "silence",
    "svg",
]
