"""docs/cli.md, made from the help: ``python -m mihash.cli.reference > docs/cli.md``."""

import textwrap
from typing import Any

import typer

from . import app
from .program import value_name

_WIDTH = 115
_HEAD = """\
# The command line

Use an index without Python. This page is made from the help (`python -m mihash.cli.reference > docs/cli.md`).

```
mihash create photos --metric cosine
mihash add photos photos.parquet --metadata year
mihash search photos --key 17 -k 5 --rescore 100 --where '{"year": {"$gte": 2000}}'
```

`mihash COMMAND --help` shows the same for one command. An error is one line on the standard error. The exit
status is 2 for bad input (a wrong option, a file that cannot be used), 1 for a failure, and 130 after Ctrl-C.
Bad input changes nothing, with one exception: `add` keeps the rows before a bad one if it cannot check the rows
first, that is from the standard input and with `--no-check`. `--debug` shows the traceback, `--version` the
version. Results go to the standard output, notes and progress to the standard error: a
bar on a terminal, otherwise a line now and then.
"""


def reference() -> str:
    """Return the page: every command with its help, arguments, options and example."""
    group: Any = typer.main.get_command(app)
    parts = [_HEAD, "\n".join(["| command | |", "|---|---|", *(_row(name, group) for name in group.commands)])]
    parts += [_section(name, command) for name, command in group.commands.items()]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _row(name: str, group: Any) -> str:
    first = _paragraphs(group.commands[name].help)[0]
    return f"| [{name}](#{name}) | {first} |"


def _section(name: str, command: Any) -> str:
    lines = [f"## {name}", *map(_filled, _paragraphs(command.help)), f"```\n{_usage(name, command)}\n```"]
    rows = [_parameter(each) for each in command.params if each.name != "help"]
    lines.append("\n".join(["| | | default |", "|---|---|---|", *rows]))
    lines.append(f"Example: `{command.epilog.removeprefix('Example: ')}`")
    return "\n\n".join(lines)


def _usage(name: str, command: Any) -> str:
    arguments = [_argument(each) for each in command.params if each.param_type_name == "argument"]
    return " ".join(["mihash", name, *arguments, "[OPTIONS]"])


def _argument(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name.upper()) + ("..." if parameter.nargs == -1 else "")
    return name if parameter.required else f"[{name}]"


def _parameter(parameter: Any) -> str:
    names = f"`{_argument(parameter)}`"
    if parameter.param_type_name == "option":
        switches = " / ".join(", ".join(names) for names in (parameter.opts, parameter.secondary_opts) if names)
        names = f"`{f'{switches} {value_name(parameter)}'.strip()}`"
    return f"| {names} | {parameter.help} | {_default(parameter)} |".replace("  |", " |")


def _default(parameter: Any) -> str:
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    value = parameter.default
    if parameter.required or value is None or value is False:
        return ""
    return f"`{value}`"


def _paragraphs(text: str | None) -> list[str]:
    return [" ".join(part.split()) for part in (text or "").split("\n\n")]


def _filled(paragraph: str) -> str:
    return textwrap.fill(paragraph, _WIDTH, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    typer.echo(reference(), nl=False)
