"""What a person sees, kept as text: the scenes in scenes/*.txt.

To accept what has changed, look at it, then run these tests with ARGSTREAM_ACCEPT_SCENES=1.
"""

import os
from difflib import unified_diff
from pathlib import Path

import pytest

from tests.terminal.scenes.playing import Script, play
from tests.terminal.scenes.scripts import SCRIPTS

FOLDER = Path(__file__).parent / "scenes"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_scene_looks_as_it_did(script: Script) -> None:
    file = FOLDER / f"{script.name}.txt"
    seen = play(script)
    if os.environ.get("ARGSTREAM_ACCEPT_SCENES"):
        file.write_text(seen, "utf-8")
    kept = file.read_text("utf-8") if file.exists() else ""
    if seen != kept:
        difference = "\n".join(
            unified_diff(kept.splitlines(), seen.splitlines(), "kept", "now", lineterm="")
        )
        pytest.fail(
            f"{file.name} is not what is seen now:\n{difference}\n"
            "If it is better now, run this test with ARGSTREAM_ACCEPT_SCENES=1.",
            pytrace=False,
        )


def test_every_file_of_a_scene_has_a_script() -> None:
    assert {file.stem for file in FOLDER.glob("*.txt")} == {script.name for script in SCRIPTS}
