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
import argstream.adapters
import argstream.agent
import argstream.agent.toolkits
import argstream.assembly
import argstream.clients
import argstream.jsonstream
import argstream.readers
import argstream.recording
import argstream.stores
import argstream.streaming
import argstream.terminal
import argstream.terminal.looks
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
        argstream.adapters,
        argstream.agent,
        argstream.agent.toolkits,
        argstream.assembly,
        argstream.clients,
        argstream.jsonstream,
        argstream.readers,
        argstream.recording,
        argstream.stores,
        argstream.streaming,
        argstream.terminal,
        argstream.terminal.looks,
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
def test_every_module_says_what_it_exports_and_why_it_is_there(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    for exported in module.__all__:
        assert hasattr(module, exported)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'strem'"):
        argstream.strem  # type: ignore[attr-defined]  # noqa: B018


def test_the_version_is_that_of_the_installed_distribution() -> None:
    assert argstream.__version__ == version("argstream")


def test_import_argstream_loads_nothing_else() -> None:
    code = "import sys, argstream; print([m for m in sys.modules if m.startswith('argstream.')])"
    assert run_python(code) == "[]"


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
