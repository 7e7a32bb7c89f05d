"""Bytes → lines, ended by LF, CRLF or CR and by nothing else, however they are cut.

Unicode has more line ends (U+2028, U+0085 …). They may stand inside a payload, so they must not
count. A line that comes in many pieces is put together once, when it ends: linear.
"""

__all__ = ["LineSplitter"]


class LineSplitter:
    """Cuts a stream of bytes into lines."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of the line that has not ended
        self._after_cr = False
        self.pending_bytes = 0
        """The length so far of the line that has not ended."""

    @property
    def is_inside_line(self) -> bool:
        """Whether the next bytes go on with something: a line, or its end."""
        return bool(self._pieces) or self._after_cr

    def feed(self, chunk: bytes) -> list[bytes]:
        """Give the lines that end in this chunk, without their ends."""
        if self._after_cr and chunk:
            # The line ended with the CR already; an LF right after it is a part of that end.
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._pieces.append(chunk)
            self.pending_bytes += len(chunk)
            return []
        if self._pieces:
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces.clear()
        last = lines.pop()
        self.pending_bytes = len(last)
        if last:
            self._pieces.append(last)
        return lines

    def close(self) -> bytes:
        """Give what is there of a line that did not end."""
        return b"".join(self._pieces)
