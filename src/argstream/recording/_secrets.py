"""What is a secret: in the head or the body of a request, in the environment.

What is found is looked for in everything that is written, so an ordinary word must not be among it:
it would be taken out of answers in which it is only a word.
"""

import base64
import binascii
import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, unquote_plus, urlsplit

import msgspec

__all__ = ["looks_random", "secrets_of_body", "secrets_of_environment", "secrets_of_request"]

# What the name of a header or a parameter has in it if its value is a secret.
_SECRET: Final = ("auth", "cookie", "credential", "key", "pass", "secret", "sig", "token")
# How a name in JSON ends, without - and _. It is narrower: a tool may have an argument "key".
_SECRET_MEMBER: Final = (
    *("accesskey", "accountkey", "apikey", "privatekey", "secretkey", "subscriptionkey"),
    *("authorization", "connectionstring", "cookie", "credential", "credentials", "password"),
    *("secret", "token"),
)
# What holds secrets under names of all kinds.
_SECRET_OBJECTS: Final = ("auth", "authentication", "headers")
# How the names of environment variables end whose values must not be written down.
_SECRET_VARIABLE: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD")

_SHORTEST_RANDOM: Final = 16
_FEWEST_CHARACTERS: Final = 8  # that differ
# Several words, a URL, or a path: the name of a secret rather than the secret.
_ORDINARY: Final = re.compile(
    r"\s|://|^(?:~|\.{1,2})/|^/[A-Za-z._-]{2,}/|^[A-Za-z]:\\|\.(?:crt|json|key|p12|pem|txt)$"
)


def looks_random(text: str) -> bool:
    """Say whether somebody has drawn lots for this: then a part of it gives it away as well."""
    return (
        len(text) >= _SHORTEST_RANDOM
        and len(set(text)) >= _FEWEST_CHARACTERS
        and any(character.isdigit() for character in text)
        and any(character.isalpha() for character in text)
        and _ORDINARY.search(text) is None
    )


# The head of a request


def secrets_of_request(headers: Iterable[tuple[str, str]], target: str) -> set[str]:
    """Find what a request was authorised with."""
    secrets: set[str] = set()
    for name, value in headers:
        if _is_secret(name):
            secrets |= _parts(value)
        else:
            pairs = re.findall(r'([\w.-]+)="?([^\s,;"]+)', value)
            secrets |= {found for inner, found in pairs if _is_secret(inner)}
    for parameter in re.split("[&;]", target.partition("?")[2]):
        name, _, value = parameter.partition("=")
        if _is_secret(unquote(name)):
            secrets |= {value, unquote_plus(value), unquote(value)}
    return secrets


def _is_secret(name: str) -> bool:
    name = name.lower()
    return any(word in name for word in _SECRET)


def _parts(value: str) -> set[str]:
    """Give a header's value without its scheme, and its words, of ``name=value`` also the value.

    The words, because the rest of it may be anything: AWS has a list of headers there.
    """
    if value.startswith("AWS4-"):
        return set(re.findall(r"(?:Credential|Signature)=([^,/\s]+)", value))
    scheme, _, rest = value.strip().partition(" ")
    given = rest.strip() if rest and scheme.isalpha() else value.strip()
    words = {given, *given.split()}
    for word in re.split(r'[\s,;"]+', given):
        words |= {word, re.sub(r"^[\w.-]+=(?=[^=])", "", word)}
    if scheme.lower() == "basic":
        with contextlib.suppress(binascii.Error, UnicodeDecodeError):  # then it has no password
            user, _, password = base64.b64decode(rest).decode().partition(":")
            words |= {password, *([user] if looks_random(user) else [])}
    return words


# JSON


def secrets_of_body(body: bytes | bytearray) -> set[str]:
    """Find the keys that a request hands over: those of MCP servers, of a search service."""
    try:
        return set(_in_json(msgspec.json.decode(body)))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return set()


def _in_json(document: Any) -> Iterator[str]:
    values: list[tuple[Any, bool]] = [(document, False)]
    while values:
        value, is_secret = values.pop()
        if isinstance(value, dict):
            for name, inner in value.items():
                if isinstance(inner, str):
                    yield from _in_member(name, inner, is_inside=is_secret)
                else:
                    values.append((inner, is_secret or _is_secret_object(name)))
        elif isinstance(value, list):
            values += [(inner, is_secret) for inner in value]
        elif isinstance(value, str) and is_secret:
            yield from filter(looks_random, _parts(value))


def _in_member(name: str, value: str, *, is_inside: bool) -> Iterator[str]:
    """Find the secrets in a string. What is called so may be words to a reader, as in a schema."""
    is_secret = _is_secret_member(name)
    if is_secret and len(value.split()) <= 2:  # a scheme and a key
        yield from _parts(value)
    elif is_secret or is_inside:
        yield from filter(looks_random, {*_parts(value), *value.split("\n")})


def _is_secret_member(name: str) -> bool:
    return re.sub("[-_]", "", name).lower().endswith(_SECRET_MEMBER)


def _is_secret_object(name: str) -> bool:
    return name.lower() in _SECRET_OBJECTS or _is_secret_member(name)


# The environment


def secrets_of_environment(environment: Mapping[str, str]) -> set[str]:
    """Find the keys that the environment has: a provider may repeat them in an error.

    Only what looks like a key: a password that is a word is a word in most answers.
    """
    found: set[str] = set()
    for name, value in environment.items():
        if name.upper().endswith(_SECRET_VARIABLE):
            found.update(_in_variable(value))
    return set(filter(looks_random, found))


def _in_variable(value: str) -> Iterable[str]:
    if value.lstrip().startswith(("{", "[")):
        return secrets_of_body(value.encode(errors="surrogateescape"))
    if "://" in value:
        with contextlib.suppress(ValueError):
            return [unquote(urlsplit(value).password or "")]
    return [line.strip() for line in value.splitlines()]
