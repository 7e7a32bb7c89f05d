"""The commands: ``help.txt`` has their help, and the options are read from it.

Help and wrong usage must not wait for imports: this module needs only the standard library, and
each command imports its work. An option with a metavar takes a value, ``Default: X.`` at the end of
its description is its default, and ``Repeatable.`` makes it a list.
"""

import math
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, TypeAlias, get_args

RUN: Final = "run:"  # prefix of a run ID, where a file could be meant

LintScope: TypeAlias = Literal["all", "order", "late"]
LogLevel: TypeAlias = Literal["error", "warning", "info", "debug"]

_OPTION: Final = re.compile(
    r"^  (?:(-\w), )?(-?-?[\w-]+)(?: (\S+))?(?:  +|\n +)(.*(?:\n   .*)*)", re.MULTILINE
)
_DEFAULT: Final = re.compile(r"Default: ([^\s$]+)(?: \(detected\))?\.$")
_HELP: Final = ("-h", "--help")
_RUN_ID: Final = re.compile(r"(run[_:])?[0-9a-f]{3,32}")
_VALUED: Final = ("--status", "--limit", "--store")
_DESTINATIONS: Final = {"--from": "protocol", "--continue": "is_continued"}  # others have theirs


class CommandLineError(Exception):
    """The command line is wrong. The message says how to correct it."""


# Values of options


def _number(kind: type[int | float], least: float, most: float = math.inf) -> Callable[[str], Any]:
    what = "a whole number" if kind is int else "a number"
    bounds = f"of at least {least:g}" if math.isinf(most) else f"from {least:g} to {most:g}"

    def convert(text: str) -> int | float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise ArgumentTypeError(f"must be {what} {bounds}, not {text!r}")
        return value

    return convert


def _speed(text: str) -> float:
    try:
        factor = math.inf if text == "max" else float(text)
    except ValueError:
        factor = 0.0
    if not factor > 0:
        raise ArgumentTypeError(f"must be a number greater than 0, or max, not {text!r}")
    return factor


def _network(text: str) -> str:
    """Return the address of a proxy. A mistyped one would never match."""
    from ipaddress import ip_network

    try:
        ip_network(text)
    except ValueError:
        example = "an address such as 10.0.0.7, or a network such as 10.0.0.0/8"
        raise ArgumentTypeError(f"is {example}, not {text!r}") from None
    return text


def _one_of(module: str, name: str) -> Callable[[str], str]:
    """Return a type for the values of a ``Literal``, whose module is imported when it is used."""

    def convert(text: str) -> str:
        known = get_args(getattr(import_module(module), name))
        if text not in known:
            raise ArgumentTypeError(f"must be one of {', '.join(known)}, not {text!r}")
        return text

    return convert


_TYPES: Final[dict[str, Callable[[str], Any]]] = {
    "--forwarded-from": _network,
    "--from": _one_of("argstream.providers", "ProtocolName"),
    "--limit": _number(int, 1),
    "--log-level": _one_of(__name__, "LogLevel"),
    "--max-turns": _number(int, 1),
    "--only": _one_of(__name__, "LintScope"),
    "--pace": _number(float, 0),
    "--port": _number(int, 0, 65535),
    "--speed": _speed,
    "--status": _one_of("argstream.events", "RunStatus"),
}


# Each function gets the options of its command, and returns the exit status.
_COMMANDS: Final = {
    "demo": "demo.show_demo",
    "run": "_agents.run_prompt",
    "serve": "_serve.serve_agent",
    "watch": "_streams.watch",
    "inspect": "_inspect.inspect",
    "replay": "_streams.replay",
    "runs": "_runs.list_runs",
    "runs list": "_runs.list_runs",
    "runs show": "_runs.show_run",
    "runs approve": "_agents.approve",
    "runs deny": "_agents.deny",
    "runs resume": "_agents.resume_run",
    "runs stop": "_runs.stop_run",
    "runs delete": "_runs.delete_runs",
    "record": "_streams.record",
    "mock": "_streams.serve_mock",
    "lint": "_streams.lint_files",
}


def refuse(is_wrong: object, problem: str) -> None:
    """Raise CommandLineError if options cannot be combined."""
    if is_wrong:
        raise CommandLineError(problem)


def parsed(command: str, rest: Sequence[str]) -> Namespace:
    """Return the options of a command; None for those that are not given and have no default."""
    return Parser(help_texts()[command]).parse_intermixed_args(rest)


# The command line


def run_command(arguments: Sequence[str]) -> int:
    """Run a command line, and return its exit status."""
    name, rest = (arguments[0] if arguments else "--help"), list(arguments[1:])
    if name in _HELP:
        say(help_texts()["argstream"])
        return 0 if arguments else 2
    if name == "--version":
        from argstream import __version__

        say(f"argstream {__version__}")
        return 0
    if name == "--completion":
        shell = rest[0] if rest else ""
        if shell not in (known := ("bash", "zsh", "fish")):
            raise CommandLineError(f"--completion must be one of {', '.join(known)}, not {shell!r}")
        say(_completion(shell))
        return 0
    if name not in _names(""):
        kind = "option" if name.startswith("-") else "command"
        raise CommandLineError(
            f"unknown {kind} {name!r}.{_meant(name, _names(''))} See argstream --help"
        )
    if name == "runs" and rest[:1] not in ([_HELP[0]], [_HELP[1]]):
        name = f"runs {_command_of_runs(rest)}"
    text = help_texts()[name]
    if any(one in _HELP for one in rest[: rest.index("--") if "--" in rest else None]):
        say(text)
        return 0
    module, _, function = _COMMANDS[name].partition(".")
    try:
        given = parsed(name, rest)
        if name == "demo":  # it takes a moment to load
            say("A scripted model, real tools. Ctrl-C stops it.")
        elif name == "serve":  # of two missing extras, the user needs this one
            import_module("argstream.server")
        status: int = getattr(import_module(f"argstream.cli.{module}"), function)(given)
    except CommandLineError as problem:
        end = "" if str(problem).endswith("?") else "."
        raise CommandLineError(f"{problem}{end} See argstream {name} --help") from None
    return status


def help_texts() -> dict[str, str]:
    """Return the help of each command. That of ``argstream`` lists them."""
    text = Path(__file__).with_name("help.txt").read_text(encoding="utf-8")
    sections = (section.partition("\n") for section in text.removeprefix("## ").split("\n## "))
    return {name: about.rstrip() for name, _, about in sections}


def _command_of_runs(rest: list[str]) -> str:
    """Return the command of ``runs``, and remove it. Options of ``runs list`` may be before it."""
    names = _names("runs ")
    for place, name in enumerate(rest):
        if name in names and (not place or rest[place - 1] not in _VALUED):
            return rest.pop(place)
    if not rest or rest[0].startswith("-"):
        return "list"
    name = rest[0]
    if _RUN_ID.fullmatch(name):
        raise CommandLineError(f"unknown command 'runs {name}'. Did you mean: runs show {name}?")
    hint = _meant(name, names) or f" Commands: {', '.join(names)}."
    raise CommandLineError(f"unknown command 'runs {name}'.{hint} See argstream runs --help")


def _names(prefix: str) -> list[str]:
    names = [name.removeprefix(prefix) for name in _COMMANDS if name.startswith(prefix)]
    return [name for name in names if " " not in name]


def _meant(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, 1)
    return f" Did you mean {close[0]}?" if close else ""


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


_BASH: Final = """\
_argstream() {
  local words=""
  case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
CASES
  esac
  [ "$COMP_CWORD" = 1 ] && words="NAMES"
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _argstream argstream"""


def _completion(shell: str) -> str:
    """Return a script that completes commands and options."""
    words = {
        name: " ".join(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE))
        for name, text in help_texts().items()
    }
    words["runs"] = " ".join(_names("runs "))
    names = " ".join(_names(""))
    if shell == "fish":
        start = "complete -c argstream -n"
        seen = "__fish_seen_subcommand_from"
        lines = [f"{start} __fish_use_subcommand -f -a '{names}'"]
        lines += [f"{start} '{seen} {name.split()[-1]}' -a '{words[name]}'" for name in _COMMANDS]
        return "\n".join(lines)
    cases = [
        f"""  "{name}{'"' if " " in name else ' "*'}) words="{words[name]}" ;;"""
        for name in sorted(_COMMANDS, reverse=True)  # "runs list" before "runs"
    ]
    script = _BASH.replace("CASES", "\n".join(cases)).replace("NAMES", names)
    return f"autoload -U +X bashcompinit && bashcompinit\n{script}" if shell == "zsh" else script


class Parser(ArgumentParser):
    """Parses what follows the name of a command, according to its help."""

    def __init__(self, text: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False, usage="")
        self._flags: list[str] = []
        usage, _, rest = text.partition("\n")
        for title in ("Arguments", "Options"):
            _, _, section = rest.partition(f"\n{title}:\n")
            for short, name, metavar, about in _OPTION.findall(section.partition("\n\n")[0]):
                self._add(short, name, metavar, " ".join(about.split()), usage)

    def _add(self, short: str, name: str, metavar: str, about: str, usage: str) -> None:
        default = _DEFAULT.search(about)
        settings: dict[str, Any] = {"default": default[1] if default else None}
        if not name.startswith("-"):
            settings["metavar"] = name
            if f"{name}..." in usage or f"[{name}" in usage:
                settings["nargs"] = "+" if f"{name}..." in usage else "?"
            self.add_argument(name.lower(), **settings)
            return
        if not metavar:
            settings = {"action": "store_true"}
        elif about.endswith("Repeatable."):
            settings |= {"action": "append", "default": []}
        settings |= {"type": _TYPES[name]} if name in _TYPES else {}
        flags = [flag for flag in (short, name) if flag]
        self._flags += flags
        dest = _DESTINATIONS.get(name, name.strip("-").replace("-", "_"))
        self.add_argument(*flags, dest=dest, **settings)

    def error(self, message: str) -> NoReturn:
        """Report wrong usage in plain words."""
        option, _, problem = message.removeprefix("argument ").partition(": ")
        if option == "unrecognized arguments":
            first = problem.split()[0]
            kind = "option" if first.startswith("-") else "argument"
            hint = _meant(first, self._flags)
            raise CommandLineError(f"unknown {kind} {first!r}{'.' if hint else ''}{hint}")
        if option == "the following arguments are required":
            raise CommandLineError(f"missing {problem}")
        if problem.startswith("expected"):
            raise CommandLineError(f"{option} needs a value")
        raise CommandLineError(f"{option} {problem}")
