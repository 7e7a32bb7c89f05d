"""The waterfall in a terminal, as one sees it."""

from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.events import ApprovalDecided, ApprovalRequested, ToolCallCompleted
from argstream.terminal.spans import Role, text_of
from argstream.terminal.waterfall import Timeline, draw
from argstream.terminal.waterfall.figures import CUT
from argstream.terminal.widths import rows_of, width
from tests.terminal.waterfall_calls import WORK, call, noted, timelines


def drawn(timeline: Timeline, columns: int = 79) -> list[str]:
    """What is on the screen; sentences are wrapped there."""
    rows = (row for line in draw(timeline, columns) for row in rows_of(line, columns))
    return [text_of(row).rstrip() for row in rows]


def picture(text: str) -> list[str]:
    """The lines of a picture as it stands in a test: without its margin, with slashes for cuts."""
    lines = text.replace("/", CUT).strip("\n").split("\n")
    return [line[8:].rstrip() for line in lines[:-1]]


class TestPictures:
    def test_an_agent_at_work(self) -> None:
        assert drawn(noted(*WORK)) == picture(
            """
                               sooner  0 s   2 s    4 s    6 s    8 s   10 s   12 s
                                       ┬─────┬──────┬──────┬──────┬─────┬──────┬───────
        ● read_file             0.5 s    ├✓
            path                0.3 s    ▕▌
            tool runs                     ▒▒ 0.2 s
            without argstream            ░░ 0.5 s of silence
        ● write_file            8.2 s       ├──────────────────────────✓
            path                7.9 s        ▊
            content             7.6 s         ▐████████████████████████▏
            tool runs                                                  ▒▒ 0.3 s
            without argstream               ░░░░░ 8.2 s of silence ░░░░░
        ● edit_file             2.0 s                                     ├──────✓
            old                 1.6 s                                      ▕█▋
            new                 1.0 s                                        ▕███
            asks a person                                                  0.8 s ┄┄┄
            tool runs                                                        0.1 s ▒▒
            without argstream                            2.0 s of silence ░░░░░░░░
        ● run_command           0.7 s                                      rejected ├─✗
            command             0.5 s                                                ▐✗
            without argstream                                      0.7 s of silence ░░░

        The first argument of write_file was visible 7.9 s before the last brace; in
        all, 11.4 s of silence were replaced.
        """
        )

    def test_at_forty_columns(self) -> None:
        assert drawn(noted(*WORK), 40) == picture(
            """
                       sooner  0 s        10 s
                               ┬──────────┬─────
        ● read_file     0.5 s  ├✓
          path          0.3 s  ▕▎
          tool                  ▒ 0.2 s
          silence              ░░
        ● write_file    8.2 s   ├─────────✓
          path          7.9 s    ▎
          content       7.6 s    ▕████████▍
          tool                      0.3 s ▒
          silence               ░░░░░░░░░░░
        ● edit_file     2.0 s              ├─✓
          old           1.6 s               ▋
          new           1.0 s               ▕▉
          asks                         0.8 s ┄┄
          tool                          0.1 s ▒▒
          silence                          ░░░
        ● run_command   0.7 s         rejected ✗
          command       0.5 s                  ✗
          silence                              ░

        The first argument of write_file was
        visible 7.9 s before the last brace; in
        all, 11.4 s of silence were replaced.
        """
        )

    def test_calls_of_a_millisecond_beside_calls_of_minutes(self) -> None:
        timeline = noted(
            call(0.0, "tick", [("n", 0.0005, 0.0005)], took=0.001, ran=0.002),
            call(1.0, "write_book", [("text", 1.0, 190.0)], took=200.0, ran=5.0),
        )
        assert drawn(timeline) == picture(
            """
                                   sooner  0:00  0:30  1:00   1:30  2:00   2:30  3:00
                                           ┬─────┬─────┬──────┬─────┬──────┬─────┬─────
        ● tick                       1 ms  ✓
            n                      0.5 ms  ▎
            tool runs                      ▒ 2 ms
            without argstream              ░ 1 ms of silence
        ● write_book           3 min 20 s  ├─────────────────────────────────────────✓
            text               3 min 19 s  ▐███████████████████████████████████████▉
            tool runs                                                          5.0 s ▒▒
            without argstream              ░░░░░░░░░░ 3 min 20 s of silence ░░░░░░░░░░

        The first argument of write_book was visible 3 min 19 s before the last brace;
        in all, 3 min 20 s of silence were replaced.
        """
        )

    def test_a_stream_without_times_is_measured_in_bytes(self) -> None:
        timeline = noted(call(0.6, "read_file", [("path", 0.2, 4.0)], took=9.5), by="bytes")
        assert drawn(timeline) == picture(
            """
                               sooner  0 kB     2 kB      4 kB     6 kB      8 kB
                                       ┬────────┬─────────┬────────┬─────────┬─────────
        ● read_file            9.5 kB    ├────────────────────────────────────────────✓
            path               9.3 kB     ▕█████████████████▉
            without argstream            ░░░░░░░░░░░░░ 9.5 kB of silence ░░░░░░░░░░░░░░

        The first argument was visible 9.3 kB before the last brace: 9.5 kB were shown
        that would have been waited for.
        """
        )

    def test_a_person_who_takes_an_hour_is_left_out(self) -> None:
        timeline = noted(
            call(0.2, "send", [("to", 0.1, 0.1), ("text", 0.1, 0.3)], took=0.3),
            [
                (0.5, ApprovalRequested("send", "send", {}, "digest", "a reason")),
                (4000.6, ApprovalDecided("send", "send", "approved")),
                (4001.0, ToolCallCompleted("send", "send", {}, None)),
            ],
        )
        assert drawn(timeline) == picture(
            """
                               sooner  0:00.0                   0:00.5        1:06:41.0
                                       ┬────────────────────────//────────────────────┬
        ● send                  0.3 s            ├──────────────✓
            to                  0.2 s                 ▎
            text                0.2 s                 ▐█████████▋
            asks a person                                       ┄┄┄ 1 h 6 min
            until its result                                      ▒▒▒▒▒▒▒ 0.4 s ▒▒▒▒▒▒▒
            without argstream                    ░░░░░░░░░░░░░░░░ 0.3 s of silence

        // 1 h 6 min are left out, in which no call was written and no tool is known to
        have run.
        The first argument was visible 0.2 s before the last brace: 0.3 s of silence
        were replaced.
        """
        )

    def test_sub_agents_and_free_text(self) -> None:
        timeline = noted(
            call(0.0, "Task", [("prompt", 0.1, 2.0)], took=2.4, ran=6.0),
            call(3.0, "Read", [("file", 0.1, 0.2)], took=0.3, parent="Task"),
            call(4.5, "sql", [("", 0.2, None)], took=1.0, kind="custom"),
        )
        assert drawn(timeline) == picture(
            """
                                 sooner  0 s       2 s        4 s        6 s        8 s
                                         ┬─────────┬──────────┬──────────┬──────────┬──
        ● Task                    2.4 s  ├────────────✓
            prompt                2.3 s  ▕██████████
            tool runs                                 ▒▒▒▒▒▒▒▒▒▒▒▒▒ 6.0 s ▒▒▒▒▒▒▒▒▒▒▒▒▒
            without argstream            ░░░░░░░░░░░░░░ 2.4 s of silence
          ● Read                  0.3 s                  ├─✓
              file                0.2 s                  ▕▋
              without argstream                          ░░░ 0.3 s of silence
        ● sql (custom)            1.0 s                          ├─────✓
            (text)                0.8 s                           ▕████▏
            without argstream                   1.0 s of silence ░░░░░░░

        The first argument of Task was visible 2.3 s before the last brace; in all, 3.7
        s of silence were replaced.
        """
        )

    def test_a_call_that_is_being_written_and_one_that_was_cut(self) -> None:
        timeline = noted(
            call(0.0, "cut", [("a", 0.5, 2.0), ("b", 2.5, None)], took=4.0, verdict="truncated"),
            call(4.0, "open", [("a", 0.5, None)], took=4.0, verdict=None),
        )
        assert drawn(timeline) == picture(
            """
                               sooner  0 s       1 s        2 s        3 s       4 s
                                       ┬─────────┬──────────┬──────────┬─────────┬─────
        ● cut                   4.0 s  ├─────────────── truncated ───────────────✗
            a                   3.5 s       ▐███████████████▍
            b                   1.5 s                            ▕███████████████✗
            without argstream          ░░░░░░░░░░░░ 4.0 s of silence ░░░░░░░░░░░░░
        ● open                                                      not complete ├────…
            a                                                                         …

        The first argument of cut was visible 3.5 s before the call was found cut off:
        4.0 s of silence were replaced.
        """
        )

    def test_many_calls_have_one_row_each(self) -> None:
        timeline = noted(
            *(
                call(number * 2.0, f"tool_{number}", [("a", 0.3, 0.5)], took=1.5, ran=0.4)
                for number in range(12)
            ),
            call(24.0, "bad", [("a", 0.5, None)], took=1.5, verdict="malformed"),
        )
        assert drawn(timeline, 60) == picture(
            """
                   sooner  0 s     5 s     10 s    15 s    20 s
                           ┬───────┬───────┬───────┬───────┬────────
        ● tool_0    1.5 s  ▐█✓▒
        ● tool_1    1.5 s     ▕█✓▒
        ● tool_2    1.5 s        ▕█✓▒
        ● tool_3    1.5 s           ├▐█✓
        ● tool_4    1.5 s              ├▐█✓
        ● tool_5    1.5 s                  ▕█✓▒
        ● tool_6    1.5 s                     ▕█✓▒
        ● tool_7    1.5 s                        ▕█✓▒
        ● tool_8    1.5 s                           ├▐█✓
        ● tool_9    1.5 s                              ├▐█✓
        ● tool_10   1.5 s                                  ▕█✓▒
        ● tool_11   1.5 s                                     ▕█✓▒
        ● bad       1.5 s                                        ├▐✗

        There are 13 calls, so each has one row: thin while only its
        name was known, solid from its first argument on, then its
        tool.
        The first argument of tool_0 was visible 1.2 s before the
        last brace; in all, 19.5 s of silence were replaced.
        """
        )


class TestAnyTimeline:
    @given(timelines(), st.integers(24, 220))
    def test_no_line_but_a_sentence_is_wider_than_the_screen(
        self, timeline: Timeline, columns: int
    ) -> None:
        texts = [text_of(line.spans) for line in draw(timeline, columns)]
        table = list(takewhile(bool, texts))
        assert len(table) >= 3
        assert all(width(text) <= columns for text in table)
        assert all(text.isprintable() for text in texts)

    @pytest.mark.parametrize("columns", [1, 10, 23])
    def test_a_screen_that_is_too_narrow_gets_a_picture_to_be_cut(self, columns: int) -> None:
        assert draw(noted(*WORK), columns) == draw(noted(*WORK), 24)

    def test_without_a_call_there_is_nothing_to_draw(self) -> None:
        assert draw(Timeline(), 80) == []


class TestRoles:
    def roles(self, timeline: Timeline) -> dict[str, Role]:
        return {span.text.strip(): span.role for line in draw(timeline, 79) for span in line.spans}

    def test_what_is_what_is_told_by_colour_too(self) -> None:
        roles = self.roles(noted(*WORK))
        assert roles["write_file"] == "tool"
        assert roles["content"] == "argument"
        assert roles["without argstream"] == "faint"
        assert roles["✓"] == "good"
        assert roles["✗"] == "bad"
        assert roles["┄┄┄"] == "warning"

    def test_what_a_model_wrote_is_made_visible_once(self) -> None:
        nasty = "\x1b⟦"
        shown = "\n".join(drawn(noted(call(0.0, nasty, [(nasty, 0.1, 0.2)], took=1.0))))
        assert shown.count("⟦ESC⟧⟦U+27E6⟧") == 2
        assert "\x1b" not in shown
