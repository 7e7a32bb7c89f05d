"""How the payloads of a provider are put on the wire."""

import json
import random
import string
from struct import pack
from zlib import crc32

TOOL = "write_file"


def server_sent(payload: str, name: str = "") -> bytes:
    """Write a server-sent event."""
    return (f"event: {name}\n" * bool(name) + f"data: {payload}\n\n").encode()


def line(payload: object) -> bytes:
    """Write a payload on a line of its own."""
    return (compact(payload) + "\n").encode()


def aws_message(name: str, payload: object) -> bytes:
    """Write a message of an AWS event stream."""
    headers = b"".join(
        pack(">B", len(key)) + key.encode() + pack(">BH", 7, len(value)) + value.encode()
        for key, value in {
            ":event-type": name,
            ":content-type": "application/json",
            ":message-type": "event",
        }.items()
    )
    data = compact(payload).encode()
    prelude = pack(">II", 16 + len(headers) + len(data), len(headers))
    message = prelude + pack(">I", crc32(prelude)) + headers + data
    return message + pack(">I", crc32(message))


def compact(payload: object) -> str:
    """Write JSON without spaces."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def padding(choose: random.Random, longest: int = 16) -> str:
    """Make characters that mean nothing, against guessing the text by its length."""
    length = choose.randint(1, longest)
    return "".join(choose.choices(string.ascii_letters + string.digits, k=length))
