"""The last look at a text before it is measured or written, whoever forgot to make it visible."""

from argstream.sanitise import visible_line

__all__ = ["harmless"]

_OPENING = "⟦"


def harmless(text: str) -> str:
    """Spell out what would act or hide, and leave spellings alone: to do it twice changes nothing.

    Unlike ``visible_line`` it keeps the opening bracket, since the text should be visible already.
    """
    if text.isascii() and text.isprintable():
        return text
    return _OPENING.join(map(visible_line, text.split(_OPENING)))
