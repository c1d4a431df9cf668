"""How a soak says what it found."""

import os

from rich.console import Console

__all__ = ["Failure", "console", "show_load"]

console = Console(highlight=False)
console.width = max(console.width, 100)


class Failure(Exception):
    """The index did not keep a promise; the message says which."""


def show_load() -> None:
    """Print how busy the machine is: above 1 for each core, cores are shared with others."""
    console.print(f"[dim]load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores[/dim]")
