"""Tools that a provider defines itself, by the names under which a request asks for them."""

from typing import Final

__all__ = ["GEMINI_HOSTED", "HOSTED_TYPES", "NAMED_TYPES", "TOOLSETS", "UNNAMED_TYPES"]

HOSTED_TYPES: Final = frozenset(
    {
        # OpenAI Responses and Realtime; xAI and others that speak like it. Some of these are run
        # by the client (shell, computer). Their calls are of the kind "client".
        *("file_search", "web_search", "web_search_2025_08_26", "code_interpreter", "mcp"),
        *("web_search_preview", "web_search_preview_2025_03_11", "image_generation"),
        *("programmatic_tool_calling", "tool_search", "shell", "local_shell", "computer"),
        *("computer_use_preview", "x_search", "collections_search", "attachment_search"),
        *("browser_search", "document_search", "live_search"),
        # Anthropic: the tools of an MCP server that it talks to.
        "mcp_toolset",
        # Gemini Interactions
        *("google_search", "google_maps", "code_execution", "url_context", "mcp_server"),
        "retrieval",
    }
)
"""Types of tools that have no schema: calls to them are not checked against the list of tools."""

NAMED_TYPES: Final = {"apply_patch": "apply_patch"}
"""Types of tools that have no name in the request, and the name that their calls have."""

UNNAMED_TYPES: Final = {"computer_use": "Gemini’s computer use"}
"""Types of tools whose calls have names that the provider makes up."""

GEMINI_HOSTED: Final = frozenset(
    {
        *("retrieval", "fileSearch", "googleSearch", "googleSearchRetrieval", "googleMaps"),
        *("codeExecution", "enterpriseWebSearch", "parallelAiSearch", "exaAiSearch"),
        *("urlContext", "mcpServers"),
    }
)
"""The same in a ``Tool`` of Gemini, each a key of its own."""

_POINTING: Final = (
    *("double_click", "hold_key", "key", "left_click", "left_click_drag", "left_mouse_down"),
    *("left_mouse_up", "middle_click", "mouse_move", "right_click", "screenshot", "scroll"),
    *("triple_click", "type", "wait", "zoom"),
)
TOOLSETS: Final = {
    "computer_toolset_20260801": ("cursor_position", *_POINTING),
    "browser_toolset_20260801": (
        *("close_tab", "file_upload", "find", "form_input", "get_page_text", "hover"),
        *("javascript_exec", "list_tabs", "navigate", "new_tab", "read_console", "read_network"),
        *("read_page", "scroll_to", "switch_tab"),
        *_POINTING,
    ),
}
"""Anthropic's families of tools: the calls have the names of the members."""
