"""Tables as text: Markdown for a repository, HTML for the report."""

from collections.abc import Iterable, Sequence
from html import escape

from .tables import LABELS, Table


def to_markdown(table: Table) -> str:
    """Return a table as Markdown: a heading, the rows, the notes as a list.

    Examples
    --------
    >>> print(to_markdown(Table("T", ("method", "AUC"), (("OKH", "0.287"),), ("One trial.",))))
    ### T
    <BLANKLINE>
    | method | AUC |
    |---|---:|
    | OKH | 0.287 |
    <BLANKLINE>
    - One trial.
    """

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "|".join("---:" if right else "---" for right in _right_aligned(table)) + "|"
    lines = [f"### {table.title}", "", line(table.columns), rule, *map(line, table.rows)]
    if table.notes:
        lines += ["", *(f"- {note}" for note in table.notes)]
    return "\n".join(lines)


def to_html(table: Table, caption: bool = True) -> str:
    """Return a table as a fragment of HTML; cells of numbers have the class ``number``.

    Where a heading above it has the title already, it needs no caption.

    Examples
    --------
    >>> print(to_html(Table("U < 2", ("method", "AUC"), (("OKH", "0.287"),))))
    <table>
    <caption>U &lt; 2</caption>
    <thead><tr><th>method</th><th class="number">AUC</th></tr></thead>
    <tbody>
    <tr><td>OKH</td><td class="number">0.287</td></tr>
    </tbody>
    </table>
    """
    kinds = [' class="number"' if right else "" for right in _right_aligned(table)]

    def line(tag: str, cells: Sequence[str]) -> str:
        inner = "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
        return f"<tr>{inner}</tr>"

    lines = [
        "<table>",
        *([f"<caption>{escape(table.title)}</caption>"] if caption else []),
        f"<thead>{line('th', table.columns)}</thead>",
        "<tbody>",
        *(line("td", row) for row in table.rows),
        "</tbody>",
        "</table>",
    ]
    if table.notes:
        lines += ['<ul class="notes">', *(f"<li>{escape(note)}</li>" for note in table.notes), "</ul>"]
    return "\n".join(lines)


def _right_aligned(table: Table) -> list[bool]:
    """Tell which columns hold numbers for the most part, so that they are set to the right."""
    filled = [[row[index] for row in table.rows if row[index]] for index in range(len(table.columns))]
    return [
        name not in LABELS and 2 * sum(cell[0] in "+-0123456789" for cell in cells) > len(cells)
        for name, cells in zip(table.columns, filled, strict=True)
    ]
