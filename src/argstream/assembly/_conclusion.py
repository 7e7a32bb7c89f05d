"""What a text that is over says: the arguments, or why there are none."""

import json
from typing import Any, NamedTuple

from argstream.assembly._fault import Fault, contradiction, fault_of
from argstream.assembly._second_reading import SecondReading, parse_object
from argstream.assembly.call import Reinterpretation
from argstream.jsonstream import Invalid, Limits, Parser

__all__ = ["Conclusion", "conclude", "conclude_restated"]


class Conclusion(NamedTuple):
    """The text is whole, and these are the arguments."""

    arguments: dict[str, Any] | str
    reinterpreted: Reinterpretation | None = None


def conclude(parser: Parser, second: SecondReading | None, limits: Limits) -> Conclusion | Fault:
    """Say what a JSON text is that was read to its end."""
    if second is not None:
        if (reading := second.close()) is None:
            return second.fault
        reinterpreted, arguments = reading
        return Conclusion(arguments, reinterpreted)
    if parser.error is not None:
        return fault_of(parser.error, "truncated")
    value = parser.value
    if isinstance(value, dict):
        return Conclusion(value)
    if value is None:
        return Conclusion({}, "null")
    if isinstance(value, str) and (found := parse_object(value, limits)) is not None:
        return Conclusion(found, "double_encoded")
    return fault_of(Invalid((), 0, "not_an_object"))


def conclude_restated(text: str, parser: Parser, limits: Limits) -> Conclusion | Fault:
    """Take the provider's last word for the text; it must be whole by itself."""
    if (found := parse_object(text, limits)) is None:
        return contradiction("the provider closed the call with another text, which is not valid")
    same = parser.verdict == "complete" and _dumps(parser.value) == _dumps(found)
    if same and isinstance(parser.value, dict):
        return Conclusion(parser.value)
    return Conclusion(found, "restated")


def _dumps(value: Any) -> str:
    """Write a value so that what differs looks different: in Python, 1 equals True."""
    return json.dumps(value, sort_keys=True)
