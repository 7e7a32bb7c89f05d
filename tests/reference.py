"""A slow and simple JSON reader: the oracle for verdicts and error offsets.

It shares no code with the parser. It reads the complete text by recursive descent, and stops at the
first character that the grammar of RFC 8259 does not allow.
"""

from collections.abc import Callable
from typing import NamedTuple


class Judgement(NamedTuple):
    verdict: str
    offset: int


class _Wrong(Exception):
    pass


class _Cut(Exception):
    pass


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def peek(self) -> str:
        if self.at == len(self.text):
            raise _Cut
        return self.text[self.at]

    def take(self, allowed: str) -> str:
        char = self.peek()
        if char not in allowed:
            raise _Wrong
        self.at += 1
        return char

    def white_space(self) -> None:
        while self.peek() in " \t\n\r":
            self.at += 1

    def value(self) -> None:
        self.white_space()
        match self.peek():
            case "{":
                self.container("{", "}", self.member)
            case "[":
                self.container("[", "]", self.item)
            case '"':
                self.string()
            case "t" | "f" | "n" as first:
                for letter in {"t": "true", "f": "false", "n": "null"}[first]:
                    self.take(letter)
            case _:
                self.number()

    def container(self, opening: str, closing: str, part: Callable[[], None]) -> None:
        self.take(opening)
        self.white_space()
        if self.peek() == closing:
            self.take(closing)
            return
        part()
        while self.take("," + closing) == ",":
            part()

    def member(self) -> None:
        self.white_space()
        self.string()
        self.white_space()
        self.take(":")
        self.item()

    def item(self) -> None:
        self.value()
        self.white_space()

    def string(self) -> None:
        self.take('"')
        while (char := self.peek()) != '"':
            if char < " ":
                raise _Wrong
            self.at += 1
            if char == "\\" and self.take('"\\/bfnrtu') == "u":
                for _ in range(4):
                    self.take("0123456789abcdefABCDEF")
        self.take('"')

    def number(self) -> None:
        if self.peek() == "-":
            self.take("-")
        if self.take("0123456789") != "0":
            self.digits()
        if self.at < len(self.text) and self.peek() == ".":
            self.take(".")
            self.take("0123456789")
            self.digits()
        if self.at < len(self.text) and self.peek() in "eE":
            self.take("eE")
            if self.peek() in "+-":
                self.take("+-")
            self.take("0123456789")
            self.digits()

    def digits(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in "0123456789":
            self.at += 1


def judge(text: str) -> Judgement:
    """Complete, or truncated, or malformed at the first impossible character."""
    reader = _Reader(text)
    try:
        reader.value()
    except _Wrong:
        return Judgement("malformed", reader.at)
    except _Cut:
        return Judgement("truncated", len(text))
    try:
        reader.white_space()
    except _Cut:
        return Judgement("complete", len(text))
    return Judgement("malformed", reader.at)
