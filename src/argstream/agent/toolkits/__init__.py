"""Tools that many agents need: the files of one folder, and a shell in it."""

from argstream.agent.toolkits._files import file_tools, text_reader
from argstream.agent.toolkits._shell import shell_tool

__all__ = ["file_tools", "shell_tool", "text_reader"]
