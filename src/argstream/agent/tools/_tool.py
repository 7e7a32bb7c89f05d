r"""Tools are functions: ``@tool`` makes one of a function, a generator or a method.

::

    @tool(timeout=30)
    def search(query: str, limit: int = 10) -> list[str]:
        '''Search the archive.

        :param query: words that must all occur
        '''

Name, description and schema come of the signature, its types and the docstring. It can still be
called as the function that it is.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from functools import cached_property, update_wrapper
from types import FunctionType, MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from msgspec import Struct

from argstream.agent.tools._binding import bind, bind_early, problem_of
from argstream.agent.tools._execute import Bound, execute
from argstream.agent.tools._signature import ToolSignature, is_method, read_function
from argstream.agent.tools._streamed import TextFeed, ToolContext
from argstream.assembly import Call
from argstream.errors import UsageError
from argstream.policy import Policy
from argstream.validation import ToolSpec

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")
Owner = TypeVar("Owner")


class _Options(Struct, frozen=True, kw_only=True):
    name: str | None = None
    description: str | None = None
    requires_confirmation: bool | Policy = False
    timeout: float | None = None
    eager_input_streaming: bool | None = None
    idempotent: bool = False

    def check(self) -> None:
        """Raise UsageError for a value of the wrong type: ``@tool("x")`` is easily written."""
        if not isinstance(self.name, str | None):
            raise _wrong("name", "a str or None")
        if not isinstance(self.requires_confirmation, bool | Policy):
            raise _wrong("requires_confirmation", "True, False or a Policy")
        timeout: Any = self.timeout
        if timeout is not None and not (
            isinstance(timeout, int | float)
            and not isinstance(timeout, bool)
            and 0 < timeout < math.inf
        ):
            raise _wrong("timeout", "a number of seconds greater than 0, or None")
        if self.eager_input_streaming not in (True, False, None):
            raise _wrong("eager_input_streaming", "True, False or None")
        if self.idempotent not in (True, False):
            raise _wrong("idempotent", "True or False")
        if not isinstance(self.description, str | None):
            raise _wrong("description", "a str or None")


class Tool:
    """A function that a model may call."""

    __name__: str

    def __init__(self, function: Callable[..., Any], options: _Options) -> None:
        options.check()
        update_wrapper(cast("Any", self), function, updated=())
        self.function = function  # what is run
        self._options = options
        if not (isinstance(function, MethodType) or is_method(function)):
            _ = self._face  # raises if the function cannot be a tool; methods are read when used

    @cached_property
    def _face(self) -> ToolSignature:
        options = self._options
        return read_function(self.function, name=options.name, description=options.description)

    @property
    def name(self) -> str:
        """The name that models call it by."""
        return self._face.spec.name

    @property
    def description(self) -> str:
        """The description that models read."""
        return self._face.spec.description

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments; a ``Streamed`` text is a string in it."""
        return self._face.schema

    @property
    def spec(self) -> ToolSpec:
        """The same, for ``stream()`` and ``typed()``."""
        return self._face.spec

    @property
    def streamed(self) -> str | None:
        """The name of its ``Streamed`` parameter, if it has one."""
        return self._face.streamed

    @property
    def requires_confirmation(self) -> bool | Policy:
        """Whether every call needs an approval, or a policy that says which."""
        return self._options.requires_confirmation

    @property
    def timeout(self) -> float | None:
        """How many seconds a call may take, counted from its start."""
        return self._options.timeout

    @property
    def eager_input_streaming(self) -> bool | None:
        """Whether to ask the provider not to buffer its input; None: the provider's default."""
        return self._options.eager_input_streaming

    @property
    def idempotent(self) -> bool:
        """Whether a call may run again, with the same key, after a crash interrupted it."""
        return self._options.idempotent

    def problem(self, text: str) -> str | None:
        """Return why these arguments do not fit, worded for a model; None if they do."""
        return problem_of(self._face, text)

    def bind(self, text: str) -> Bound:
        """Parse and validate exactly this text. Raises UsageError if it does not fit."""
        return bind(self._face, text)

    def bind_early(self, call: Call, feed: TextFeed) -> Bound | None:
        """Bind a call whose ``Streamed`` text is open; None if other arguments are open too."""
        return bind_early(self._face, call, feed)

    async def execute(self, bound: Bound, context: ToolContext) -> Any:
        """Run it once, and return its result as JSON data.

        Raises what the function raises; ``TimeoutError`` if it took too long; ``ToolError`` if it
        tried to end the program, or its result cannot be written as JSON.
        """
        return await execute(
            self.function,
            bound,
            context,
            context_parameter=self._face.context,
            timeout=self.timeout,
        )

    def __repr__(self) -> str:
        return f"<Tool {self.function.__name__!r}>"


class FunctionTool(Tool, Generic[Parameters, Returned]):
    """A tool that can be called like the function that it was made of."""

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        """Call the function itself, without validation and timeout."""
        returned: Returned = self.function(*args, **kwargs)
        return returned

    @overload
    def __get__(
        self, owner: None, kind: type | None = None
    ) -> "FunctionTool[Parameters, Returned]": ...
    @overload
    def __get__(
        self: "FunctionTool[Concatenate[Owner, Bare], Returned]",
        owner: Owner,
        kind: type | None = None,
    ) -> "FunctionTool[Bare, Returned]": ...
    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        """Return the tool of an object, if it was made of a method."""
        if owner is None:
            return self
        return FunctionTool(MethodType(self.function, owner), self._options)


Bare = ParamSpec("Bare")


@overload
def tool(function: Callable[Parameters, Returned], /) -> FunctionTool[Parameters, Returned]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    requires_confirmation: bool | Policy = False,
    timeout: float | None = None,
    eager_input_streaming: bool | None = None,
    idempotent: bool = False,
) -> Callable[[Callable[Parameters, Returned]], FunctionTool[Parameters, Returned]]: ...
def tool(
    function: Callable[Parameters, Returned] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    requires_confirmation: bool | Policy = False,
    timeout: float | None = None,
    eager_input_streaming: bool | None = None,
    idempotent: bool = False,
) -> Any:
    """Turn a function, an async function, a generator or a method into a tool.

    Use it as ``@tool`` or with options, as in ``@tool(timeout=30)``. The result can still be called
    like the original function.

    Args:
        function: The function to decorate. Its signature and types define the schema.
        name: The name that models call it by. Default: the name of the function.
        description: The description that models read. Default: the docstring of the function.
        requires_confirmation: ``True`` if a person must approve every call, or a ``Policy`` whose
            rules say which calls.
        timeout: How many seconds a call may take, counted from its start. Default: no limit.
        eager_input_streaming: Whether to ask the provider not to buffer the input of this tool
            (Anthropic). Default: the provider's default.
        idempotent: A call that was interrupted by a crash may run again, with the same idempotency
            key.

    Raises:
        UsageError: If an option has a wrong type, or the object cannot be a tool.

    """
    options = _Options(
        name=name,
        description=description,
        requires_confirmation=requires_confirmation,
        timeout=timeout,
        eager_input_streaming=eager_input_streaming,
        idempotent=idempotent,
    )
    if function is None:
        return lambda given: _made(given, options)
    return _made(function, options)


def as_tool(given: object) -> Tool:
    """Return the tool for a tool or a plain function."""
    if isinstance(given, MethodType) and isinstance(given.__func__, FunctionTool):
        given = given.__func__.__get__(given.__self__)  # of a classmethod
    found = given if isinstance(given, Tool) else _made(given, _Options())
    if is_method(found.function):
        raise UsageError(
            f"{found.function.__qualname__} is a method: give that of an object, "
            f"an_object.{found.function.__name__}"
        )
    _ = found.spec  # raises if the method cannot be a tool
    return found


def _made(function: Any, options: _Options) -> FunctionTool[..., Any]:
    if isinstance(function, staticmethod | classmethod):
        raise UsageError(f"put @tool below @{type(function).__name__}, not above it")
    inner = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(inner, Tool):
        raise UsageError(f"{inner.function.__name__}() is a tool already: @tool is there twice")
    if not isinstance(inner, FunctionType):
        raise UsageError(f"{_described(function)} cannot be a tool: {_instead(function)}")
    if isinstance(inspect.unwrap(inner, stop=_is_tool), Tool):
        raise UsageError(
            f"{inner.__name__}() has @tool below another decorator, where its options are lost: put"
            " @tool above all other decorators"
        )
    return FunctionTool(function, options)


def _is_tool(given: object) -> bool:
    return isinstance(given, Tool)


def _described(given: object) -> str:
    if isinstance(given, type):
        return f"the class {given.__name__}"
    return f"something of the type {type(given).__name__}" if callable(given) else repr(given)


def _instead(given: object) -> str:
    if callable(given):
        return "give a function or the method of an object, for instance one that calls it"
    return "give a function or the method of an object; options have names, as in @tool(name=…)"


def _wrong(option: str, wanted: str) -> UsageError:
    return UsageError(f"@tool({option}=…) must be {wanted}")
