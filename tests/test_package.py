"""The package as a whole: what can be imported, at what price, and that the documents are true."""

import doctest
import importlib
import pkgutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import argstream
import argstream.agent
import argstream.agent.toolkits
import argstream.assembly
import argstream.jsonstream
import argstream.models
import argstream.providers
import argstream.recording
import argstream.runs
import argstream.streaming
import argstream.terminal
import argstream.testing
import argstream.wire

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(argstream.__path__, prefix="argstream.")
)


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    "package",
    [
        argstream,
        argstream.providers,
        argstream.agent,
        argstream.agent.toolkits,
        argstream.assembly,
        argstream.models,
        argstream.jsonstream,
        argstream.recording,
        argstream.runs,
        argstream.streaming,
        argstream.terminal,
        argstream.testing,
        argstream.wire,
    ],
)
def test_all_names_what_is_there(package: object) -> None:
    names: list[str] = package.__all__  # type: ignore[attr-defined]
    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(package, name) is not None
    assert set(names) <= set(dir(package))


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is_for(name: str) -> None:
    assert importlib.import_module(name).__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'strem'"):
        argstream.strem  # type: ignore[attr-defined]  # noqa: B018


def test_the_version_is_that_of_the_installed_distribution() -> None:
    assert argstream.__version__ == version("argstream")


def test_import_argstream_loads_nothing_else() -> None:
    code = "import sys, argstream; print([m for m in sys.modules if m.startswith('argstream.')])"
    assert run_python(code) == "['argstream._lazy']"


def test_jsonstream_has_no_dependency() -> None:
    # -S: no site-packages, so that nothing but the standard library could be found.
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); import argstream.jsonstream"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("document", ["docs/jsonstream.md", "docs/streaming.md"])
def test_the_sessions_in_the_documents_are_true(document: str) -> None:
    results = doctest.testfile(
        str(ROOT / document),
        module_relative=False,
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS,
    )
    assert results.attempted > 0
    assert results.failed == 0
