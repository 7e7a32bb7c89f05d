"""Line and column, computed on request."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.jsonstream import Location, locate
from tests.support import run


def test_an_error_is_located_as_editors_count() -> None:
    text = '{\n  "a": 1,\n  "b" 2\n}'
    error = run([text])[0].error
    assert error is not None
    assert locate(text, error.offset) == Location(line=3, column=7)


@given(st.text("ab\n", min_size=1))
def test_it_counts_as_the_json_module_does(text: str) -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(text)
    assert locate(text, caught.value.pos) == (caught.value.lineno, caught.value.colno)
