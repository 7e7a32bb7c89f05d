"""What the terminal asks of whoever shows the arguments of a call while they are written."""

from typing import Protocol, TypeAlias, runtime_checkable

from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentStarted,
    ToolArgsDelta,
    ToolCallStarted,
)
from argstream.terminal.spans import Line, Spans

__all__ = ["ArgumentEvent", "ArgumentsView", "OwnLook"]

ArgumentEvent: TypeAlias = ArgumentStarted | ArgumentDelta | ArgumentCompleted | ToolArgsDelta
"""What a view is told. ``ToolArgsDelta`` matters only where the arguments are no JSON."""


class ArgumentsView(Protocol):
    """The arguments of one call, as lines: those that are final, and those that still grow.

    A title belongs into the line that names the tool, which comes before all others. So while it is
    open nothing is settled; and once it is not, it stays as it is: what was to be the title and
    comes later is a line as any other.
    """

    def take(self, event: ArgumentEvent) -> None:
        """Be told what came. Events of other calls are not for this view."""
        ...

    @property
    def title(self) -> Spans:
        """What stands beside the tool's name, such as a path; () while it is unknown."""
        ...

    @property
    def is_title_open(self) -> bool:
        """Whether a title may still come: until then, the line that names the tool can wait."""
        ...

    def settled(self) -> list[Line]:
        """Give the lines that became final since this was last asked, in their order."""
        ...

    def growing(self, rows: int) -> list[Line]:
        """Give the newest of what is not final, at most so many lines.

        The work is bounded, however long the text is. A line that is very long begins with "…": its
        end is what is new.
        """
        ...

    def finish(self) -> list[Line]:
        """Say that no more comes (complete, cut or refused), and give all that was held back."""
        ...


@runtime_checkable
class OwnLook(Protocol):
    """A look of your own: whatever can make a view for a call."""

    def view(self, call: ToolCallStarted) -> ArgumentsView:
        """Make the view that is told of this call alone."""
        ...
