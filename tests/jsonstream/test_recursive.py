"""The recursive form: the protocol examples of jp's RFD 043 (source 002), to the letter."""

from argstream.jsonstream import Invalid, nested
from argstream.jsonstream.recursive import (
    ArrayItem,
    Done,
    NestedFragment,
    ObjectEntry,
    Scalar,
    String,
)
from tests.support import run


def translate(*chunks: str) -> list[NestedFragment | Invalid]:
    return [form for fragment in run(chunks)[1] for form in nested(fragment)]


def test_create_file() -> None:
    assert translate('{"path": "/tmp/foo.rs", "content": "fn main(', ') {...}"}') == [
        ObjectEntry("path", String("/tmp/foo.rs")),
        ObjectEntry("path", Done()),
        ObjectEntry("content", String("fn main(")),
        ObjectEntry("content", String(") {...}")),
        ObjectEntry("content", Done()),
        Done(),
    ]


def test_modify_file() -> None:
    chunks = ['{"path": "lib.rs", "patterns": [{"old": "lo', 'ng...", "new": "also ', 'long..."}]}']
    old: list[NestedFragment] = [String("lo"), String("ng..."), Done()]
    new: list[NestedFragment] = [String("also "), String("long..."), Done()]
    assert translate(*chunks) == [
        ObjectEntry("path", String("lib.rs")),
        ObjectEntry("path", Done()),
        *[ObjectEntry("patterns", ArrayItem(0, ObjectEntry("old", form))) for form in old],
        *[ObjectEntry("patterns", ArrayItem(0, ObjectEntry("new", form))) for form in new],
        ObjectEntry("patterns", ArrayItem(0, Done())),
        ObjectEntry("patterns", Done()),
        Done(),
    ]


def test_scalar_argument() -> None:
    assert translate('{"dry_run": true}') == [
        ObjectEntry("dry_run", Scalar(True)),
        ObjectEntry("dry_run", Done()),
        Done(),
    ]


def test_streamed_example_with_escapes_and_a_scalar() -> None:
    chunks = [
        '{"path":"/tmp/foo.rs","content":"fn main()',
        ' {}\\n","dry_run":false}',
    ]
    assert translate(*chunks) == [
        ObjectEntry("path", String("/tmp/foo.rs")),
        ObjectEntry("path", Done()),
        ObjectEntry("content", String("fn main()")),
        ObjectEntry("content", String(" {}\n")),
        ObjectEntry("content", Done()),
        ObjectEntry("dry_run", Scalar(False)),
        ObjectEntry("dry_run", Done()),
        Done(),
    ]


def test_a_root_that_is_no_object_streams_directly() -> None:
    assert translate('"chunk', 'ed"') == [String("chunk"), String("ed"), Done()]
    assert translate("null") == [Scalar(None), Done()]
    assert translate("[1.5]") == [ArrayItem(0, Scalar(1.5)), ArrayItem(0, Done()), Done()]


def test_an_error_is_passed_on_as_it_is() -> None:
    assert translate('{"a": x')[-1] == Invalid(("a",), 6, "unexpected_character")
