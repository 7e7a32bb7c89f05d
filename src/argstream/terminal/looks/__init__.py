"""How the arguments of a call look while they are written: a file, a diff, a command, a table."""

from argstream.terminal.looks.declarations import Command, Diff, File, Look, Plain, Table
from argstream.terminal.looks.files import file_reader
from argstream.terminal.looks.registry import Looks
from argstream.terminal.looks.view import ArgumentEvent, ArgumentsView, OwnLook

__all__ = [
    "ArgumentEvent",
    "ArgumentsView",
    "Command",
    "Diff",
    "File",
    "Look",
    "Looks",
    "OwnLook",
    "Plain",
    "Table",
    "file_reader",
]
