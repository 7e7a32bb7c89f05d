"""conformance/json_schema_test_suite, draft 2020-12: checked while the instance is written.

Every instance is fed whole and one character at a time, in several spellings. The final verdict is
``valid`` of the suite. To find wrong early rejections, all instances of a file are also tried on
each of its schemas: no valid instance may have a rejected prefix.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from argstream.testing import cut
from argstream.validation import Schema
from tests.validation.checking import check_fragments, check_text, oracle
from tests.validation.universes import Universe

pytestmark = pytest.mark.bulk


class Case(NamedTuple):
    file: str
    description: str
    schema: Any
    tests: list[dict[str, Any]]


@pytest.fixture(scope="session")
def remotes(json_schema_suite: Path) -> dict[str, Any]:
    """Return the documents that its schemas refer to; nothing is ever fetched."""
    folder = json_schema_suite / "remotes"
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.json"))}
    return {f"http://localhost:1234/{name}": _load(path) for name, path in files.items()}


def _load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def cases(suite: Path, part: str = "") -> Iterator[Case]:
    for path in sorted((suite / "tests" / "draft2020-12" / part).glob("*.json")):
        for case in _load(path):
            yield Case(path.name, case["description"], case["schema"], case["tests"])


def spellings(instance: Any) -> set[str]:
    """Write an instance in some of the ways that JSON allows."""
    compact = json.dumps(instance, ensure_ascii=False, separators=(",", ":"))
    return {compact, json.dumps(instance, indent=1)}


def checked(case: Case, schema: Schema) -> Counter[str]:
    """Assert the verdicts on all its instances, and count them."""
    verdicts: Counter[str] = Counter()
    for test in case.tests:
        expected = "valid" if test["valid"] else "rejected"
        place = (case.file, case.description, test["description"])
        for text in spellings(test["data"]):
            whole = check_text(schema, [text])
            assert whole.verdict == expected, (*place, whole.error)
            assert check_text(schema, cut(text, [1])).stable == whole.stable, place
        assert schema.is_valid(test["data"]) == test["valid"], place
        verdicts[expected] += 1
    return verdicts


def test_final_verdict_is_as_in_the_suite(json_schema_suite: Path, remotes: dict[str, Any]) -> None:
    verdicts: Counter[str] = Counter()
    for case in cases(json_schema_suite):
        verdicts += checked(case, Schema(case.schema, resources=remotes))
    assert verdicts.total() == 1_299


def test_no_early_rejection_is_contradicted_by_another_instance(
    json_schema_suite: Path, remotes: dict[str, Any]
) -> None:
    rejected_early = 0
    by_file: dict[str, list[Case]] = {}
    for case in cases(json_schema_suite):
        by_file.setdefault(case.file, []).append(case)
    for file, its_cases in by_file.items():
        universe = Universe(json.dumps(test["data"]) for case in its_cases for test in case.tests)
        for case in its_cases:
            schema = Schema(case.schema, resources=remotes)
            alive = universe.alive(oracle(case.schema, resources=remotes))
            for reading in universe.readings:
                outcome = check_fragments(schema, reading.batches)
                place = (file, case.description, reading.text, outcome.error)
                valid = reading.prefixes[-1] in alive
                assert outcome.verdict == ("valid" if valid else "rejected"), place
                if outcome.seen is not None:
                    assert reading.prefixes[outcome.seen - 1] not in alive, place
                    rejected_early += outcome.seen < len(reading.prefixes)
    assert rejected_early > 1_000


def test_optional_tests(json_schema_suite: Path, remotes: dict[str, Any]) -> None:
    """Big numbers, regular expressions of ECMAScript, old keywords … as jsonschema-rs has them."""
    tests = 0
    for case in cases(json_schema_suite, "optional"):
        if case.file != "cross-draft.json":  # needs remotes that the copy of the suite lacks
            asserted = case.file == "format-assertion.json"
            schema = Schema(case.schema, resources=remotes, formats=asserted)
            tests += checked(case, schema).total()
    assert tests > 150


def test_formats_are_asserted_on_request_and_annotations_otherwise(json_schema_suite: Path) -> None:
    tests = annotations = 0
    for case in cases(json_schema_suite, "optional/format"):
        tests += checked(case, Schema(case.schema, formats=True)).total()
        schema, validator = Schema(case.schema), oracle(case.schema)
        for test in case.tests:
            text = json.dumps(test["data"])
            valid = validator.is_valid(test["data"])
            outcome = check_text(schema, cut(text, [1]))
            assert outcome.verdict == ("valid" if valid else "rejected"), (case.description, text)
            annotations += valid and not test["valid"]
    assert tests > 700
    assert annotations > 300
