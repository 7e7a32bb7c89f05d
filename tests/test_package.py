"""The package as a whole: imports, their cost, docstrings, and examples in the docs."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import argstream

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(argstream.__path__, prefix="argstream.")
)
PACKAGES = [
    *("", ".agent", ".agent.toolkits", ".assembly", ".jsonstream", ".models", ".providers"),
    *(".recording", ".runs", ".streaming", ".terminal", ".testing", ".wire"),
]


@pytest.mark.parametrize("name", PACKAGES)
def test_all_lists_existing_names(name: str) -> None:
    package = importlib.import_module(f"argstream{name}")
    names: list[str] = package.__all__
    assert len(set(names)) == len(names)
    assert [name for name in names if getattr(package, name) is None] == []
    assert set(names) <= set(dir(package))


@pytest.mark.parametrize("name", MODULES)
def test_module_has_a_docstring_and_its_examples_run(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    if ">>>" in inspect.getsource(module):
        assert doctest.testmod(module).failed == 0


def test_unknown_name_raises_attribute_error_and_version_is_installed() -> None:
    with pytest.raises(AttributeError, match="no attribute 'strem'"):
        argstream.strem  # type: ignore[attr-defined]  # noqa: B018
    assert argstream.__version__ == version("argstream")


def test_import_argstream_loads_nothing_else() -> None:
    code = "import sys, argstream; print([m for m in sys.modules if m.startswith('argstream.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['argstream._lazy']"


def test_jsonstream_has_no_dependency() -> None:
    # -S: without site-packages, only the standard library can be imported.
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); import argstream.jsonstream"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_only_the_mock_provider_and_the_proxy_need_aiohttp() -> None:
    code = """
import sys
sys.modules["aiohttp"] = None
from argstream.testing import Reply, chunkings, parse_fault
for module, name in (("testing", "MockProvider"), ("recording.proxy", "RecordingProxy")):
    try:
        exec(f"from argstream.{module} import {name}")
    except ImportError as error:
        print(type(error).__name__, error.extra, error)
for sys.argv in (["argstream", "mock"], ["argstream", "record", "--proxy", "http://localhost"]):
    from argstream.cli import main
    try:
        print(main())
    except SystemExit as status:
        print(status.code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("MissingExtraError http the mock provider needs the extra 'http'")
    assert lines[1].startswith("MissingExtraError http the recording proxy needs the extra 'http'")
    assert lines[2:] == ["2", "2"]
    assert done.stderr.count("argstream: the ") == done.stderr.count("'http'") == 2


@pytest.mark.parametrize("document", ["docs/jsonstream.md", "docs/streaming.md"])
def test_sessions_in_the_docs_run(document: str) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    path = str(ROOT / document)
    results = doctest.testfile(path, module_relative=False, optionflags=flags)
    assert results.attempted > 0
    assert results.failed == 0
