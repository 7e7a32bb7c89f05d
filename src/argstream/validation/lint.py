"""Find the parts of a tool's schema that delay the checks of its calls. See docs/tool-order.md.

Models write arguments one after the other, mostly in the order of the schema. ``lint`` reports

- ``order``: a long text before short arguments that a person or a rule needs for a decision;
- ``late``: a rule that can be checked only when a value is complete, or a rule that is missing;
- ``unusable``: a schema that cannot be compiled. This is an error, the others are warnings.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from argstream.errors import SchemaError
from argstream.validation._compile import WAITING, Subschema, read_subschemas, with_references
from argstream.validation._dialects import DEFAULT_SCHEMA_LIMITS, dialect_of
from argstream.validation._schema import Schema
from argstream.validation._tools import ToolSpec

_Advice: TypeAlias = Iterator[tuple[str, tuple[str, ...]]]  # a message, an order of properties
_Length: TypeAlias = Literal["long", "short", "unknown"]
_Known: TypeAlias = dict[tuple[str, str, Subschema], _Length]

_MAX_DEPTH: Final = 32  # of a value inside the arguments
_MAX_MEMBERS: Final = 256  # of a value whose length is estimated
_ONLY_WHOLE: Final = 'only complete calls are checked: use draft 2020-12, "$ref" to "#/$defs/…"'
_INSTEAD: Final = {
    **dict.fromkeys((*WAITING, "dependentRequired"), 'use "oneOf" with a "const" in each form'),
    **dict.fromkeys(("contains", "pattern", "uniqueItems"), "let the tool check it"),
    "unevaluatedProperties": 'use "additionalProperties": false',
    "unevaluatedItems": 'use "items": false',
}
_ORDERED: Final = ("properties", "required", "propertyOrdering")
_FORMS: Final = ("anyOf", "oneOf")
_INNER: Final = ("items", "prefixItems", "additionalProperties", "patternProperties")
_CLOSING: Final = {"additionalProperties", "patternProperties", "unevaluatedProperties"}
_NAMING: Final = {"properties", *_FORMS, *_CLOSING}
_TYPING: Final = {"const", "enum", "if", "not", "required", "type", *_INNER, *_NAMING}

# The last word of a name counts: file_content is content, content_type a type.
_LONG_NAME: Final = re.compile(
    r"(?:.*_)?(?:answer|article|body|comment|content|css|description|diff|document|explanation"
    r"|feedback|html|instruction|line(?=s)|markdown|message|note|patch|prompt|reason|replacement"
    r"|report|response|script|snippet|sql|summary|svg|(?<!alt_)(?<!search_)text|xml)s?"
    r"|(?:old|new)(?:_str|_string)?|(?:.*_)?(?:new|old|python|source|test)_code|code"
)
_SHORT_NAME: Final = re.compile(
    r"(?:.*_)?(?:account|action|address|amount|branch|category|channel|command|currency|database"
    r"|date|dir|directory|email|file|filename|folder|format|host|id|key|kind|label|language|level"
    r"|line|location|method|mode|model|name|owner|path|port|price|priority|project|recipient|ref"
    r"|repo|role|size|state|status|subject|table|target|time|title|to|tool|type|uri|url|user)s?"
)
_SHORT_FORMATS: Final = ("date", "email", "host", "idn", "ip", "iri", "time", "uri", "url", "uuid")
_SETTING: Final = re.compile(  # short, but no decision depends on it
    r"(?:max|min|n|num|number|per|top)_.*|(?:.*_)?(?:cursor|debug|delay|encoding|interval|limit"
    r"|offset|page|retries|temperature|timeout|verbose)(?:_.*)?"
)
_DESCRIBED_AS_LONG: Final = re.compile(r"(?i)\b(?:full|whole) (?:text|content)|\bmarkdown|\bsql ")
_DESCRIBED_AS_SHORT: Final = re.compile(
    r"(?i)\b(?:short|brief|\d+ (?:characters|words)|(?:one|single)[- ](?:line|sentence|word)"
    r"|(?:country|currency|error|language|postal|promo|status) code)\b"
)


class Finding(Struct, frozen=True):
    """A part of a tool's schema that should be changed."""

    tool: str
    path: tuple[str, ...]
    """The part of the arguments: names of properties, ``*`` for the items of an array."""
    code: Literal["order", "late", "unusable"]
    message: str
    """The part of the arguments, the problem and what to do. Quotes the schema unescaped."""
    suggestion: tuple[str, ...] = ()
    """The properties in the order in which the schema should list them, if that must change."""

    @property
    def severity(self) -> Literal["warning", "error"]:
        """``error`` if no call can be checked, else ``warning``."""
        return "error" if self.code == "unusable" else "warning"


def lint(tools: Iterable[ToolSpec]) -> list[Finding]:
    """Return the findings about the schemas of some tools, in the order of the tools.

    Tools without a schema have none. Raises MissingExtraError if jsonschema-rs is not installed.
    """
    return [finding for tool in tools for finding in dict.fromkeys(_lint(tool))]


def _lint(tool: ToolSpec) -> Iterator[Finding]:
    if tool.schema is None:
        return
    try:
        schema = (tool.schema if isinstance(tool.schema, Schema) else Schema(tool.schema)).source
        root = read_subschemas(schema, dialect_of(schema), DEFAULT_SCHEMA_LIMITS)
    except SchemaError as error:
        yield Finding(tool.name, (), "unusable", f"no call can be checked: {error}")
        return
    if schema is False:
        yield Finding(tool.name, (), "unusable", "the schema is false: it rejects every call")
    elif root is None:
        yield Finding(tool.name, (), "late", _ONLY_WHOLE)
    else:
        yield from _visit(tool.name, root)


class _Value:
    """What a schema requires of one value: a subschema with its ``$ref`` and ``allOf``."""

    def __init__(self, subschema: Subschema) -> None:
        self._parts = with_references([subschema])
        self.keywords: dict[str, Any] = {}
        self.properties: dict[str, Subschema] = {}
        self.required: set[str] = set()
        for part in reversed(self._parts):
            self.keywords |= part.keywords
            self.required.update(part.keywords.get("required", ()))
            named = part.by_name("properties")
            self.properties = {**named, **self.properties} if self.properties else named
        constant = [self.keywords["const"]] if "const" in self.keywords else []
        self.choices: list[Any] = self.keywords.get("enum", constant)

    def names(self) -> list[str]:
        """Return the names of the properties in the order in which a model writes them."""
        first = self.keywords.get("propertyOrdering")  # Gemini's
        ranks = {str(name): i for i, name in enumerate(first if isinstance(first, list) else [])}
        return sorted(self.properties, key=lambda name: ranks.get(name, len(ranks)))

    def subschemas(self, *keywords: str) -> list[Subschema]:
        named = [part.names.get(keyword, {}) for part in self._parts for keyword in keywords]
        return [one for by_key in named for one in by_key.values()]


def _visit(tool: str, root: Subschema) -> Iterator[Finding]:
    known: _Known = {}
    seen: set[Subschema] = set()
    unseen: list[tuple[tuple[str, ...], Subschema]] = [((), root)]
    while unseen:
        path, subschema = unseen.pop()
        if (meant := subschema.target or subschema) in seen or len(path) > _MAX_DEPTH:
            continue
        seen.add(meant)
        value = _Value(subschema)
        name = next((step for step in reversed(path) if step != "*"), "")
        is_long = not path or _length(known, name, subschema) == "long"
        place = "".join("[*]" if step == "*" else f".{step:.80}" for step in path)
        where = f"{place.removeprefix('.')}: " if path else ""
        for message, order in _order(value, known):
            yield Finding(tool, path, "order", where + message, order)
        for message, order in (*_late(value, is_long=is_long), *_discriminator(value)):
            yield Finding(tool, path, "late", where + message, order)
        inner = [((*path, name), one) for name, one in value.properties.items()]
        inner += [((*path, "*"), one) for one in value.subschemas(*_INNER)]
        inner += [(path, one) for one in value.subschemas(*_FORMS) if not value.properties]
        unseen += [one for one in reversed(inner) if not isinstance(one[1].value, bool)]


def _order(value: _Value, known: _Known) -> _Advice:
    names, required, advice = value.names(), value.required, []
    lengths = {name: _length(known, name, value.properties[name]) for name in names}
    long = [name for name in names if lengths[name] == "long"]
    late = names[names.index(long[0]) :] if long else []
    if waiting := [name for name in late if lengths[name] == "short"]:
        where = _listed(word for word in _ORDERED if word in value.keywords)
        advice = [f"{_listed(long)} may be long: put {_listed(waiting)} first in {where}"]
    optional = [name for name in names if lengths[name] == "short" and name not in required]
    if optional and not required.isdisjoint(long):
        advice += [f"Claude writes what is required first: require {_listed(optional)}, allow null"]
    if advice:
        best = sorted(names, key=lambda name: lengths[name] == "long")
        yield ". ".join(advice), tuple(best) if waiting else ()


def _late(value: _Value, *, is_long: bool) -> _Advice:
    keywords = value.keywords
    if keywords.get("type") == "object" and _NAMING.isdisjoint(keywords):
        yield 'add "properties": without it, any object passes', ()
    elif _TYPING.isdisjoint(keywords):
        yield 'add "type": without it, any value passes', ()
    elif value.properties and {"allOf", *_FORMS, *_CLOSING}.isdisjoint(keywords):
        yield 'add "additionalProperties": false: without it, unknown names are accepted', ()
    for keyword, instead in _INSTEAD.items() if is_long else ():
        # "unevaluatedItems": true and "uniqueItems": false reject nothing.
        allows_all = keyword.startswith("unevaluated")
        if keyword in keywords and keywords[keyword] is not allows_all:
            yield f'"{keyword}" is checked only when the value is complete: {instead}', ()


def _discriminator(value: _Value) -> _Advice:
    forms = [form for one in value.subschemas(*_FORMS) if (form := _Value(one)).properties]
    if len(forms) < 2 or value.properties:
        return
    for name in forms[0].names():
        given = [_Value(form.properties[name]).choices for form in forms if name in form.properties]
        choices = [str(choice) for some in given for choice in some]
        if len(given) == len(forms) and all(given) and len(choices) == len(set(choices)):
            break
    else:
        if any(form.keywords.get("additionalProperties") is not False for form in forms):
            yield 'start each form with a required "const" of its own, such as "kind"', ()
        return
    late = next((form.names() for form in forms if form.names()[0] != name), [])
    if late or any(name not in form.required for form in forms):
        order = tuple(sorted(late, key=lambda other: other != name))
        yield f'put "{name:.80}" first and require it in each of the {len(forms)} forms', order


def _length(known: _Known, name: str, one: Subschema, about: str = "", depth: int = 0) -> _Length:
    """Estimate how long the value of a property will be."""
    key = (name, about, one)
    if key in known or depth > _MAX_DEPTH:
        return known.get(key, "unknown")
    known[key] = "unknown"  # for a schema that refers to itself
    value = _Value(one)
    about = str(value.keywords.get("description", about))
    same = value.subschemas(*_FORMS) or value.subschemas("items", "prefixItems")
    members = [(name, one, about) for one in same if one.keywords.get("type") != "null"]
    members += [(inner, one, "") for inner, one in value.properties.items()]
    members += [("", one, "") for one in value.subschemas("additionalProperties")]
    members = [member for member in members if not isinstance(member[1].value, bool)]
    found = {_length(known, *member, depth + 1) for member in members[:_MAX_MEMBERS]}
    found = found or {_length_of_scalar(name, value, about)}
    known[key] = "long" if "long" in found else "short" if found == {"short"} else "unknown"
    return known[key]


def _length_of_scalar(name: str, value: _Value, about: str) -> _Length:
    words = re.sub(r"[^a-z]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()).strip("_")
    keywords, kinds = value.keywords, str(value.keywords.get("type"))  # a name or a list
    is_short = bool(value.choices) or re.search("boolean|integer|number", kinds) is not None
    if "string" in kinds and not value.choices:
        limit = keywords.get("maxLength", 500)
        is_short = limit <= 200 or str(keywords.get("format")).startswith(_SHORT_FORMATS)
        is_long = limit >= 1000 or {"contentEncoding", "contentMediaType"} & keywords.keys()
        if not is_short and (
            is_long or _LONG_NAME.fullmatch(words) or _DESCRIBED_AS_LONG.search(about)
        ):
            return "unknown" if _DESCRIBED_AS_SHORT.search(about) else "long"
        is_short = is_short or _SHORT_NAME.fullmatch(words) is not None
    return "short" if is_short and not _SETTING.fullmatch(words) else "unknown"


def _listed(names: Iterable[str]) -> str:
    quoted = [f'"{name:.80}"' for name in names]
    *before, last = quoted if len(quoted) <= 5 else [*quoted[:4], f"{len(quoted) - 4} more"]
    return f"{', '.join(before)} and {last}" if before else last
