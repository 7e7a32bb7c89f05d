"""The body of an error → what it says: in the forms of all providers, and of proxies."""

import html
import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

__all__ = ["MOST_BYTES", "Told", "read_error"]

MOST_BYTES: Final = 64 * 1024
"""More of an error's body is not read."""
_MOST_SHOWN: Final = 1000
_TITLE: Final = re.compile(r"<title\b", re.IGNORECASE)
_TITLE_END: Final = re.compile(r"</title", re.IGNORECASE)
# What is not shown, by how it begins, and how it ends.
_NOT_SHOWN: Final = tuple(
    (re.compile(begins, re.IGNORECASE), re.compile(ends, re.IGNORECASE))
    for begins, ends in (
        (r"<script\b", r"</script[^<>]{0,9}>"),
        (r"<style\b", r"</style[^<>]{0,9}>"),
        (r"<!--", r"-->"),
        (r"<", r">"),
    )
)


class Told(NamedTuple):
    """What an error says; each may be empty."""

    message: str = ""
    code: str = ""
    param: str = ""
    """Which field of the request is wrong."""


def read_error(body: bytes) -> Told:
    """Read the body of an error, whatever it is."""
    text = body[:MOST_BYTES].decode(errors="replace").strip()
    try:
        told = _of_json(json.loads(text))
    except (ValueError, RecursionError):
        told = _of_page(text) if text.startswith("<") else Told(text)
    return Told(_shortened(told.message), told.code[:100], told.param[:100])


def _of_json(document: Any) -> Told:
    match document:
        case [first, *_]:  # Google's gateways put it into a list
            return _of_json(first)
        case {"error": dict(error)}:
            told = _of_object(error)
            return told if told.message else told._replace(message=_written(error))
        case {"error": str(message), **others}:  # Ollama; xAI has a code beside it
            return _of_object(dict(others))._replace(message=message)
        case {"detail": [*details]}:  # FastAPI, of which many servers are made
            return _of_details(details)
        case {"detail": str(message)}:
            return Told(message)
        case dict():
            told = _of_object(document)
            return told if told.message else told._replace(message=_written(document))
        case str():
            return Told(document)
        case _:
            return Told(_written(document))


def _of_object(error: dict[Any, Any]) -> Told:
    message = error.get("message")
    if isinstance(message, dict):  # Mistral wraps details into it
        return _of_json(message)
    names = (error.get("code"), error.get("type"))
    code = next((name for name in names if isinstance(name, str) and name), "")
    param = error.get("param")
    upstream = error.get("metadata")  # OpenRouter: what the provider behind it has said
    raw = upstream.get("raw") if isinstance(upstream, dict) else None
    texts = [text for text in (message, raw) if isinstance(text, str) and text]
    return Told(": ".join(texts), code, param if isinstance(param, str) else "")


def _of_details(details: list[Any]) -> Told:
    found = [
        (".".join(map(str, location)), message)
        for detail in details
        if isinstance(detail, dict)
        and isinstance(location := detail.get("loc"), list)
        and isinstance(message := detail.get("msg"), str)
    ]
    if not found:
        return Told(_written(details))
    message = "; ".join(f"{location}: {message}" for location, message in found)
    return Told(message, param=found[0][0])


def _of_page(page: str) -> Told:
    """Read the page of a proxy: its title says best what is wrong."""
    text = _title(page) or " ".join(_texts(page))
    return Told(f"an HTML page that says {' '.join(html.unescape(text).split())!r}")


def _title(page: str) -> str:
    begins = _TITLE.search(page)
    if begins is None:
        return ""
    text = page.find(">", begins.end()) + 1
    ends = _TITLE_END.search(page, text) if text else None
    return "" if ends is None else page[text : ends.start()]


def _texts(page: str) -> Iterator[str]:
    """Give what is between tags. A page is read once, whatever is in it."""
    place = 0
    while (tag := page.find("<", place)) >= 0:
        yield page[place:tag]
        ending = next(ends for begins, ends in _NOT_SHOWN if begins.match(page, tag))
        end = ending.search(page, tag)
        if end is None:
            return  # the rest is inside
        place = end.end()
    yield page[place:]


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shortened(message: str) -> str:
    message = " ".join(message.split())
    return message if len(message) <= _MOST_SHOWN else f"{message[:_MOST_SHOWN]} …"
