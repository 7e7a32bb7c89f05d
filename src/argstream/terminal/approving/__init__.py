"""Approvals in the terminal: somebody sees what is to run, and says yes, no, or what instead."""

from argstream.terminal.approving.approver import TerminalApprover
from argstream.terminal.approving.changes import argument_changes

__all__ = ["TerminalApprover", "argument_changes"]
