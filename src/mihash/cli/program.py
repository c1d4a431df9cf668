"""The program: its global options, how commands are registered, and how errors end it."""

import re
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

Command = TypeVar("Command", bound=Callable[..., None])


def value_name(option: Any) -> str:
    """Return the name of an option's value in the help; empty for a flag."""
    return "" if option.is_flag else option.metavar or option.opts[-1].split("-")[-1].upper()


def _without_types(parameters: list[Any]) -> list[Any]:
    """Show the names of values in the help, as docs/cli.md does, instead of Python types."""
    for each in parameters:
        if each.param_type_name == "option":
            each.metavar = value_name(each)
        else:
            each.display_type_rich = lambda **_: None
    return parameters


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


app = typer.Typer(
    cls=_Group,
    help="Binary codes that learn from a stream, and know when to rehash.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

_USAGE: type[Exception] = typer.BadParameter.__mro__[2]  # click's ClickException, wherever this typer keeps it
_DEBUG = "--debug"
_COMMAND_WORDS = {  # what messages of the library name in Python, and what it is called here
    "Close that index, or open it with read_only=True.": "Try again when that has ended.",
    'ids="rows"': "--ids rows",
    "`upsert`": "mihash upsert",
    "open it and use `open_stream`": "send it to the standard input, and give - as the file",
    "give `token`, or listen on 127.0.0.1": (
        "give it a token (--token-file, or the environment variable MIHASH_TOKEN), or use --host 127.0.0.1"
    ),
}
_OPTION_OF = {  # parameters of the library whose options have another name
    "n_bits": "bits",
    "timeout_s": "timeout",
    "waiting_writes": "waiting",
    "features": "max_features",
    "conditions": "max_conditions",
    "cors_origins": "cors_origin",
}


def version(asked: bool) -> None:
    """Print the version and stop."""
    if asked:
        from .. import __version__

        typer.echo(f"mihash {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option(_DEBUG, help="Show the traceback of an error.")] = False,
    show: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Global options."""


def command(panel: str, example: str) -> Callable[[Command], Command]:
    """Register a command; its docstring is the help."""

    def register(function: Command) -> Command:
        paragraphs = (function.__doc__ or "").split("\n\n")
        text = "\n\n".join(" ".join(part.split()) for part in paragraphs)
        return app.command(cls=_Command, rich_help_panel=panel, help=text.strip(), epilog=f"Example: {example}")(
            function
        )

    return register


def main() -> None:
    """Run the command line; an error is one line, with exit status 2 for bad input and 1 for a failure."""
    from ..errors import InvalidInput, MIHashError, UnknownName

    debug, words = _DEBUG in sys.argv, [word for word in sys.argv[1:] if word != _DEBUG]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn  # type: ignore[assignment]
            code = app(args=words or ["--help"], prog_name="mihash", standalone_mode=False)
    except Exception as error:
        if debug:
            traceback.print_exc()
        expected = isinstance(error, MIHashError | OSError | typer.Abort | _USAGE)
        what = "" if expected else f"unexpected {type(error).__name__}, please report it with what --debug shows: "
        typer.echo(f"mihash: {what}{_one_line(error, words)}", err=True)
        raise SystemExit(2 if isinstance(error, InvalidInput | UnknownName | _USAGE) else 1) from error
    sys.exit(code if isinstance(code, int) else 0)


def _one_line(error: Exception, words: list[str]) -> str:
    """Return the message of an error in one line; a usage error points to the help."""
    if not isinstance(error, _USAGE):
        text = " ".join(str(error).split())
        for python, option in _COMMAND_WORDS.items():
            text = text.replace(python, option)
        return with_options(text, words)
    message: Any = error
    context = getattr(error, "ctx", None)
    hint = f" Try '{context.command_path} --help'." if context is not None else ""
    return " ".join(f"{message.format_message()}{hint}".split())


def with_options(text: str, words: list[str]) -> str:
    """Return a message of the library with options of the command for its parameters.

    `n_bits` becomes --bits, and `deleted="add"` becomes --deleted add.
    """
    commands: dict[str, Any] = getattr(typer.main.get_command(app), "commands", {})
    command = next((commands[word] for word in words if word in commands), None)
    parameters = [] if command is None else command.params
    options = {each.name: each.opts[0] for each in parameters if each.param_type_name == "option"}

    def option(found: re.Match[str]) -> str:
        name, value = found.groups()
        known = options.get(name) or options.get(_OPTION_OF.get(name))
        if known is None:
            return found[0]
        return known if value in (None, "True") else f"{known} {value.strip(chr(34))}"

    return re.sub(r"`(\w+)(?:=([^`]*))?`", option, text)


def _warn(message: Warning | str, *_: Any) -> None:
    """Show a warning as one line, with options for parameters."""
    text = with_options(" ".join(str(message).split()), sys.argv[1:])
    typer.echo(f"mihash: warning: {text}", err=True)
