"""How much came before a stream: with it, the turns of a conversation are numbered as one."""

from msgspec import Struct

__all__ = ["Numbering"]


class Numbering(Struct, frozen=True):
    """What the earlier turns of a conversation have used up.

    What is numbered goes on after it: blocks, calls, and the ids that are made for calls to which
    the provider gave none, or one that it has used before.
    """

    turns: int = 0
    blocks: int = 0
    calls: int = 0
    call_ids: frozenset[str] = frozenset()
