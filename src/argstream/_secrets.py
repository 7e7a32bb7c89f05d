"""Finds the secrets of requests and environments, and removes them from what a provider repeats.

The secrets are known, so nothing is guessed from patterns in a text. A secret is removed in its
usual spellings: as it is, in HTML encoding, in hex, and in base64 at any offset. In each of them,
any characters may be escaped as in JSON or in a URL. Of a secret that looks random, any part of 12
characters is removed.

Recordings, the HTTP models, the log of the server and the mock provider use this module. It
performs no I/O.
"""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any, Final
from urllib.parse import unquote, unquote_plus, urlsplit

import msgspec

REMOVED: Final = "[removed]"
_MIN_SECRET: Final = 8  # a shorter secret would occur in ordinary words
_MIN_LIVE: Final = 12  # a shorter one may be a word that the model writes
_MIN_WORD: Final = 3
_MIN_RUN: Final = 12  # any part of a random secret is removed if it has this many characters
_BLOCK: Final = _MIN_RUN // 2
_SEPARATOR: Final = b"\xff"  # does not occur in UTF-8
_PERCENT, _BACKSLASH = b"%\\"
# A character that is escaped as in JSON or in a URL. JSON in JSON doubles the backslashes.
_ESCAPE: Final = re.compile(
    rb"%([0-9A-Fa-f]{2})|\\{1,8}(?:u([0-9A-Fa-f]{4})|%([0-9A-Fa-f]{2})|([^\\]))"
)
_CUT_ESCAPE: Final = re.compile(rb"(?:\\{1,8}(?:u[0-9A-Fa-f]{0,3})?|\\{0,8}%[0-9A-Fa-f]?)\Z")
_MAX_CUT_ESCAPE: Final = 12
# The edges of a secret that text beside it can turn into an escape: the "ab" in "%ab…".
_EDGES: Final = re.compile(rb"\Au?[0-9A-Fa-f]{1,4}|%[0-9A-Fa-f]?\Z")
# Names of headers, parameters and variables with secrets: "authorization", but not "author"; "sig",
# but not "design"; "password", but not "passive".
_SECRET_NAME: Final = re.compile(
    "auth(?!or(?!i[sz]))|cookie|credential|key|pass(?:code|phrase|wd|word|(?![a-z]))|secret"
    "|(?<![a-z])sig|token",
    re.IGNORECASE,
)
# Ends of such names in JSON, without - and _. Stricter, because a tool may have an argument "key".
_SECRET_MEMBER: Final = (
    *("accesskey", "accountkey", "apikey", "privatekey", "secretkey", "subscriptionkey"),
    *("authorization", "connectionstring", "cookie", "credential", "credentials", "password"),
    *("secret", "token"),
)
# Objects whose members are secrets if they look random, whatever their names.
_SECRET_OBJECTS: Final = ("auth", "authentication", "headers")
_SCHEME: Final = re.compile(
    r"(?:apikey|basic|bearer|digest|dpop|negotiate|oauth|token)\s+\S", re.IGNORECASE
)
# Headers whose values may look random, because they contain versions and names.
_PUBLIC_HEADER: Final = re.compile(
    "(?:accept|anthropic-beta|anthropic-version|connection|content|host|openai-beta|origin|referer"
    "|sec|traceparent|user-agent|x-goog-api-client|x-request-id|x-stainless)(?:-.*)?",
    re.IGNORECASE,
)
# A part of a token, unlike a part of a name such as claude-sonnet-4-20250514.
_TOKEN_PART: Final = re.compile(
    r"\d{10}|(?=[A-Za-z]*\d)(?=\d*[A-Za-z])(?<![A-Za-z0-9])[A-Za-z0-9]{8}"
)
_MIN_RANDOM: Final = 16
_MIN_DISTINCT: Final = 8
# Several words, a URL or a path: the location of a secret rather than the secret.
_ORDINARY: Final = re.compile(
    r"\s|://|^(?:~|\.{1,2})/|^/[A-Za-z._-]{2,}/|^[A-Za-z]:\\|\.(?:crt|json|key|p12|pem|txt)$"
)
# A key whose middle is masked. Possessive quantifiers and the lookbehind keep it linear: a word is
# tried from its first letter only.
_MASKED: Final = re.compile(r"((?:(?<![\w-])[\w-]++)?)(?:\*{2,}|•{2,}|…|\.{3,})([\w-]*+)")


def is_secret_name(name: str) -> bool:
    """Return True if a header, parameter or variable of this name contains a secret."""
    return _SECRET_NAME.search(name) is not None


def looks_random(text: str) -> bool:
    """Return True if the text looks like a random token, whose parts are secret too."""
    return (
        len(text) >= _MIN_RANDOM
        and len(set(text)) >= _MIN_DISTINCT
        and any(character.isdigit() for character in text)
        and any(character.isalpha() for character in text)
        and _ORDINARY.search(text) is None
    )


def secrets_of_request(
    headers: Iterable[tuple[str, str]], target: str = "", *, whole_query: bool = False
) -> set[str]:
    """Return the credentials of a request. With ``whole_query``, all of its query is secret."""
    secrets = {secret for name, value in headers for secret in secrets_of_header(name, value)}
    query = target.partition("?")[2]
    if whole_query:
        return secrets.union(*map(_decoded, (query, *re.split("[&;=]", query))))
    for parameter in re.split("[&;]", query):
        name, _, value = parameter.partition("=")
        if is_secret_name(unquote(name)):
            secrets |= _decoded(value)
    return secrets


def _decoded(text: str) -> set[str]:
    """Return a part of a URL as it was sent and as it is decoded: an error may quote either."""
    return {text, unquote(text), unquote_plus(text)}


def secrets_of_header(name: str, value: str) -> set[str]:
    """Return the secrets in a header: by its name, its scheme, or because they look random."""
    if is_secret_name(name) or _SCHEME.match(value.strip()):
        return _parts(value)
    pairs = re.findall(r'([\w.-]+)="?([^\s,;"]+)', value)
    secrets = {found for inner, found in pairs if is_secret_name(inner)}
    if not _PUBLIC_HEADER.fullmatch(name):
        secrets |= {
            part for part in _parts(value) if looks_random(part) and _TOKEN_PART.search(part)
        }
    return secrets


def _parts(value: str) -> set[str]:
    """Return parts of a header's value: all after the scheme, each word, each ``name=value`` value.

    Words are separate, because the rest may be public, such as the list of headers for AWS.
    """
    if value.startswith("AWS4-"):
        return set(re.findall(r"(?:Credential|Signature)=([^,/\s]+)", value))
    scheme, _, rest = value.strip().partition(" ")
    given = rest.strip() if rest and scheme.isalpha() else value.strip()
    words = {given, *given.split()}
    for word in re.split(r'[\s,;"]+', given):
        words |= {word, re.sub(r"^[\w.-]+=(?=[^=])", "", word)}
    if scheme.lower() == "basic":
        with suppress(ValueError):  # not base64, or not text
            user, _, password = base64.b64decode(rest).decode().partition(":")
            words |= {password, *([user] if looks_random(user) else [])}
    return words


def secrets_of_body(body: bytes | bytearray) -> set[str]:
    """Return the API keys in a request body, such as those of MCP servers or search services."""
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
                    is_named = name.lower() in _SECRET_OBJECTS or _is_secret_member(name)
                    values.append((inner, is_secret or is_named))
        elif isinstance(value, list):
            values += [(inner, is_secret) for inner in value]
        elif isinstance(value, str) and is_secret:
            yield from filter(looks_random, _parts(value))


def _in_member(name: str, value: str, *, is_inside: bool) -> Iterator[str]:
    """Yield the secrets in a string. It may also be prose, as in the description of a schema."""
    is_secret = _is_secret_member(name)
    if is_secret and len(value.split()) <= 2:  # a scheme and a key
        yield from _parts(value)
    elif is_secret or is_inside:
        yield from filter(looks_random, {*_parts(value), *value.split("\n")})


def _is_secret_member(name: str) -> bool:
    return re.sub("[-_]", "", name).lower().endswith(_SECRET_MEMBER)


def secrets_of_environment(environment: Mapping[str, str]) -> set[str]:
    """Return the API keys in the environment, which a provider may repeat in an error.

    Only random values are returned, because a password that is a word occurs in ordinary text.
    """
    values = (value for name, value in environment.items() if is_secret_name(name))
    return {secret for value in values for secret in _in_variable(value) if looks_random(secret)}


def _in_variable(value: str) -> Iterable[str]:
    if value.lstrip().startswith(("{", "[")):
        return secrets_of_body(value.encode(errors="surrogateescape"))
    if "://" in value:
        return secrets_of_url(value)
    return [line.strip() for line in value.splitlines()]


def secrets_of_url(url: str) -> set[str]:
    """Return the password of a URL."""
    with suppress(ValueError):  # not a URL
        return {unquote(urlsplit(url).password or "")}
    return set()


class Secrets:
    """Known secrets, to be removed from texts and streams. Its ``repr`` does not show them."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        # Line by line, because JSON and base64 encode line ends in different ways.
        lines = {line.strip() for value in values for line in value.splitlines()}
        self._values = frozenset(lines - {""})

    def redacted(self, text: str) -> str:
        data = text.encode(errors="surrogatepass")
        return self.redactor().feed(data, is_end=True).decode(errors="replace")

    def redacted_message(self, text: str) -> str:
        """Return an error message without secrets, masked secrets and words that are secrets."""
        text = self.redacted(_MASKED.sub(self._without_masked, text))
        return text if self._words is None else self._words.sub(REMOVED, text)

    def redactor(self, *, live: bool = False) -> "Redactor":
        """Return a redactor for one stream. With ``live``, it removes whole secrets only.

        So it costs nearly nothing, and does not delay the end of a chunk that looks like the middle
        of a secret. A secret of fewer than 12 characters is then kept, because a model that writes
        the word would be misread.
        """
        return Redactor(_live_search(self._values) if live else self._search)

    @cached_property
    def _search(self) -> "_Search":
        return _Search(secret for secret in self._values if len(_plain(secret)) >= _MIN_SECRET)

    @cached_property
    def _words(self) -> re.Pattern[str] | None:
        words = sorted(word for word in self._values if len(_plain(word)) < _MIN_SECRET)
        short = [word for word in words if len(word) >= _MIN_WORD]
        return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, short))})(?!\w)") if short else None

    def _without_masked(self, found: re.Match[str]) -> str:
        first, last = found.groups()
        is_secret = any(
            (first and secret.startswith(first)) or (last and secret.endswith(last))
            for secret in self._values
        )
        return REMOVED if is_secret else found[0]


@lru_cache(maxsize=64)  # the key of a model is the same in each request
def _live_search(values: frozenset[str]) -> "_Search":
    secrets = (secret for secret in values if len(_plain(secret)) >= _MIN_LIVE)
    return _Search(secrets, by_parts=False)


class Redactor:
    """Removes secrets from bytes that arrive in chunks, wherever they are cut.

    The end of a chunk that could be the start of a secret is held back, and keeps its time.
    """

    __slots__ = ("_held", "_held_at", "_search", "removed")

    def __init__(self, search: "_Search") -> None:
        self._search = search
        self._held = b""
        self._held_at = 0.0
        self.removed = 0

    def feed(self, chunk: bytes, *, is_end: bool = False) -> bytes:
        """Return the chunk without secrets, except for an end that is held back."""
        # Nearly all chunks of a provider end with a newline, which no secret contains.
        search = self._search.has_secret
        if search is not None and not self._held and chunk.endswith(b"\n"):
            plain = chunk
            if _PERCENT in chunk or (_BACKSLASH in chunk and b"\\u" in chunk):
                plain = _ESCAPE.sub(_character, chunk)
            elif _BACKSLASH in chunk:
                plain = chunk.translate(None, b"\\")
            if not search(plain):
                return chunk
        return b"".join(piece for _, piece in self.feed_at(0.0, chunk, is_end=is_end))

    def feed_at(
        self, at: float, chunk: bytes, *, is_end: bool = False
    ) -> list[tuple[float, bytes]]:
        """Like ``feed``, with the times at which the bytes arrived."""
        held_at = self._held_at if self._held else at
        data, border = self._held + chunk, len(self._held)
        is_whole = is_end or not self._search.all
        cut = None if is_whole else _CUT_ESCAPE.search(data, len(data) - _MAX_CUT_ESCAPE)
        plain, places = _without_escapes(data if cut is None else data[: cut.start()])
        end = len(plain) if is_end else len(plain) - self._search.partial_length(plain)
        before: list[bytes] = []
        after: list[bytes] = []

        def copy(start: int, stop: int) -> None:
            middle = max(start, min(border, stop))
            before.append(data[start:middle])
            after.append(data[middle:stop])

        found = self._search.found(plain)
        # Hold back a whole secret, if its end could be the start of another.
        end = min([end, *(start for start, stop in found if start < end < stop)])
        done = 0
        for start, stop in found:
            if start >= end:
                break
            if start >= done:  # otherwise it overlaps the last one
                copy(places[done], places[start])
                (before if places[start] < border else after).append(REMOVED.encode())
                self.removed += 1
            done = min(max(done, stop), end)
        copy(places[done], places[end])
        self._held = data[places[end] :]
        self._held_at = held_at if places[end] < border else at
        timed = ((held_at, b"".join(before)), (at, b"".join(after)))
        return [(time, piece) for time, piece in timed if piece]


class _Search:
    """Searches for secrets in all spellings."""

    def __init__(self, secrets: Iterable[str], *, by_parts: bool = True) -> None:
        self._whole: set[bytes] = set()
        # By block: the spellings that contain it, its offset, and the shortest part to remove.
        self._blocks: dict[bytes, list[tuple[bytes, int, int]]] = {}
        spellings: dict[bytes, int] = {}
        for secret in secrets:
            new = {one: width for one, width in _spellings(secret) if one not in spellings}
            spellings |= new
            if by_parts and looks_random(secret):
                for spelling, width in new.items():
                    self._add_parts(spelling, _MIN_RUN * width)
            else:
                self._whole.update(new)
        self.all = b"".join(_SEPARATOR + spelling for spelling in spellings)
        # Finds whole secrets in data whose escapes are decoded. None if parts are searched, too.
        self.has_secret = None if by_parts else _pattern(sorted(self._whole)).search

    def _add_parts(self, spelling: bytes, shortest: int) -> None:
        for offset in range(len(spelling) - _BLOCK + 1):
            block = spelling[offset : offset + _BLOCK]
            self._blocks.setdefault(block, []).append((spelling, offset, shortest))

    def partial_length(self, data: bytes) -> int:
        """Return how many bytes at the end of the data may be part of a secret that continues."""
        length = 0
        while length < len(data) and data[-length - 1 :] in self.all:
            length += 1
        while (
            length and self.has_secret is not None and _SEPARATOR + data[-length:] not in self.all
        ):
            length -= 1
        return length

    def found(self, data: bytes) -> list[tuple[int, int]]:
        """Return the ranges of all secrets in order. They may overlap."""
        return sorted([*self._found_whole(data), *self._found_parts(data)])

    def _found_whole(self, data: bytes) -> Iterator[tuple[int, int]]:
        for secret in self._whole:
            position = data.find(secret)
            while position >= 0:
                yield position, position + len(secret)
                position = data.find(secret, position + 1)

    def _found_parts(self, data: bytes) -> Iterator[tuple[int, int]]:
        blocks, done = self._blocks, 0
        if not blocks:
            return
        for position in range(0, len(data) - _BLOCK + 1, _BLOCK):
            matches = blocks.get(data[position : position + _BLOCK])
            if matches is None or position + _BLOCK <= done:
                continue
            for secret, offset, shortest in matches:
                start, stop = _extent(data, position, secret, offset)
                if stop - start >= shortest:
                    yield start, stop
                    done = max(done, stop)


def _pattern(spellings: list[bytes]) -> re.Pattern[bytes]:
    """Return a pattern that starts at a byte of all spellings, which ``re`` finds with memchr."""
    common = set.intersection(*map(set, spellings)) if spellings else set()
    first = bytes(sorted(common)[:1])  # a digit, if all contain one
    rests = (re.escape(one[one.index(first) + len(first) :]) for one in spellings)
    return re.compile(re.escape(first) + b"(?:" + (b"|".join(rests) or b"(?!)") + b")")


def _extent(data: bytes, position: int, secret: bytes, offset: int) -> tuple[int, int]:
    start, stop, first, last = position, position + _BLOCK, offset, offset + _BLOCK
    while start and first and data[start - 1] == secret[first - 1]:
        start, first = start - 1, first - 1
    while stop < len(data) and last < len(secret) and data[stop] == secret[last]:
        stop, last = stop + 1, last + 1
    return start, stop


def _without_escapes(data: bytes) -> tuple[bytes, Sequence[int]]:
    """Decode the escapes. Also return the offset in ``data`` of each decoded byte."""
    if _PERCENT not in data and _BACKSLASH not in data:
        return data, range(len(data) + 1)
    pieces, places, done = list[bytes](), list[int](), 0
    for escape in _ESCAPE.finditer(data):
        start, character = escape.start(), _character(escape)
        pieces += (data[done:start], character)
        places += range(done, start)
        places += [start] * len(character)
        done = escape.end()
    places += range(done, len(data) + 1)
    return b"".join(pieces) + data[done:], places


def _character(escape: re.Match[bytes]) -> bytes:
    """Decode an escape. A backslash becomes empty, so backslashes never affect the search."""
    if escape[4]:
        return escape[4]
    code = int(escape[1] or escape[2] or escape[3], 16)
    if code == _BACKSLASH:
        return b""
    return chr(code).encode(errors="surrogatepass") if escape[2] else bytes([code])


def _plain(text: str) -> bytes:
    return _ESCAPE.sub(_character, text.encode(errors="surrogateescape"))


def _spellings(secret: str) -> Iterator[tuple[bytes, int]]:
    """Yield the encodings of a secret, and how many bytes each uses per character."""
    plain = secret.encode(errors="surrogateescape")
    decoded = map(_plain, (secret, json.dumps(secret)[1:-1], html.escape(secret)))
    for text in (plain.replace(b"\\", b""), *decoded):  # the first: if its own % was escaped, too
        yield text, 1
        if len(inside := _EDGES.sub(b"", text)) >= _MIN_LIVE:
            yield inside, 1
    yield plain.hex().encode(), 2
    yield plain.hex().upper().encode(), 2
    for before in range(3):  # bytes before it in its first base64 group
        encoded = base64.b64encode(bytes(before) + plain).rstrip(b"=")
        # Without the characters that also depend on neighbouring bytes.
        last = len(encoded) - (1 if (before + len(plain)) % 3 else 0)
        inside = encoded[(0, 2, 3)[before] : last]
        yield inside, 1
        yield inside.translate(bytes.maketrans(b"+/", b"-_")), 1
