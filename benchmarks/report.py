"""The tables that benchmarks print: times, their ratios to one of the rows, and whether targets were met."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

console = Console(highlight=False)
console.width = max(console.width, 110)

_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6}


@dataclass(frozen=True)
class Target:
    """A bound on a row's ratio, or, where ``unit`` is given, on its time in that unit."""

    least: float | None = None
    most: float | None = None
    unit: str | None = None

    def __str__(self) -> str:
        """Return the bound in words."""
        suffix = f" {self.unit}" if self.unit else "x"
        return f"at least {self.least:g}{suffix}" if self.least is not None else f"at most {self.most:g}{suffix}"

    def held(self, seconds: float, ratio: float) -> bool:
        """Return whether the measured row is within the bound."""
        value = seconds * _UNITS[self.unit] if self.unit else ratio
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


def number(value: float) -> str:
    """Return a number with three digits, or all digits before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def verdict(held: bool) -> str:
    return "[green]held[/green]" if held else "[red]not held[/red]"


def show(
    title: str,
    times: Mapping[str, float],
    against: str,
    unit: str,
    targets: Mapping[str, Target] | None = None,
) -> None:
    """Print one row for each time in seconds, with its ratio to the row named ``against``."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("what")
    table.add_column(unit, justify="right")
    table.add_column(f"against {against}", justify="right")
    table.add_column("target")
    table.add_column("")
    for what, seconds in times.items():
        ratio = seconds / times[against]
        target = (targets or {}).get(what)
        judged = ("", "") if target is None else (str(target), verdict(target.held(seconds, ratio)))
        table.add_row(what, number(seconds * _UNITS[unit.split(maxsplit=1)[0]]), f"{number(ratio)}x", *judged)
    console.print(table)


def show_grid(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of cells, those with a digit in front to the right."""
    table = Table(title=title, title_justify="left", title_style="bold")
    lines = list(rows)
    for column, name in enumerate(header):
        right = all(line[column][:1].isdigit() for line in lines if line[column])
        table.add_column(name, justify="right" if right else "left")
    for line in lines:
        table.add_row(*line)
    console.print(table)


def show_load() -> None:
    """Print how busy the machine is: above 1 for each core, cache and memory are shared with others."""
    console.print(f"[dim]load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores[/dim]\n")
