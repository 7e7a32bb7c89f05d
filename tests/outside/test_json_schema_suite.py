"""conformance/json_schema_test_suite, draft 2020-12: judged while it is written, as the suite says.

Every instance is fed whole and one character at a time, in several spellings. The final verdict is
the suite's own ``valid``. An early rejection would show as a wrong verdict if the instance itself
is valid; so that it shows also where only another one is, all instances of a file are tried on each
of its schemas, and no two that begin alike may be refused and valid.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from argstream.testing import cut
from argstream.validation import Schema
from tests.support import program_is_missing
from tests.validation.rulings import judge, judge_fragments, oracle
from tests.validation.universes import Universe

# Needs remotes of other drafts, which the copy of the suite does not have.
WITHOUT_REMOTES = {"cross-draft.json"}


class Case(NamedTuple):
    """A schema of the suite and its tests."""

    file: str
    description: str
    schema: Any
    tests: list[dict[str, Any]]


@pytest.fixture(scope="session")
def suite(outside_data: Path) -> Path:
    folder = outside_data / "conformance" / "json_schema_test_suite"
    if not folder.is_dir():
        program_is_missing(f"outside data is absent: {folder}")
    return folder


@pytest.fixture(scope="session")
def remotes(suite: Path) -> dict[str, Any]:
    """Return the documents that its schemas refer to; nothing is ever fetched."""
    folder = suite / "remotes"
    return {
        f"http://localhost:1234/{path.relative_to(folder).as_posix()}": json.loads(
            path.read_text("utf-8")
        )
        for path in sorted(folder.rglob("*.json"))
    }


def cases(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("*.json")):
        for case in json.loads(path.read_text("utf-8")):
            yield Case(path.name, case["description"], case["schema"], case["tests"])


def spellings(instance: Any) -> list[str]:
    """Write an instance in some of the ways that JSON allows."""
    ways: list[dict[str, Any]] = [
        {"ensure_ascii": True},
        {"ensure_ascii": False, "separators": (",", ":")},
        {"ensure_ascii": True, "indent": 1},
    ]
    return list(dict.fromkeys(json.dumps(instance, **way) for way in ways))


def judged(case: Case, schema: Schema) -> Counter[str]:
    """Judge all its instances, assert that the verdicts are right, and count them."""
    verdicts: Counter[str] = Counter()
    for test in case.tests:
        expected = "valid" if test["valid"] else "rejected"
        what = (case.file, case.description, test["description"])
        for text in spellings(test["data"]):
            whole = judge(schema, [text])
            assert whole.verdict == expected, (*what, whole.error)
            single = judge(schema, cut(text, [1]))
            assert single.said == whole.said, what
        assert schema.is_valid(test["data"]) == test["valid"], what
        verdicts[expected] += 1
    return verdicts


@pytest.mark.bulk
def test_the_final_verdict_is_the_one_of_the_suite(suite: Path, remotes: dict[str, Any]) -> None:
    verdicts: Counter[str] = Counter()
    for case in cases(suite / "tests" / "draft2020-12"):
        verdicts += judged(case, Schema(case.schema, resources=remotes))
    assert verdicts.total() == 1_299


@pytest.mark.bulk
def test_no_early_rejection_is_contradicted_by_another_instance(
    suite: Path, remotes: dict[str, Any]
) -> None:
    refused_early = 0
    by_file: dict[str, list[Case]] = {}
    for case in cases(suite / "tests" / "draft2020-12"):
        by_file.setdefault(case.file, []).append(case)
    for file, its_cases in by_file.items():
        universe = Universe(json.dumps(test["data"]) for case in its_cases for test in case.tests)
        for case in its_cases:
            schema = Schema(case.schema, resources=remotes)
            alive = universe.alive(oracle(case.schema, resources=remotes))
            for reading in universe.readings:
                ruling = judge_fragments(schema, reading.said)
                what = (file, case.description, reading.text, ruling.error)
                valid = reading.beginnings[-1] in alive
                assert ruling.verdict == ("valid" if valid else "rejected"), what
                if ruling.seen is not None:
                    assert reading.beginnings[ruling.seen - 1] not in alive, what
                    refused_early += ruling.seen < len(reading.beginnings)
    assert refused_early > 1_000


@pytest.mark.bulk
def test_the_optional_tests_too(suite: Path, remotes: dict[str, Any]) -> None:
    """Big numbers, regular expressions of ECMAScript, old keywords … as jsonschema-rs has them."""
    tests = 0
    for case in cases(suite / "tests" / "draft2020-12" / "optional"):
        if case.file not in WITHOUT_REMOTES:
            asserted = case.file == "format-assertion.json"
            schema = Schema(case.schema, resources=remotes, formats=asserted)
            tests += judged(case, schema).total()
    assert tests > 150


@pytest.mark.bulk
def test_formats_are_asserted_where_that_is_asked_for(suite: Path) -> None:
    tests = 0
    for case in cases(suite / "tests" / "draft2020-12" / "optional" / "format"):
        tests += judged(case, Schema(case.schema, formats=True)).total()
    assert tests > 700


@pytest.mark.bulk
def test_formats_are_annotations_otherwise(suite: Path) -> None:
    annotations = 0
    for case in cases(suite / "tests" / "draft2020-12" / "optional" / "format"):
        schema = Schema(case.schema)
        validator = oracle(case.schema)
        for test in case.tests:
            text = json.dumps(test["data"])
            valid = validator.is_valid(test["data"])
            ruling = judge(schema, cut(text, [1]))
            assert ruling.verdict == ("valid" if valid else "rejected"), (case.description, text)
            annotations += valid and not test["valid"]
    assert annotations > 300
