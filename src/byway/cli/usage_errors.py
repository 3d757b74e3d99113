"""What is said of arguments that make no sense, in place of the words of the libraries that found
it: which argument, what was expected, and which command has help."""

from __future__ import annotations

import re
from typing import Any, Final, cast

import typer

USAGE_ERROR: Final = cast("type[Exception]", typer.BadParameter.__mro__[2])
"""What the command line library raises, in whichever module this version has it."""

_VALUES: Final = (
    (r".*valid integer.*", r"expected an integer"),
    (r".*valid (?:number|float).*", r"expected a number"),
    (r".*valid boolean.*", r"expected true or false"),
    (r"Input should be greater than or equal to (.*)", r"expected at least \1"),
    (r"Input should be less than or equal to (.*)", r"expected at most \1"),
    (r".*is not in the range x>=(.*?)\.?", r"expected at least \1"),
    (r".*is not in the range x<=(.*?)\.?", r"expected at most \1"),
    (r".*is not in the range (.*)<=x<=(.*?)\.?", r"expected \1 to \2"),
    (r"(?:Value error, )?(.*) is not one of (.*?)\.?", r"expected one of \2, found \1"),
)
"""What is said of a value, by what the libraries say of it."""
_SENTENCES: Final = (
    (r"Missing (?:argument|option|parameter) '([^']*)'.*", r"missing: \1"),
    (r"No such option:? '?([^' ]+)'?\.?", r"there is no option \1"),
    (
        r"No such option:? '?([^' ]+)'?.*?(?:Possible options:|Did you mean) '?([^')?]*)'?.*",
        r"there is no option \1; did you mean \2?",
    ),
    (r"No such command '(.*?)'\.?", r"there is no command \1"),
    (r"No such command '(.*?)'\. Did you mean (.*)\?", r"there is no command \1; did you mean \2?"),
    (r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", r"more than expected: \1"),
    (r"Option '(.*)' requires .*", r"\1: expected a value"),
    (r"Option '(.*)' does not take a value\.", r"\1 takes no value"),
)


def show_usage_error(error: Any) -> None:
    """Print what is wrong and which command has help; the help itself where nothing was given."""
    message = error.format_message()
    if "\n" in message:
        typer.echo(message, err=True)
        return
    parameter = getattr(error, "param", None)
    if parameter is not None and error.message:
        typer.echo(f"{_name_of(parameter)}: {_reworded(error.message, _VALUES)}", err=True)
    else:
        typer.echo(_reworded(message, _SENTENCES), err=True)
    context = getattr(error, "ctx", None)
    typer.echo(f"see {'byway' if context is None else context.command_path} --help", err=True)


def _name_of(parameter: Any) -> str:
    """The flag that people type, or what the help calls an argument."""
    flags = [flag for flag in parameter.opts if flag.startswith("--")]
    return flags[0] if flags else str(parameter.metavar or parameter.name).strip("[]{}.")


def _reworded(text: str, patterns: tuple[tuple[str, str], ...]) -> str:
    for pattern, words in patterns:
        found = re.fullmatch(pattern, text)
        if found is not None:
            return found.expand(words)
    return text
