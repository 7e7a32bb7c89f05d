"""Fuzz the engine with coverage-guided bytes, cut at random, against judges that share no code.

Run by ``make soak-fuzz``; options are libFuzzer's (``-max_total_time=600``). For every input:

- nothing raises, and every chunking of it says the same (invariants 1 and 9);
- the verdict and the error's offset are those of the slow reference of the tests (invariant 5);
- if it is complete, the value is that of ``json.loads`` (invariant 7);
- every string can be encoded (invariant 4).
"""

import sys
from pathlib import Path

import atheris

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

with atheris.instrument_imports(include=["argstream"]):
    from argstream.jsonstream import Limits
    from argstream.testing import cut

from tests.reference import judge
from tests.support import encode, exact, loads, run

SEEDS = [
    b'{"path": "src/app.py", "edits": [{"old": "a\\n", "new": "\\u00e9\\ud83d\\ude00"}]}',
    b'[0, -1, 1.5e-3, true, false, null, "", {}, []]',
    '{"é": "日本語 \\ud83d \\\\ \\/ \\b"}'.encode(),
    b'"\\udead\xf0\x9f\x98\x80',
]
DICTIONARY = [
    "true",
    "false",
    "null",
    "\\\\u",
    "\\\\ud83d",
    "\\\\ude00",
    "e+1",
    '\\"',
    "[[",
    '{\\"a\\":',
]


def check(data: bytes) -> None:
    """Raise if the engine breaks a promise on this input, whose first bytes say how to cut it."""
    sizes = [*(byte % 8 for byte in data[:4]), 1]
    data = data[4:]
    whole, expected = run([data])
    cut_up, fragments = run(cut(data, sizes))
    assert exact(fragments) == exact(expected)
    assert cut_up.verdict == whole.verdict
    encode([fragments, whole.value])

    try:
        text = data.decode()
    except UnicodeDecodeError:
        assert whole.verdict != "complete"
        return
    assert exact(run(cut(text, sizes))[1]) == exact(expected)
    if whole.error is not None and whole.error.reason in ("too_deep", "number_too_long"):
        return
    assert (whole.verdict, whole.offset) == tuple(judge(text))
    if whole.verdict == "complete":
        assert repr(whole.value) == repr(loads(text))

    tight = Limits(max_depth=2, max_chars=24, max_key_chars=3, max_digits=2)
    assert exact(run(cut(data, sizes), tight)[1]) == exact(run([text], tight)[1])


def main() -> None:
    """Seed the corpus and fuzz until libFuzzer is told to stop, or finds something."""
    folder = Path(__file__).parent
    corpus, crashes = folder / "corpus", folder / "crashes"
    corpus.mkdir(exist_ok=True)
    crashes.mkdir(exist_ok=True)
    for number, seed in enumerate(SEEDS):
        (corpus / f"seed-{number}").write_bytes(b"\x01\x03\x00\x05" + seed)
    dictionary = corpus.with_suffix(".dict")
    dictionary.write_text("".join(f'"{word}"\n' for word in DICTIONARY))
    options = [f"-dict={dictionary}", f"-artifact_prefix={crashes}/", "-max_len=512"]
    atheris.Setup([sys.argv[0], *options, *sys.argv[1:], str(corpus)], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
