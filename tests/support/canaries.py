"""The spellings in which a provider may repeat a key."""

import base64
import html
import json
from urllib.parse import quote


def spellings_of(key: str) -> dict[str, str]:
    """Return the spellings of an ASCII key by name."""
    codes = [ord(character) for character in key]
    found = {
        "plain": key,
        "JSON": json.dumps(key)[1:-1],
        "JSON with escaped slashes": json.dumps(key)[1:-1].replace("/", "\\/"),
        "JSON in full": "".join(f"\\u{code:04x}" for code in codes),
        "JSON in full, upper case": "".join(f"\\u{code:04X}" for code in codes),
        "URL": quote(key, safe=""),
        "URL in full": "".join(f"%{code:02x}" for code in codes),
        "URL in full, upper case": "".join(f"%{code:02X}" for code in codes),
        "HTML": html.escape(key),
        "hex": "".join(f"{code:02x}" for code in codes),
        "hex, upper case": "".join(f"{code:02X}" for code in codes),
    }
    for offset in range(3):
        # Only the characters that do not depend on the bytes before and after the key.
        text = base64.b64encode(b"?" * offset + key.encode()).decode().rstrip("=")
        inside = text[(0, 2, 3)[offset] : len(text) - 1 if (offset + len(key)) % 3 else len(text)]
        found[f"base64 at {offset}"] = inside
        found[f"URL-safe base64 at {offset}"] = inside.replace("+", "-").replace("/", "_")
    return found
