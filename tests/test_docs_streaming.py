"""The programs of the pages on streaming, checks and providers run as they are."""

import gc
import warnings
from pathlib import Path

import pytest

from argstream.testing import CallTool, MockProvider, Reply
from tests.documents import ROOT, Document, run_program
from tests.support.provider_rules import strict_provider

STREAMING = Document("docs/streaming.md")
VALIDATION = Document("docs/validation.md")
POLICY = Document("docs/policy.md")
PROVIDERS = Document("docs/providers.md")
TOOL_ORDER = Document("docs/tool-order.md")
PYDANTIC_AI = Document("docs/pydantic-ai.md")
OPENAI_AGENTS = Document("docs/openai-agents.md")
POEM = {"path": "poem.txt", "content": "Roses are red."}
CREATE = {"path": "poem.txt", "mode": "create", "content": "Roses are red."}

EVENTS = STREAMING.block("case ToolCallStarted")
READERS = STREAMING.block("live_calls()")
TYPED = STREAMING.block("typed(WriteFile")
SCHEMA = VALIDATION.block("def ask(prompt)")
MANY = VALIDATION.block("make_check(tools)")
FORMATS = VALIDATION.block("formats=True")
ON_ASK = VALIDATION.block('on_ask="report"')
LOADED = POLICY.block("Policy.load")
IN_PYTHON = POLICY.block("policy.decide")
USAGE = PROVIDERS.block("events.usage")
LINT = TOOL_ORDER.block("lint(tool_specs(tools))")
MODEL = TOOL_ORDER.block("class WriteFile")
ORDERED = TOOL_ORDER.block('"overwrite": {"type"')
FEED = STREAMING.block("feed.CallStarted")
LIVE_PYDANTIC_AI = PYDANTIC_AI.block("events.usage")
DENY_PYDANTIC_AI = PYDANTIC_AI.block("run_stream_events", "policy=policy")
HANDLER = PYDANTIC_AI.block("event_stream_handler")
LIVE_OPENAI_AGENTS = OPENAI_AGENTS.block("events.usage")
DENY_OPENAI_AGENTS = OPENAI_AGENTS.block("policy=policy")


class Programs:
    """Runs programs in this process, against a mock provider, and returns what they print."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def run(self, *parts: str, provider: MockProvider | None = None) -> str:
        if provider is not None:
            self._monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.anthropic_url)
            self._monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
        # The programs leave their clients to the end of the process, as those of the SDKs do.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            exec(compile("\n".join(parts), "program", "exec"), {"__name__": "__main__"})
            gc.collect()
        return self._capsys.readouterr().out


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Programs:
    return Programs(monkeypatch, capsys)


@pytest.mark.parametrize(
    ("document", "covered"),
    [
        (STREAMING, {EVENTS, READERS, TYPED, FEED}),
        (VALIDATION, {SCHEMA, MANY, FORMATS, ON_ASK}),
        (POLICY, {LOADED, IN_PYTHON}),
        (PROVIDERS, {USAGE}),
        (TOOL_ORDER, {LINT, MODEL, ORDERED}),
        (PYDANTIC_AI, {LIVE_PYDANTIC_AI, DENY_PYDANTIC_AI, HANDLER}),
        (OPENAI_AGENTS, {LIVE_OPENAI_AGENTS, DENY_OPENAI_AGENTS}),
        (Document("docs/jsonstream.md"), set()),
    ],
)
def test_every_python_block_is_run_here_or_is_a_doctest(
    document: Document, covered: set[str]
) -> None:
    assert {text for text in document.programs if not text.startswith(">>>")} == covered


def test_index_lists_every_page() -> None:
    index = Document("docs/index.md").text
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert [page for page in sorted(pages) if f"({page})" not in index] == []


def test_events_show_the_call_while_it_is_written(programs: Programs) -> None:
    with strict_provider(Reply("Sure.", CallTool("write_file", POEM))) as provider:
        printed = programs.run(EVENTS, provider=provider)
    assert printed == f"Sure.\nwrite_file: poem.txtRoses are red.\ncomplete: {POEM}\n"


def test_readers_wait_for_text_and_items(programs: Programs) -> None:
    edit = CallTool("edit_file", {"path": "README", "edits": ["poem.txt"]})
    with strict_provider(Reply(CallTool("write_file", POEM), edit)) as provider:
        printed = programs.run(READERS, provider=provider)
    end = "\ncomplete, with 2 arguments\n"
    assert printed == (
        f"write_file poem.txt\nRoses are red.{end}edit_file README\n+ poem.txt\n{end}"
    )


def test_typed_arguments_are_available_as_they_settle(programs: Programs) -> None:
    with strict_provider(Reply(CallTool("write_file", POEM))) as provider:
        printed = programs.run(TYPED, provider=provider).splitlines()
    assert printed[:3] == ["['path']", "poem.txt", "content is not complete yet"]
    assert printed[3:] == ["path='poem.txt' content='Roses are red.'"]


def test_schema_rejects_a_wrong_mode_early_and_one_check_serves_many_streams(
    programs: Programs,
) -> None:
    wrong = Reply(CallTool("write_file", CREATE | {"mode": "replace"}))
    right = Reply(CallTool("write_file", CREATE))
    with strict_provider([wrong, right, right]) as provider:
        rejected, *paths = programs.run(SCHEMA, MANY, provider=provider).splitlines()
    assert rejected.startswith("write_file was rejected at character 3")
    assert paths == ["poem.txt", "poem.txt"]
    assert programs.run(FORMATS) == "True False\n"


def test_reported_ask_is_approved_by_the_program(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda _: "y")
    right = Reply(CallTool("write_file", CREATE))
    with strict_provider([right, right]) as provider:
        printed = programs.run(SCHEMA, ON_ASK, provider=provider)
    assert printed == f"run write_file with {CREATE}\nrun write_file\n"


def test_policy_file_denies_a_path_outside_the_project(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("policy.toml").write_text(POLICY.block("[[rules]]", language="toml"), "utf-8")
    outside = Reply(CallTool("write_file", POEM | {"path": "../x"}))
    with strict_provider([outside, Reply(CallTool("write_file", POEM))]) as provider:
        printed = programs.run(LOADED, provider=provider)
        assert programs.run(LOADED, provider=provider) == "write_file: ask\n"
    assert printed.startswith("write_file must not run: ")
    assert "Write only inside the project." in printed
    assert programs.run(IN_PYTHON).startswith("deny rule 1 ('path',) Write only below /srv.")


def test_usage_is_printed_after_the_stream(programs: Programs) -> None:
    with strict_provider(Reply("Roses are red.")) as provider:
        text, usage = programs.run(USAGE, provider=provider).splitlines()
    assert text == "Roses are red."
    assert usage.endswith("output tokens")
    assert "None" not in usage


def test_lint_suggests_an_order_and_the_reordered_schemas_have_it(programs: Programs) -> None:
    printed = programs.run(LINT)
    assert printed.startswith("order write_file ('path', 'content')\n")
    assert programs.run(MODEL) == "['path', 'overwrite', 'content']\n"
    assert programs.run(ORDERED, "print(list(schema['properties']))") == programs.run(MODEL)


WRITE, OUTSIDE = (CallTool("write_file", POEM | {"path": path}) for path in ("/srv/poem", "/etc/x"))
WRITTEN = "write_file: /srv/poemRoses are red.\nwrote 14 characters\nDone.\n"


def test_pydantic_ai_shows_the_file_as_it_is_written_and_stops_a_denied_call(
    programs: Programs,
) -> None:
    with strict_provider([Reply(WRITE), Reply("Done.")]) as provider:
        printed = programs.run(LIVE_PYDANTIC_AI, provider=provider)
    assert printed.startswith(WRITTEN)
    assert printed.endswith(" output tokens\n")
    with strict_provider([Reply(OUTSIDE)]) as provider:
        assert "denied by the policy" in programs.run(DENY_PYDANTIC_AI, provider=provider)
        assert len(provider.requests) == 1


def test_handler_of_pydantic_ai_shows_arguments_and_raises_for_a_denied_call(
    programs: Programs,
) -> None:
    with strict_provider([Reply(WRITE), Reply("Done.")]) as provider:
        printed = programs.run(HANDLER, provider=provider)
    assert printed == "/srv/poemRoses are red.\nDone.\n"
    with (
        strict_provider([Reply(OUTSIDE)]) as provider,
        pytest.raises(PermissionError, match="denied by the policy"),
    ):
        programs.run(HANDLER, provider=provider)


def test_openai_agents_shows_the_file_as_it_is_written_and_stops_a_denied_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    with strict_provider([Reply(WRITE), Reply("Done.")]) as provider:
        printed = run_program(LIVE_OPENAI_AGENTS, tmp_path, provider)
    assert printed.startswith(WRITTEN)
    assert printed.endswith(" output tokens\n")
    with strict_provider([Reply(OUTSIDE)]) as provider:
        assert "denied by the policy" in run_program(DENY_OPENAI_AGENTS, tmp_path, provider)
        assert len(provider.requests) == 1


def test_feed_translates_the_events_of_a_framework(programs: Programs) -> None:
    printed = programs.run(FEED)
    assert printed == "poem.txtRoses are red.\ncomplete: ['path', 'content']\n"
