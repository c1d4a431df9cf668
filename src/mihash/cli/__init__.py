"""The command line: each command is a few lines over the library; one file for each group of commands.

A new group is a file that registers its commands with `app`, and a name below. docs/cli.md is made from the help:
``python -m mihash.cli.reference > docs/cli.md``.
"""

from . import create, add, query, serve, maintenance, migrate, bench_and_plan, paper_commands  # noqa: F401, I001 -- the order of the help
from .program import app as app
from .program import main as main
