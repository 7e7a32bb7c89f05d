"""What names and descriptions tell about the length of a text: the lint's vocabulary.

The last word of a name says what it is: ``file_content`` is content, ``content_type`` a type. Words
are listed only where nearly everybody means the same by them. What is not listed is unknown, and
nothing is said of it.
"""

import re
from typing import Final, Literal, TypeAlias

__all__ = ["Length", "is_setting", "length_by_words"]

Length: TypeAlias = Literal["long", "short", "unknown"]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_LONG: Final = _set(
    "answer article body code comment content css description diff document essay explanation"
    " feedback html instruction javascript justification letter lines markdown md memo message"
    " note paragraph patch prompt reason replacement report response script snippet sql story"
    " summary svg text transcript xml"
)
_SHORT: Final = _set(
    "account action address amount app assignee author bcc branch bucket category cc channel city"
    " class collection color column command country currency customer cwd database date day"
    " destination dir directory domain email end endpoint environment event extension field file"
    " filename filepath folder format from host id identifier index key kind label lang language"
    " level line location method mode model module month name namespace operation operator order"
    " origin owner package path permission phone port price priority product project quantity"
    " recipient ref region repo repository role room scope selector service severity sha size sku"
    " slug start state status subject symbol table tag target team time timezone title to tool"
    " topic type unit uri url user username uuid version visibility workspace year"
)
_LISTED: Final = _LONG | _SHORT
# A text to look for or to put in its place: new_string, old_str; or no more than old and new.
_OLD_OR_NEW: Final = _set("find insert new old original replace replacement search")
_STRING: Final = frozenset(("str", "string"))
# A country_code is no code of a program, an alt_text no text to wait for.
_PROGRAM: Final = _set(
    "c css file full generated go html java javascript js jsx new old program python replacement"
    " rust script shell source sql svg test tsx typescript updated"
)
_BRIEF_TEXT: Final = _set("alt anchor button display label link placeholder search")
_CODE_OF_SOMETHING: Final = re.compile(
    r"(?i)\b(?:(?:airport|area|confirmation|country|coupon|currency|discount|error|exit|language"
    r"|one-time|postal|promo|promotion|short|status|verification|zip)[- ]code|iata|iso|\d-digit)\b"
)

# How much is read, how long to wait: nobody decides about a call by these.
_SETTINGS: Final = _set(
    "cache cursor debug delay encoding indent indentation interval limit offset page pagination"
    " retries retry temperature timeout verbose verbosity"
)
_SETTINGS_BEGIN: Final = _set("max maximum min minimum n num number per top")

_HINT_LENGTH: Final = 2_000  # of a description: what matters is said first
_SAID_SHORT: Final = re.compile(
    r"(?i)\b(?:short|brief|concise|terse|one[- ]word|few words"
    r"|(?:one|single|1)[- ](?:sentence|line|liner|phrase)"
    r"|\d+\s*(?:-|–|to)\s*\d+ words"
    r"|(?:max(?:imum)?|under|at most|up to|(?:less|fewer|no (?:more|longer)) than)\.?:? (?:of )?"
    r"\d{1,3} (?:char(?:acter)?s?|words?))\b"
)
_SAID_LONG: Final = re.compile(
    r"(?i)\b(?:(?:full|entire|complete|whole) (?:text|contents?|source|body|code|document)"
    r"|multi-?line|source code|(?:in|as) markdown|markdown (?:text|content|body)|unified diff"
    r"|contents? (?:of|to write|for) (?:the |a )?(?:new )?(?:file|document|page|message)"
    r"|(?:sql|graphql|cypher|sparql) (?:query|statement|text|to)|base64)\b"
)

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")


def length_by_words(name: str, description: str) -> Length:
    """Say how long a string is by what it is called and how it is described.

    >>> length_by_words("newContent", ""), length_by_words("content_type", "")
    ('long', 'short')
    >>> length_by_words("description", "What it does, in 5-10 words"), length_by_words("spam", "")
    ('unknown', 'unknown')
    """
    words = _words(name)
    described = description[:_HINT_LENGTH]
    if _names_a_long_text(words, described):
        return "unknown" if _SAID_SHORT.search(described) else "long"
    is_said_long = _SAID_LONG.search(described) is not None
    if words and words[-1] in _SHORT:
        return "unknown" if is_said_long else "short"
    return "long" if is_said_long else "unknown"


def is_setting(name: str) -> bool:
    """Say whether it tunes how a tool works, and not what it does: ``limit``, ``timeout_ms``."""
    words = _words(name)
    return bool(words) and (words[0] in _SETTINGS_BEGIN or not _SETTINGS.isdisjoint(words))


def _words(name: str) -> list[str]:
    words = [word.lower() for word in _WORD.findall(name[:_HINT_LENGTH])]
    if words and words[-1] not in _LONG and words[-1].removesuffix("s") in _LISTED:
        words[-1] = words[-1].removesuffix("s")  # many of a kind are as long as one of them
    return words


def _names_a_long_text(words: list[str], description: str) -> bool:
    if not words:
        return False
    *before, last = words
    if last in _STRING:
        return not _OLD_OR_NEW.isdisjoint(before)
    if last == "code":
        if before:
            return before[-1] in _PROGRAM
        return not _CODE_OF_SOMETHING.search(description)
    if last == "text" and before and before[-1] in _BRIEF_TEXT:
        return False
    return last in _LONG or words in (["new"], ["old"])
