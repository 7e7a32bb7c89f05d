"""Approvals in the terminal: somebody sees what is to run, and says yes, no, or what instead."""

from argstream.terminal.approving.approver import TerminalApprover

__all__ = ["TerminalApprover"]
