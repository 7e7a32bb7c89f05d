"""No key is ever written down: not of a header, not of a URL, not one that somebody repeats."""

import base64
import io
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.recording import Recorder, parse_recording
from argstream.recording._redaction import (
    REQUEST_HEADERS,
    Redactor,
    harmless_headers,
    harmless_path,
    harmless_url,
)
from argstream.recording._secrets import (
    looks_random,
    secrets_of_body,
    secrets_of_environment,
    secrets_of_request,
)
from argstream.testing import cut
from tests.growth import BOUND, growth

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


@pytest.mark.parametrize("before", [b"", b"u", b"me"])
def test_the_spelling_of_base64_is_found_wherever_it_begins(before: bytes) -> None:
    text = base64.b64encode(before + KEY.encode() + b":after").decode()
    found = redacted([f"Basic {text}!".encode()], KEY).decode()
    inside = base64.b64encode(before + KEY.encode()).decode()[4:-4]
    assert not any(inside[start : start + 12] in found for start in range(len(inside) - 11))
    assert found.endswith("!")


def test_other_spellings_are_found() -> None:
    assert redacted([b"?key=a%2fb%2bc%2fd%2fe&x"], "a/b+c/d/e") == b"?key=[removed]&x"
    assert redacted([b"<b>a&lt;b&amp;c&gt;d12345</b>"], "a<b&c>d12345") == b"<b>[removed]</b>"


def test_of_what_is_not_random_only_all_of_it_is_found() -> None:
    word = "correct-horse-battery-staple"
    assert redacted([f"a {word} b".encode()], word) == b"a [removed] b"
    assert redacted([b"a correct-horse-battery b"], word) == b"a correct-horse-battery b"


def test_lines_of_a_secret_are_secrets() -> None:
    """So that no line end is held back because a secret has some in it."""
    redactor = Redactor([f"-----BEGIN-----\n{KEY}\n-----END-----\n"])
    assert redactor.feed(1.0, b"data: x\n\n") == [(1.0, b"data: x\n\n")]
    assert redactor.feed(2.0, KEY.encode() + b"\n") == [(2.0, b"[removed]\n")]
    assert redactor.removed == 1


def test_two_that_touch_across_chunks_are_both_found() -> None:
    other = "another-key-0123456789-zyxwv"
    assert redacted([f"<{KEY}{other[:15]}".encode(), f"{other[15:]}>".encode()], KEY, other) in (
        b"<[removed]>",
        b"<[removed][removed]>",
    )


@pytest.mark.timing
@pytest.mark.parametrize(
    ("secret", "repeated"),
    [("A" * 400, b"A"), ("0123456789abcdef" * 250, b"0123456789abcdef"), (KEY, KEY.encode())],
    ids=["one character", "a pattern", "a key"],
)
def test_to_search_is_linear(secret: str, repeated: bytes) -> None:
    def job(size: int) -> Callable[[], object]:
        data = repeated * (size // len(repeated))
        return lambda: redacted([data], secret)

    assert growth(job, 16_384) <= BOUND


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
        (
            [("Authorization", "Basic c2stYW50LUNBTkFSWTAxMjM0NTY3ODk6")],
            "/",
            "sk-ant-CANARY0123456789",
        ),
        ([("x-api-key", "abc.DEFGHIJ=xyz")], "/", "abc.DEFGHIJ=xyz"),
        ([("x-api-key", "abcdef,ghijkl;mnopqr")], "/", "abcdef,ghijkl;mnopqr"),
        ([("Authorization", "Bearer abcdef,ghijkl")], "/", "abcdef,ghijkl"),
        ([("Content-Type", f"a/b; token={KEY}")], "/", KEY),
        ([], f"/v1?alt=sse&key={KEY}", KEY),
        ([], f"/v1?%6bey={KEY}", KEY),
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


@pytest.mark.parametrize(
    "body",
    [
        {"mcp_servers": [{"url": "https://m", "authorization_token": KEY}]},
        {"tools": [{"type": "mcp", "headers": {"Authorization": f"Bearer {KEY}"}}]},
        {"tools": [{"type": "mcp", "authorization": KEY}]},
        {"tools": [{"headers": {"X-Mine": KEY}}]},
        {"data_sources": [{"parameters": {"authentication": {"type": "api_key", "key": KEY}}}]},
        {"config": {"clientSecret": KEY}},
    ],
)
def test_keys_that_a_request_hands_over_are_known(body: object) -> None:
    assert KEY in secrets_of_body(json.dumps(body).encode())


def test_ordinary_words_of_a_body_are_no_secrets() -> None:
    schema = {"type": "string", "description": "The password, of at least 16 characters, as text"}
    body = {
        "max_tokens": 4096,
        "tools": [{"input_schema": {"properties": {"password": schema, "api_key": schema}}}],
        "messages": [{"role": "user", "content": f"my token is {KEY}"}],
        "input": {"key": "the-customer-1234567890"},
        "headers": {"Content-Type": "application/json"},
    }
    assert secrets_of_body(json.dumps(body).encode()) == set()
    assert secrets_of_body(b"no JSON") == secrets_of_body(b"[" * 100_000) == set()


def test_of_the_environment_only_what_looks_like_a_key_is_looked_for() -> None:
    """What is a word in most answers would be taken out of them."""
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
        "LONG_PASSWORD": "correct-horse-battery-staple",
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


def test_a_key_looks_random_and_a_name_does_not() -> None:
    assert all(map(looks_random, [KEY, "0123456789abcdef", "wJalrXUtnFEMI/K7MDENG/bPxRfiCY"]))
    names = ["short-1", "a" * 30 + "1", "https://x.example/path/1", "two words 123456789"]
    assert not any(map(looks_random, names))


def test_a_step_of_a_path_that_could_be_a_key_is_left_out() -> None:
    none = Redactor(())
    assert harmless_path("/v1/sk-CANARY0123456789abcdefXYZ/m", none) == "/v1/[removed]/m"
    for path in (
        "/v1beta/models/gemini-2.5-flash-preview-09-2025:streamGenerateContent",
        "/model/us.anthropic.claude-3-5-sonnet-20241022-v2:0/converse-stream",
    ):
        assert harmless_path(path, none) == path
    assert harmless_path(f"/v1/{KEY}/m", Redactor([KEY])) == "/v1/[removed]/m"


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
