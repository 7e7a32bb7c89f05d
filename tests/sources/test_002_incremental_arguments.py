"""Source 002: the protocol examples of jp's RFD 043, and its aggregator, with its interfaces.

``IncrementalArgParser`` is ``NestedParser``, and ``StreamFragment`` is ``NestedFragment``.
"""

from argstream.jsonstream import FragmentAggregator, Invalid, NestedParser, parse
from argstream.jsonstream.recursive import (
    ArrayItem,
    Done,
    NestedFragment,
    ObjectEntry,
    Scalar,
    String,
    nested,
)


def pushed(*chunks: str) -> list[NestedFragment | Invalid]:
    parser = NestedParser()
    fragments = [fragment for chunk in chunks for fragment in parser.push(chunk)]
    return fragments + parser.close()


def test_modify_file_streams_nested_fields() -> None:
    chunks = ['{"path": "lib.rs", "patterns": [{"old": "lo', 'ng...", "new": "also ', 'long..."}]}']
    old: list[NestedFragment] = [String("lo"), String("ng..."), Done()]
    new: list[NestedFragment] = [String("also "), String("long..."), Done()]
    assert pushed(*chunks) == [
        ObjectEntry("path", String("lib.rs")),
        ObjectEntry("path", Done()),
        *[ObjectEntry("patterns", ArrayItem(0, ObjectEntry("old", form))) for form in old],
        *[ObjectEntry("patterns", ArrayItem(0, ObjectEntry("new", form))) for form in new],
        ObjectEntry("patterns", ArrayItem(0, Done())),
        ObjectEntry("patterns", Done()),
        Done(),
    ]


def test_root_that_is_not_an_object_streams_directly() -> None:
    assert pushed('"chunk', 'ed"') == [String("chunk"), String("ed"), Done()]
    assert pushed("null") == [Scalar(None), Done()]
    assert pushed("1", "2") == [Scalar(12), Done()]
    assert pushed("[1.5]") == [ArrayItem(0, Scalar(1.5)), ArrayItem(0, Done()), Done()]


def test_arguments_fill_up_as_their_done_arrives() -> None:
    """What the RFD's event builder does with each chunk: parse, then aggregate."""
    parser, aggregator, arguments = NestedParser(), FragmentAggregator(), {}
    progress = []
    chunks = ['{"path": "a.rs", "con', 'tent": "fn', ' main", "tags": [], "dry_run": tr', "ue}"]
    for chunk in chunks:
        for fragment in parser.push(chunk):
            assert not isinstance(fragment, Invalid)
            value = aggregator.push(fragment)
            if isinstance(fragment, ObjectEntry) and isinstance(fragment.value, Done):
                arguments[fragment.key] = value
        progress.append(list(arguments))
    assert progress == [["path"], ["path"], ["path", "content", "tags"], [*arguments]]
    assert arguments == {"path": "a.rs", "content": "fn main", "tags": [], "dry_run": True}
    assert (parser.close(), parser.verdict, parser.value) == ([], "complete", arguments)


def test_empty_values_are_told_apart() -> None:
    assert pushed('["", [], {}]') == [
        ArrayItem(0, Done("string")),
        ArrayItem(1, Done("array")),
        ArrayItem(2, Done("object")),
        Done(),
    ]


def test_cut_text_ends_with_invalid() -> None:
    assert pushed('{"a": "x')[-1] == Invalid(("a",), 8, "truncated")
    assert pushed('{"a": x')[-1] == Invalid(("a",), 6, "unexpected_character")
    assert [form for f in parse('{"a": x') for form in nested(f)][-1] == pushed('{"a": x')[-1]
