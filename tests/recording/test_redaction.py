"""Keys are removed from recordings, in any spelling and however they are cut."""

import io
import json
import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream._secrets import Secrets
from argstream.recording import Chunk, Recorder, Recording, parse_recording, secrets_of_environment
from argstream.testing import cut
from tests import test_canaries as canaries
from tests.growth import BOUND, growth

KEY = "sk-ant-api03-CANARY-0123456789-abcdef"
ESCAPES = ("{:c}", "{:c}", "\\u{:04x}", "\\\\u{:04X}", "%{:02x}", "%{:02X}")
WORD = "correct-horse-battery-staple"


def recorded(chunks: Sequence[bytes], *secrets: str, reason: str = "") -> Recording:
    """Record chunks, one in each second."""
    file, times = io.BytesIO(), iter([0.0, *map(float, range(len(chunks) + 1))])
    recorder = Recorder(file, secrets=secrets, clock=lambda: next(times), started=0.0)
    for chunk in chunks:
        recorder.write(chunk)
    recorder.close("orderly", reason)
    return parse_recording(file.getvalue())


def redacted(chunks: Sequence[bytes], *secrets: str) -> bytes:
    return recorded(chunks, *secrets).data


@pytest.mark.parametrize(
    ("secret", "text", "expected"),
    [
        (KEY, "sk-ant-api0 is how keys begin", "sk-ant-api0 is how keys begin"),
        ("any", "company", "company"),  # too short: it is in many words
        ("passw0rd", "x passw0rd y", "x [removed] y"),
        ("a/b/c/d/e", "?key=a%2Fb%2Fc%2Fd%2Fe&x", "?key=[removed]&x"),
        ("a/b+c/d/e", "?key=a%2fb%2bc%2fd%2fe&x", "?key=[removed]&x"),
        ("a/b+c/d/e", '{"key": "a\\/b+c\\/d\\/e"}', '{"key": "[removed]"}'),
        ('say "hello" twice', r'"say \"hello\" twice"', '"[removed]"'),
        ("2aB+/zw&KEY==", r'"2aB\u002B\/zw\u0026KEY=="', '"[removed]"'),
        ("8f2a4c6e0b1d3f5a", "100%8f2a4c6e\\u0030b1d3f5a", "100%8f[removed]"),
        ("grüße-an-\U0001f600", r"<gr\u00FC%C3%9Fe-an-\ud83d\uDE00>", "<[removed]>"),
        ("a<b&c>d12345", "<b>a&lt;b&amp;c&gt;d12345</b>", "<b>[removed]</b>"),
        (WORD, f"a {WORD} b", "a [removed] b"),
        (WORD, "a correct-horse-battery b", "a correct-horse-battery b"),  # not random
        (f"--BEGIN--\n{KEY}\n--END--\n", f"data: x\n\n{KEY}\n", "data: x\n\n[removed]\n"),
    ],
)
def test_secret_is_removed_in_every_spelling(secret: str, text: str, expected: str) -> None:
    assert redacted([text.encode()], secret) == expected.encode()


def test_delayed_bytes_keep_their_time() -> None:
    first, second = KEY[:9].encode(), KEY[9:].encode()
    recording = recorded(
        [b"so sk-", b"ant?", b"<" + first, second + b">"], KEY, reason=f"because of {KEY}"
    )
    assert recording.chunks == (
        *(Chunk(0, b"so "), Chunk(0, b"sk-"), Chunk(1, b"ant?")),
        *(Chunk(2, b"<"), Chunk(2, b"[removed]"), Chunk(3, b">")),
    )
    assert (recording.end.reason, recording.end.removed) == ("because of [removed]", 1)


@given(
    st.lists(st.integers(1, 60), min_size=1),
    st.lists(st.sampled_from(ESCAPES), min_size=len(KEY), max_size=len(KEY)),
    st.text('ab-sk\n%u0"\\', max_size=8),
)
def test_key_is_removed_however_it_is_cut_and_escaped(
    sizes: list[int], escapes: list[str], around: str
) -> None:
    key = "".join(escape.format(code) for escape, code in zip(escapes, KEY.encode(), strict=True))
    text = f"{around}{key}\n{around}".encode()
    expected = around.rstrip("\\") + f"[removed]\n{around}"
    assert redacted(cut(text, sizes), KEY).decode() == expected
    live = Secrets([KEY]).redactor(live=True)
    pieces = [*map(live.feed, cut(text, sizes)), live.feed(b"", is_end=True)]
    assert b"".join(pieces).decode() == expected


@given(st.lists(st.binary(min_size=1)))
def test_bytes_without_a_key_are_unchanged(chunks: list[bytes]) -> None:
    assert redacted(chunks, KEY, "another-key-of-mine") == b"".join(chunks)


@pytest.mark.parametrize("start", range(0, len(KEY) - 12, 3))
def test_long_part_of_a_key_is_removed_too(start: int) -> None:
    """Providers repeat a part of a key in their errors."""
    part = KEY[start : start + 12]
    assert redacted([f"key '{part}...' is not valid".encode()], KEY) == (
        b"key '[removed]...' is not valid"
    )


@pytest.mark.parametrize("spelling", canaries.SPELLINGS)
def test_every_spelling_of_a_key_is_removed(spelling: str) -> None:
    text = f"data: <{canaries.SPELLINGS[spelling]}>\n".encode()
    for pieces in ([text], [text[:19], text[19:]], [bytes([byte]) for byte in text]):
        found = redacted(pieces, canaries.KEY).decode()
        assert not canaries.leaks(found)
        assert re.fullmatch(r"data: <.*\[removed\].*>\n", found)


def test_adjacent_keys_across_chunks_are_both_removed() -> None:
    other = "another-key-0123456789-zyxwv"
    pieces = [f"<{KEY}{other[:15]}".encode(), f"{other[15:]}>".encode()]
    assert redacted(pieces, KEY, other) == b"<[removed][removed]>"


@pytest.mark.timing
@pytest.mark.parametrize(
    ("secret", "repeated"),
    [("A" * 400, b"A"), ("0123456789abcdef" * 50, b"0123456789abcdef"), (KEY, KEY.encode())],
    ids=["one character", "a pattern", "a key"],
)
def test_search_is_linear(secret: str, repeated: bytes) -> None:
    def job(size: int) -> Callable[[], object]:
        data = repeated * (size // len(repeated))
        return lambda: redacted([data], secret)

    assert growth(job, 16_384) <= BOUND


def test_only_random_looking_variables_are_secrets() -> None:
    """A common word would be removed from most answers."""
    account = {
        "type": "service_account",
        "client_email": "me@project-123456.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.googleapis.com/token",
        "private_key": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQE\n-----END\n",
    }
    environment = {
        "MY_API_KEY": KEY,
        "GCP_SA_KEY": json.dumps(account),
        "POSTGRES_PASSWORD": "postgres",
        "LONG_PASSWORD": WORD,
        "SHORT_KEY": "short-1",
        "SAME_KEY": "a" * 30 + "1",
        "URL_TOKEN": "https://x.example/path/1",
        "PROSE_SECRET": "two words 123456789",
        "SSL_KEY": "/home/alice/project1/x",
        "OTHER_KEY": "C:\\Users\\alice1\\x",
        "TLS_KEY": "certificates/server1.pem",
        "DATABASE_SECRET": f"postgres://me:{KEY[::-1]}@host1.example:5432/data",
        "HOME": "sk-no-secret-0123456789-name",
        "PEM_KEY": "-----BEGIN-----\nAAAAB3NzaC1yc2EAAAADAQ\n-----END-----",
    }
    assert secrets_of_environment(environment) == {
        KEY,
        KEY[::-1],
        "MIIEvQIBADANBgkqhkiG9w0BAQE",
        "AAAAB3NzaC1yc2EAAAADAQ",
    }
