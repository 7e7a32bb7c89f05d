"""What of a schema can be judged late only, or never.

``Schema`` refuses a call with the first character that cannot become right, as far as the schema
allows it. Here is what does not allow it, and matters: on a short value a late word is no loss.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations, zip_longest
from typing import Final, NamedTuple

from argstream.validation._dialects import DYNAMIC, dialect_of
from argstream.validation._pointers import is_local
from argstream.validation.order._findings import SchemaPath, listed, place
from argstream.validation.order._lengths import Lengths
from argstream.validation.order._schemas import (
    Document,
    Node,
    Part,
    branches,
    in_order,
    properties,
    required,
    types,
)

__all__ = ["Remark", "remarks"]

_SAYS_WHAT_IT_IS: Final = {
    *("$dynamicRef", "$ref", "allOf", "anyOf", "const", "enum", "if", "items", "not", "oneOf"),
    *("prefixItems", "properties", "type"),
}
_MAX_FORMS: Final = 32  # whose order is looked at, and each with each

_OBJECTS_WAIT: Final = (
    "not",
    "if",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
)
_ARRAYS_WAIT: Final = ("not", "if", "uniqueItems", "contains", "unevaluatedItems")
_STRINGS_WAIT: Final = ("not", "if", "pattern")
_INSTEAD: Final = {
    "unevaluatedProperties": 'say "additionalProperties": false, which is judged at every key',
    "unevaluatedItems": 'say "items": false, which is judged at the first item too many',
    "pattern": 'leave it to the tool, or say "maxLength", which is judged as the text grows',
    "uniqueItems": "leave it to the tool",
    "contains": "leave it to the tool",
}
_TELLING: Final = 'say "oneOf" with forms that begin with a "const" of their own'


class Remark(NamedTuple):
    """Something that is late: where, why, and which order would mend it."""

    path: SchemaPath
    message: str
    suggestion: tuple[str, ...] = ()


def remarks(document: Document, lengths: Lengths) -> Iterator[Remark]:
    """Say what is late in a schema: what is loose all over it at once, the rest place by place."""
    parts = list(document.parts())
    loose = [
        *_shapeless(document),
        *_untyped(parts),
        *_open(parts),
        *_not_followed(document, parts),
    ]
    if loose:
        yield Remark((), " ".join(loose))
    for part in parts:
        yield from _waiting(part, lengths)
        yield from _hard_to_tell(part, document, lengths)


# What is loose


def _shapeless(document: Document) -> Iterator[str]:
    root = document.follow(document.root)
    if not isinstance(root.get("properties"), Mapping):
        if not branches(root, "anyOf", "oneOf", "allOf"):
            yield (
                'Name the arguments in "properties", or say "properties": {} if there are none:'
                " without that, whatever comes is accepted."
            )
    elif "type" not in root:
        yield 'Say "type": "object", as providers expect.'


def _untyped(parts: list[Part]) -> Iterator[str]:
    names = [
        place(part.path)
        for part in parts
        if part.path and part.role == "value" and _says_nothing(part)
    ]
    if names:
        yield f"Give {listed(names)} a type: without one, any value passes."


def _says_nothing(part: Part) -> bool:
    return _SAYS_WHAT_IT_IS.isdisjoint(part.node) and not _is_foreign(part)


def _open(parts: list[Part]) -> Iterator[str]:
    """Look for objects that do not say whether they may hold more; some of them mean that."""
    places = [
        part.path
        for part in parts
        if part.role != "composed"
        and properties(part.node)
        and not {"additionalProperties", "unevaluatedProperties", "patternProperties"}
        & set(part.node)
        and not branches(part.node, "anyOf", "oneOf", "allOf")
    ]
    if places:
        inner = [place(path) for path in dict.fromkeys(places) if path]
        where = f"{', also' if () in places else ''} in {listed(inner)}" if inner else ""
        yield (
            f'Say "additionalProperties": false{where}: then a misspelt name is refused at its'
            " closing quote, and otherwise late or never."
        )


def _not_followed(document: Document, parts: list[Part]) -> Iterator[str]:
    """Look for what only the final check understands."""
    if not dialect_of(dict(document.root)).is_known:
        yield (
            'Use draft 2020-12 or draft 7: its "$schema" is not known, so a call is judged only'
            " when it is whole."
        )
    dynamic = {keyword for part in parts for keyword in DYNAMIC if keyword in part.node}
    if dynamic:
        yield (
            f'Use "$ref" to "#/$defs/…" instead of {listed(sorted(dynamic))}, which can be followed'
            " only when the call is whole: so long, nothing is judged."
        )
    foreign = [place(part.path) for part in parts if part.path and _is_foreign(part)]
    if foreign:
        yield (
            f'Use "$ref" to "#/$defs/…" for {listed(dict.fromkeys(foreign))}: what has an address'
            " or an anchor of its own is judged only as a whole."
        )


def _is_foreign(part: Part) -> bool:
    reference = part.reference
    return "$id" in part.node or (isinstance(reference, str) and not is_local(reference))


# What waits for the end of a value


def _waiting(part: Part, lengths: Lengths) -> Iterator[Remark]:
    path, node = part.path, part.node
    name = next((step for step in reversed(path) if step != "*"), "")
    if path and lengths.of(name, node) != "long":
        return
    kind = next(iter(types(node)), "object")
    waits = {"array": _ARRAYS_WAIT, "string": _STRINGS_WAIT}.get(kind, _OBJECTS_WAIT)
    found = [word for word in waits if _says(node, word)]
    if found:
        instead = dict.fromkeys(_INSTEAD.get(word, _TELLING) for word in found)
        until = "all of it is written, which may be long" if path else "the call is whole"
        are = "is" if len(found) == 1 else "are"
        yield Remark(path, f"{listed(found)} {are} judged only when {until}: {'; '.join(instead)}.")


def _says(node: Node, word: str) -> bool:
    """Say whether a keyword stands there and means something."""
    idle = word.startswith("unevaluated")
    return word in node and node[word] is not idle


# Which of several forms it is


def _hard_to_tell(part: Part, document: Document, lengths: Lengths) -> Iterator[Remark]:
    path, node = part.path, part.node
    followed = map(document.follow, branches(node, "oneOf", "anyOf"))
    every = [form for form in followed if properties(form)]
    forms = [_with_outer(node, form) for form in every[:_MAX_FORMS]]
    if len(forms) < 2 or _differ_early(forms, lengths):
        return
    tellers = [name for name in in_order(forms[0]) if _tells_apart(name, node, every, document)]
    if not tellers:
        yield Remark(
            path,
            f"Let its {len(every)} forms begin with a required property that tells them apart, such"
            ' as "kind" with a "const" of its own in each: without one, a mistake is seen late.',
        )
        return
    teller = tellers[0]
    late = next((form for form in forms if in_order(form)[0] != teller), None)
    if late is not None:
        order = (teller, *(name for name in in_order(late) if name != teller))
        yield Remark(
            path,
            f"Put {listed([teller])} first, which tells its {len(every)} forms apart: until it"
            " comes, a mistake in one of them may be right in another.",
            order,
        )
    elif any(teller not in required(form) for form in forms):
        yield Remark(
            path,
            f"Require {listed([teller])}, which tells its {len(every)} forms apart: until it comes,"
            " a mistake in one of them may be right in another.",
        )


def _with_outer(outer: Node, form: Node) -> Node:
    """Give a form with what the schema around it says of its properties."""
    return {
        **form,
        "properties": {**properties(outer), **properties(form)},
        "required": [*required(outer), *required(form)],
    }


def _tells_apart(name: str, outer: Node, forms: list[Node], document: Document) -> bool:
    chosen: set[str] = set()
    around = properties(outer).get(name)
    for form in forms:
        values = _choices(document.follow(properties(form).get(name, around)))
        if not values or not chosen.isdisjoint(values):
            return False
        chosen |= values
    return True


def _choices(schema: Node) -> set[str]:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return set()
    return set(values)


def _differ_early(forms: list[Node], lengths: Lengths) -> bool:
    """Say whether the forms allow different names, and those come before anything long."""
    return all(_differ(*pair, lengths) for pair in combinations(forms, 2))


def _differ(one: Node, other: Node, lengths: Lengths) -> bool:
    if not all(form.get("additionalProperties") is False for form in (one, other)):
        return False
    for mine, yours in zip_longest(in_order(one), in_order(other)):
        if mine != yours:
            return mine not in properties(other) and yours not in properties(one)
        if lengths.of(mine, properties(one)[mine]) == "long":
            return False
    return False
