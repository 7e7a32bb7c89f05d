"""No key is ever written down: not of a header, not of a URL, not one that somebody repeats."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.recording import Recorder, parse_recording
from argstream.recording._redaction import (
    REQUEST_HEADERS,
    Redactor,
    harmless_headers,
    harmless_url,
    secrets_of_request,
)
from argstream.testing import cut

KEY = "sk-ant-api03-CANARY-0123456789-abcdef"


def redacted(chunks: list[bytes], *secrets: str) -> bytes:
    redactor = Redactor(secrets)
    pieces = [piece for chunk in chunks for piece in redactor.feed(0.0, chunk)]
    return b"".join(data for _, data in pieces + redactor.close())


@given(st.lists(st.integers(1, 60), min_size=1), st.text("ab-sk\n", max_size=40))
def test_a_key_is_found_however_it_is_cut(sizes: list[int], around: str) -> None:
    text = f"{around}{KEY}\n{around}".encode()
    found = redacted(cut(text, sizes), KEY)
    assert KEY.encode()[:14] not in found
    assert found.endswith(b"[removed]\n" + around.encode())


@given(st.lists(st.binary(min_size=1)))
def test_what_has_no_key_in_it_stays_as_it_is(chunks: list[bytes]) -> None:
    assert redacted(chunks, KEY, "another-key-of-mine") == b"".join(chunks)


@pytest.mark.parametrize("start", range(0, len(KEY) - 12, 3))
def test_a_long_enough_part_of_a_key_is_found_too(start: int) -> None:
    """Providers repeat a part of a key in their errors."""
    part = KEY[start : start + 12]
    assert redacted([f"key '{part}...' is not valid".encode()], KEY) == (
        b"key '[removed]...' is not valid"
    )


def test_a_short_part_is_an_ordinary_word() -> None:
    assert redacted([b"sk-ant-api0 is how keys begin"], KEY) == b"sk-ant-api0 is how keys begin"


def test_a_short_secret_would_be_found_in_many_a_word() -> None:
    assert redacted([b"company"], "any") == b"company"
    assert redacted([b"x passw0rd y"], "passw0rd") == b"x [removed] y"


def test_spellings_of_url_and_json_are_found() -> None:
    assert redacted([b"?key=a%2Fb%2Fc%2Fd%2Fe&x"], "a/b/c/d/e") == b"?key=[removed]&x"
    assert redacted([rb'"say \"hello\" twice"'], 'say "hello" twice') == b'"[removed]"'


def test_what_is_held_back_keeps_its_time() -> None:
    redactor = Redactor([KEY])
    assert redactor.feed(1.0, b"so sk-") == [(1.0, b"so ")]
    assert redactor.feed(2.0, b"ant?") == [(1.0, b"sk-"), (2.0, b"ant?")]
    first, second = KEY[:9].encode(), KEY[9:].encode()
    assert redactor.feed(3.0, b"<" + first) == [(3.0, b"<")]
    assert redactor.feed(4.0, second + b">") == [(3.0, b"[removed]"), (4.0, b">")]
    assert redactor.close() == []


@pytest.mark.parametrize(
    ("headers", "target", "expected"),
    [
        ([("Authorization", f"Bearer {KEY}")], "/", KEY),
        ([("x-api-key", KEY)], "/", KEY),
        ([("api-key", KEY)], "/", KEY),
        ([("X-Goog-Api-Key", KEY)], "/", KEY),
        ([("Cookie", f"a=b; session={KEY}")], "/", KEY),
        ([("Authorization", "Basic dXNlcjpvcGVuIHNlc2FtZQ==")], "/", "open sesame"),
        ([("Authorization", "Basic dXNlcjpvcGVuIHNlc2FtZQ==")], "/", "dXNlcjpvcGVuIHNlc2FtZQ=="),
        ([], f"/v1?alt=sse&key={KEY}", KEY),
        ([], "/v1?api_key=a%2Fb", "a/b"),
        ([], "/v1?api_key=a%2Fb", "a%2Fb"),
        (
            [("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA1/x, Signature=0123456789abcdef")],
            "/",
            "0123456789abcdef",
        ),
    ],
)
def test_what_a_request_is_authorised_with_is_known(
    headers: list[tuple[str, str]], target: str, expected: str
) -> None:
    assert expected in secrets_of_request(headers, target)


def test_ordinary_words_of_a_request_are_no_secrets() -> None:
    """They would be taken out of every answer."""
    signed = "AWS4-HMAC-SHA256 Credential=A/x, SignedHeaders=content-type;x-amz-date, Signature=1"
    headers = [("Content-Type", "application/json"), ("Authorization", signed)]
    assert secrets_of_request(headers, "/v1?model=gemini-2.5-pro&alt=sse") <= {"A", "1"}


def test_of_headers_and_url_only_what_is_harmless_is_kept() -> None:
    redactor = Redactor([KEY])
    headers = [
        ("Content-Type", "application/json"),
        ("User-Agent", f"me/{KEY}"),
        ("X-Unheard-Of", "x"),
        ("Authorization", "Bearer x"),
    ]
    assert harmless_headers(headers, REQUEST_HEADERS, redactor) == {
        "content-type": "application/json",
        "user-agent": "me/[removed]",
    }
    url = f"https://me:{KEY}@x.example:8/a/{KEY}?key=short&alt=sse&short&api-version=1#f"
    assert harmless_url(url, redactor) == ("https://x.example:8/a/[removed]?alt=sse&api-version=1")


def test_a_recorder_takes_out_the_secrets_that_it_is_given() -> None:
    file = io.BytesIO()
    with Recorder(file, secrets=[KEY]) as recorder:
        for piece in cut(f"my key is {KEY}, see".encode(), [3]):
            recorder.write(piece)
        recorder.close("cut", f"because of {KEY}")
    assert KEY[:14].encode() not in file.getvalue()
    recording = parse_recording(file.getvalue())
    assert recording.data == b"my key is [removed], see"
    assert recording.end.reason == "because of [removed]"
