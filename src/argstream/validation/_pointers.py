"""JSON pointers (RFC 6901), by which a schema refers to its own parts and errors tell a place."""

from urllib.parse import unquote

__all__ = ["escaped", "is_local", "local_pointer", "steps"]


def escaped(name: str | int) -> str:
    """Write a step of a pointer.

    >>> escaped("a/b~c")
    'a~1b~0c'
    """
    return str(name).replace("~", "~0").replace("/", "~1")


def steps(pointer: str) -> list[str]:
    """Read a pointer.

    >>> steps("/$defs/a~1b"), steps("")
    (['$defs', 'a/b'], [])
    """
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def is_local(reference: str) -> bool:
    """Say whether a ``$ref`` is a pointer into the document where it stands."""
    return reference == "#" or reference.startswith("#/")


def local_pointer(reference: str) -> str:
    """Give the pointer that a local ``$ref`` is."""
    return unquote(reference[1:])
