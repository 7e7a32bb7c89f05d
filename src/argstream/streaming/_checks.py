"""Combines the schemas of tools and a policy into one check for assembly."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, get_args

from argstream.checks import CallCheck, Check, OnAsk, Rejection
from argstream.errors import SchemaError, UsageError
from argstream.events import ArgumentsError, PolicyDecision
from argstream.history import CallKind
from argstream.jsonstream import Fragment
from argstream.policy import Policy
from argstream.validation import Schema, ToolSpec, tool_specs

_OUR_KINDS: Final = ("function", "custom")  # other kinds are tools that the provider defines
_MAX_LISTED: Final = 20


def combine_checks(
    tools: Iterable[object] | None = None,
    policy: Policy | None = None,
    on_ask: OnAsk | None = None,
) -> Check | None:
    if on_ask is not None and on_ask not in get_args(OnAsk):
        raise UsageError(f'on_ask must be "deny" or "report", not {on_ask!r}')
    if policy is not None and not isinstance(policy, Policy):
        raise UsageError(
            f"policy must be a Policy, not {type(policy).__name__}. "
            "Use Policy.load(path) to read one from a file"
        )
    if policy is not None and on_ask is None and policy.can_ask:
        raise UsageError(
            'the policy can answer "ask", and a stream has no approver. Pass on_ask="deny" to '
            'reject such calls, or on_ask="report" to complete them with the answer in '
            "ToolArgsCompleted.policy_decision"
        )
    if tools is None and policy is None:
        return None
    specs = None if tools is None else tool_specs(tools)
    return _Checks(specs, policy, on_ask or "report")


class _Checks:
    """Checks calls by the schemas of the known tools, and by a policy."""

    def __init__(
        self, tools: Iterable[ToolSpec] | None, policy: Policy | None, on_ask: OnAsk
    ) -> None:
        self._schemas = None if tools is None else {tool.name: _schema(tool) for tool in tools}
        self._policy = policy
        self._on_ask = on_ask

    def open(
        self, name: str, kind: CallKind, *, may_grow: bool = False
    ) -> CallCheck | ArgumentsError | None:
        by_schema = None
        if self._schemas is not None:
            by_schema = _open_schema(self._schemas, name, kind, may_grow=may_grow)
        if self._policy is None:
            return by_schema
        by_policy = self._policy.open(name, kind, may_grow=may_grow, on_ask=self._on_ask)
        if by_schema is None or by_policy is None:
            return by_policy if by_schema is None else by_schema
        if isinstance(by_schema, ArgumentsError):
            return _AllCallChecks([by_policy], by_schema)
        return _AllCallChecks([by_schema, by_policy], None)


def _open_schema(
    schemas: Mapping[str, Schema | None], name: str, kind: CallKind, *, may_grow: bool
) -> CallCheck | ArgumentsError | None:
    # A tool that the provider defines and the client runs ("client") need not be listed.
    if not name or not (kind in _OUR_KINDS or (kind == "client" and name in schemas)):
        return None
    if name in schemas:
        schema = schemas[name]
        if schema is not None and kind == "custom":
            message = f"the tool {name!r} takes JSON arguments, not free text"
            return ArgumentsError("schema", message, keyword="type")
        return None if schema is None else schema.check()
    if may_grow and any(known.startswith(name) for known in schemas):
        return None  # it is opened again when the arguments start
    close = get_close_matches(name[:100], schemas, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(islice(schemas, _MAX_LISTED)) + (" …" if len(schemas) > _MAX_LISTED else "")
    message = f"there is no tool {name[:100]!r}.{hint} Known tools: {listed or 'none'}"
    return ArgumentsError("unknown_tool", message)


class _AllCallChecks:
    """Several checks of one call. ``error`` is set if one has already rejected the tool name."""

    def __init__(self, checks: Sequence[CallCheck], error: ArgumentsError | None) -> None:
        self._checks = checks
        self._error = error

    @property
    def error(self) -> ArgumentsError | None:
        # The others come first: an agent may have tools that are not listed.
        errors = (check.error for check in self._checks if check.error is not None)
        return next(errors, self._error)

    @property
    def policy_decision(self) -> PolicyDecision | None:
        found = (check.policy_decision for check in self._checks)
        return next((decision for decision in found if decision is not None), None)

    def feed(self, fragments: Sequence[Fragment]) -> Rejection | None:
        """Return the rejection that needs the fewest fragments, then the fewest characters."""
        first: Rejection | None = None
        for check in self._checks:
            rejection = check.feed(fragments)
            if rejection is not None and (first is None or _order(rejection) < _order(first)):
                first = rejection
        return first

    def finish(self, arguments: dict[str, Any] | str, *, as_read: bool) -> ArgumentsError | None:
        errors = [check.finish(arguments, as_read=as_read) for check in self._checks]
        return next((error for error in errors if error is not None), None)


def _order(rejection: Rejection) -> tuple[int, int]:
    return rejection.seen, len(rejection.text or "")


def _schema(tool: ToolSpec) -> Schema | None:
    if tool.schema is None or isinstance(tool.schema, Schema):
        return tool.schema
    try:
        return Schema(tool.schema)
    except SchemaError as error:
        message = f"the schema of the tool {tool.name!r}: {error.message}"
        raise SchemaError(message, pointer=error.pointer, reason=error.reason) from None
