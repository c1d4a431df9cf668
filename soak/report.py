"""How a soak says what it found."""

import argparse
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

__all__ = ["Failure", "add_lap_arguments", "console", "show_counts", "show_load"]

console = Console(highlight=False)
console.width = max(console.width, 100)


class Failure(Exception):
    """The index did not keep a promise; the message says which."""


def show_load() -> None:
    """Print how busy the machine is: above 1 for each core, cores are shared with others."""
    console.print(f"[dim]load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores[/dim]")


def add_lap_arguments(parser: argparse.ArgumentParser, each: int, what: str) -> None:
    """Add the arguments of a soak that goes from index to index: a seed, laps, and a folder."""
    parser.add_argument("--seed", type=int, default=0, help="what everything is drawn from (0)")
    parser.add_argument("--each", type=int, default=each, help=f"how many {what} on one index ({each})")
    parser.add_argument("--lap", type=int, default=0, help="begin with the index of this number (0)")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder by default")


def show_counts(title: str, names: Iterable[str], counters: Mapping[str, Counter[str]]) -> None:
    """Print a table with a row for each operation and a column for each counter."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in ("operation", *counters):
        table.add_column(column, justify="left" if column == "operation" else "right")
    for name in names:
        table.add_row(name, *(f"{counter[name]:,}" if counter[name] else "" for counter in counters.values()))
    table.add_section()
    table.add_row("all", *(f"{counter.total():,}" for counter in counters.values()))
    console.print(table)
