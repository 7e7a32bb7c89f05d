"""What opens and closes code in Markdown."""

import pytest

from argstream.terminal._fences import Fence, is_closed_by, opened_by


@pytest.mark.parametrize(
    ("line", "fence"),
    [
        ("```", Fence("```", "")),
        ("```python", Fence("```", "python")),
        ("~~~~ c++ title=x\n", Fence("~~~~", "c++")),
        ("```python{1,3}", Fence("```", "python")),
        ("     ```sh", Fence("```", "sh")),  # of an item in a list
        ("``", None),
        ("```not code``` but a sentence", None),
        ("text ```", None),
    ],
)
def test_a_fence_stands_alone_and_may_name_a_language(line: str, fence: Fence | None) -> None:
    assert opened_by(line) == fence


@pytest.mark.parametrize(
    ("line", "is_closed"),
    [
        ("```", True),
        ("  `````  \n", True),
        ("``", False),
        ("~~~", False),
        ("``` python", False),
        ("x ```", False),
    ],
)
def test_it_is_closed_by_as_many_of_the_same_marks_and_nothing_else(
    line: str, *, is_closed: bool
) -> None:
    assert is_closed_by(line, "```") is is_closed
