"""Combines the schemas of tools and a policy into the one check that assembly gets."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final, get_args

from argstream.checks import CallCheck, Check, OnAsk, Rejection
from argstream.errors import SchemaError, UsageError
from argstream.events import ArgumentsError, PolicyDecision
from argstream.history import CallKind
from argstream.jsonstream import Fragment
from argstream.policy import Policy, PolicyCheck
from argstream.validation import Schema, ToolSpec, tool_specs

_OURS: Final = ("function", "custom")  # other kinds are tools that the provider defines
_LISTED: Final = 20


def combine_checks(
    tools: Iterable[object] | None = None,
    policy: Policy | None = None,
    on_ask: OnAsk | None = None,
) -> Check | None:
    if on_ask is not None and on_ask not in get_args(OnAsk):
        raise UsageError(f'on_ask must be "deny" or "report", not {on_ask!r}')
    checks: list[Check] = []
    if tools is not None:
        checks.append(_SchemaChecks(tool_specs(tools)))
    if policy is not None:
        if not isinstance(policy, Policy):
            raise UsageError(
                f"policy is a Policy, not {type(policy).__name__}: Policy.load(path) reads one"
            )
        if on_ask is None and policy.can_ask:
            raise UsageError(
                'the policy can answer "ask", and a stream has no approver. Pass on_ask="deny" to '
                'reject such calls, or on_ask="report" to complete them with the answer in '
                "ToolArgsCompleted.policy_decision"
            )
        checks.append(_PolicyChecks(policy, on_ask or "report"))
    return checks[0] if len(checks) == 1 else _AllChecks(checks) if checks else None


class _SchemaChecks:
    """Checks calls by the schemas of the known tools."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self._schemas = {tool.name: _schema(tool) for tool in tools}

    def open(
        self, name: str, kind: CallKind, *, may_grow: bool = False
    ) -> CallCheck | ArgumentsError | None:
        """Return the check of a call to this tool, or why there must be no such call.

        A tool that the provider defines and the client runs need not be listed. If one of that name
        is, its schema applies.
        """
        if not name or (kind not in _OURS and kind != "client"):
            return None
        if kind == "client" and name not in self._schemas:
            return None
        if name in self._schemas:
            schema = self._schemas[name]
            if schema is not None and kind == "custom":
                message = f"{name!r} takes arguments, not free text"
                return ArgumentsError("schema", message, keyword="type")
            return None if schema is None else schema.check()
        if may_grow and any(known.startswith(name) for known in self._schemas):
            return None  # it is opened again when the arguments start
        return ArgumentsError("unknown_tool", self._unknown(name))

    def _unknown(self, name: str) -> str:
        known = list(self._schemas)
        close = get_close_matches(name[:100], known, n=1)
        hint = f": did you mean {close[0]!r}?" if close else ";"
        listed = ", ".join(known[:_LISTED]) + (" …" if len(known) > _LISTED else "")
        return f"there is no tool {name[:100]!r}{hint} known are {listed or 'none'}"


class _PolicyChecks:
    """Checks by a policy, and handles its ``ask`` as ``on_ask`` says."""

    def __init__(self, policy: Policy, on_ask: OnAsk) -> None:
        self._policy = policy
        self._on_ask = on_ask

    def open(self, name: str, kind: CallKind, *, may_grow: bool = False) -> PolicyCheck | None:
        return self._policy.open(name, kind, may_grow=may_grow, on_ask=self._on_ask)


class _AllChecks:
    """Several checks: the first rejection counts."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = checks

    def open(self, name: str, kind: CallKind, *, may_grow: bool = False) -> CallCheck | None:
        found: list[CallCheck] = []
        error: ArgumentsError | None = None
        for one in self._checks:
            opened = one.open(name, kind, may_grow=may_grow)
            if isinstance(opened, ArgumentsError):
                error = error or opened
            elif opened is not None:
                found.append(opened)
        if error is None and len(found) < 2:
            return found[0] if found else None
        return _AllCallChecks(found, error)


class _AllCallChecks:
    """Several checks of one call. One may have rejected it for its name alone."""

    def __init__(self, checks: Sequence[CallCheck], error: ArgumentsError | None) -> None:
        self._checks = checks
        self._error = error

    @property
    def error(self) -> ArgumentsError | None:
        errors = (one.error for one in self._checks if one.error is not None)
        return next(errors, self._error)  # an agent may have tools that are not listed

    @property
    def policy_decision(self) -> PolicyDecision | None:
        found = (one.policy_decision for one in self._checks)
        return next((decision for decision in found if decision is not None), None)

    def feed(self, fragments: Sequence[Fragment]) -> Rejection | None:
        """Return the rejection that needs the fewest fragments, then the fewest characters."""
        first: Rejection | None = None
        for check in self._checks:
            rejection = check.feed(fragments)
            if rejection is not None and (first is None or _place(rejection) < _place(first)):
                first = rejection
        return first

    def finish(self, arguments: dict[str, Any] | str, *, as_read: bool) -> ArgumentsError | None:
        words = [one.finish(arguments, as_read=as_read) for one in self._checks]
        return next((error for error in words if error is not None), None)


def _place(rejection: Rejection) -> tuple[int, int]:
    return rejection.seen, len(rejection.text or "")


def _schema(tool: ToolSpec) -> Schema | None:
    if tool.schema is None or isinstance(tool.schema, Schema):
        return tool.schema
    try:
        return Schema(tool.schema)
    except SchemaError as error:
        message = f"the schema of the tool {tool.name!r}: {error.message}"
        raise SchemaError(message, pointer=error.pointer, reason=error.reason) from None
