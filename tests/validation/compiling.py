"""Compile a schema that may be refused, and judge by it if it is not, in time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from argstream.errors import SchemaError
from argstream.testing import cut
from argstream.validation import Schema
from tests.validation.rulings import judge


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Assert that it takes no longer; of this process, so that a busy machine does not matter."""
    start = time.process_time()
    yield
    assert time.process_time() - start < seconds


def compiled(schema: Any, **options: Any) -> Schema | SchemaError:
    """Return what compiling gives; anything but these two is raised."""
    with within(1):
        try:
            return Schema(schema, **options)
        except SchemaError as error:
            return error


def refused_or_judged(schema: Any, text: str, expected: str | None = None) -> Schema | SchemaError:
    """Assert that the schema is refused, or the text gets the verdict that it must, in time."""
    outcome = compiled(schema)
    if isinstance(outcome, Schema):
        for chunks in ([text], cut(text, [1])):
            with within(1):
                verdict = judge(outcome, chunks).verdict
            assert verdict == expected if expected else verdict in ("valid", "rejected")
    else:
        assert outcome.reason not in ("", "invalid")
        assert outcome.pointer.startswith("#")
    return outcome
