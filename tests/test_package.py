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
from argstream.errors import MissingExtraError

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


@pytest.mark.parametrize("module", ["argstream.testing._mock", "argstream.recording.proxy"])
def test_missing_aiohttp_names_the_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; sys.modules['aiohttp'] = None; import argstream.testing, argstream.cli"
    subprocess.run([sys.executable, "-c", code], check=True)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[http\]'"):
        importlib.import_module(module)


@pytest.mark.parametrize("document", ["docs/jsonstream.md", "docs/streaming.md"])
def test_sessions_in_the_docs_run(document: str) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    path = str(ROOT / document)
    results = doctest.testfile(path, module_relative=False, optionflags=flags)
    assert results.attempted > 0
    assert results.failed == 0
