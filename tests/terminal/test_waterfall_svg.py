"""The waterfall as a picture: what is in the file, and what never is."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given

from argstream.events import ToolCallStarted
from argstream.sanitise import visible_line
from argstream.terminal.waterfall import Timeline, conclusion, svg
from tests.terminal.waterfall_calls import WORK, call, noted, timelines

SVG = "{http://www.w3.org/2000/svg}"
SHAPES = {"svg", "title", "desc", "style", "defs", "pattern", "g"}
SHAPES |= {"rect", "line", "path", "circle", "use", "text"}

PAYLOADS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]><script>alert(1)</script><![CDATA[",
    "</text></svg><svg onload=alert(1)>",
    "</style><script>alert(1)</script>",
    "</title></desc><foreignObject><body onload=alert(1)/></foreignObject>",
    "<!--><!ENTITY x SYSTEM 'file:///etc/passwd'>&x;",
    "javascript:alert(1)",
    "' onmouseover='alert(1)",
    "{}@import url(http://evil.example/x.css);",
    "&lt;script&gt;&#60;script&#62;",
    "\x00\x08\x0b\x1b]0;gone\x07\x9b2J\x7f",
    "\u202egnp.exe\u2066\u200b\ufeff",
    "\ud800 \udfff \ufffe \uffff \U000e0041",
    "\r\n\t\u2028\x85",
]


def parsed(picture: str) -> ET.Element:
    return ET.fromstring(picture)


def texts(picture: ET.Element) -> list[str]:
    return [element.text or "" for element in picture.iter(f"{SVG}text")]


class TestPicture:
    def test_it_says_what_the_lines_of_a_terminal_say(self) -> None:
        timeline = noted(*WORK)
        found = texts(parsed(svg(timeline, "turn.rec")))
        assert found[:2] == ["When each argument was visible", "turn.rec"]
        assert [text for text in found if text.endswith(" s")][:4] == ["0 s", "2 s", "4 s", "6 s"]
        assert found.count("path") == 2
        assert found.count("without argstream") == 4
        assert {"write_file", "8.2 s of silence", "rejected", "asks a person"} < set(found)
        assert " ".join(found[-1:]) == conclusion(timeline)

    def test_bars_stand_where_their_times_are(self) -> None:
        timeline = noted(call(0.0, "write", [("a", 0.0, 5.0), ("b", 5.0, 10.0)], took=10.0))
        bars = [
            bar for bar in parsed(svg(timeline)).iter(f"{SVG}rect") if bar.get("class") == "solid"
        ]
        (left, one), (right, other) = (
            (float(bar.get("x", "")), float(bar.get("width", ""))) for bar in bars
        )
        assert one == pytest.approx(other, abs=0.2)
        assert left + one == pytest.approx(right, abs=0.2)

    def test_who_cannot_see_it_is_told_what_it_shows(self) -> None:
        timeline = noted(call(0.0, "write", [("path", 0.5, 1.0)], took=2.0))
        picture = parsed(svg(timeline, "turn.rec"))
        assert picture.get("role") == "img"
        named = (picture.get("aria-labelledby") or "").split()
        told = {element.get("id"): element.text or "" for element in picture}
        title, description = (told[name] for name in named)
        assert title == "When each argument was visible: turn.rec"
        assert description.startswith("write: 0 ms to 2.0 s; path: 0.5 s to 1.0 s; without")
        assert description.endswith(conclusion(timeline))

    def test_it_is_for_light_and_for_dark_pages(self) -> None:
        style = parsed(svg(noted(*WORK))).find(f"{SVG}style")
        assert style is not None
        light, dark = (style.text or "").split("@media (prefers-color-scheme:dark)")
        for element in parsed(svg(noted(*WORK))).iter():
            for look in (element.get("class") or "").split():
                if f".{look}{{fill:#" in light or f".{look}{{stroke:#" in light:
                    assert f".{look}{{" in dark

    def test_a_time_that_is_left_out_is_shown_and_said(self) -> None:
        picture = svg(noted(call(0.0, "a", took=1.0), call(500.0, "b", took=1.0)))
        assert 'class="gap"' in picture
        assert "8 min 19 s are left out" in picture

    def test_of_many_calls_those_that_failed_are_marked(self) -> None:
        calls = [call(float(at), "tick", took=0.5, call_id=str(at)) for at in range(20)]
        picture = svg(noted(*calls, call(20.0, "bad", took=0.5, verdict="malformed")))
        assert picture.count('href="#waterfall-no"') == 1
        assert 'href="#waterfall-yes"' not in picture

    def test_without_a_call_it_is_an_empty_picture(self) -> None:
        assert texts(parsed(svg(Timeline())))[0] == "When each argument was visible"


class TestHostileNames:
    @pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
    def test_nothing_in_a_name_becomes_anything_but_text(self, payload: str) -> None:
        timeline = noted(call(0.0, payload, [(payload, 0.1, 0.2)], took=1.0, call_id=payload))
        document = svg(timeline, payload)
        document.encode()
        picture = parsed(document)
        elements = list(picture.iter())
        harmless = list(parsed(svg(noted(call(0.0, "x", [("x", 0.1, 0.2)], took=1.0)), "x")).iter())
        assert [element.tag for element in elements] == [element.tag for element in harmless]
        assert {element.tag.removeprefix(SVG) for element in elements} <= SHAPES
        attributes = [pair for element in elements for pair in element.attrib.items()]
        assert not [name for name, _ in attributes if name.startswith("on")]
        assert all(value.startswith("#waterfall-") for name, value in attributes if name == "href")
        assert visible_line(payload).startswith(texts(picture)[1].rstrip("…"))
        assert all(text.isprintable() for text in texts(picture))

    def test_it_needs_nothing_from_anywhere(self) -> None:
        document = svg(noted(*WORK))
        assert re.findall(r"[a-z]+://[^\"]*", document) == ["http://www.w3.org/2000/svg"]
        assert re.findall(r"url\(.*?\)", document) == ["url(#waterfall-silence)"]
        assert "<script" not in document
        assert "@import" not in document

    def test_a_long_name_is_cut_and_costs_nothing(self) -> None:
        timeline = noted(call(0.0, "n" * 300_000, [("長" * 300_000, 0.1, 0.2)], took=1.0))
        document = svg(timeline, "f" * 300_000)
        assert len(document) < 20_000
        assert any(text.endswith("…") and "長" in text for text in texts(parsed(document)))

    @given(timelines())
    def test_any_timeline_gives_a_picture_whose_bars_are_inside(self, timeline: Timeline) -> None:
        picture = parsed(svg(timeline))
        height, wide = (float(picture.get(name, "")) for name in ("height", "width"))
        for bar in picture.iter(f"{SVG}rect"):
            x, y = float(bar.get("x", "")), float(bar.get("y", ""))
            assert x >= 0
            assert x + float(bar.get("width", "")) <= wide
            assert 0 <= y <= height


def test_a_call_that_has_only_begun_can_be_drawn() -> None:
    timeline = Timeline()
    timeline.note(ToolCallStarted("c", 0, "write"), 5.0)
    assert "not complete" in texts(parsed(svg(timeline)))
