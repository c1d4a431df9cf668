"""The report: every table, figure and verdict in one HTML file that needs nothing else, and in one Markdown file.

It reads result files and figures only; making it again recomputes nothing.
"""

import base64
import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import InvalidInput, NotReady
from ..state import replace_file
from .claims import GROUPS, Verdict, judge_all, summary, tally
from .definition import Definition
from .drawing import require_matplotlib
from .report_page import claim_cards, whole_page
from .scales import OWN
from .tables import LABELS, THEIRS, Table, make_table

BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"


@dataclass(frozen=True)
class Section:
    """A definition with what was made of it."""

    definition: Definition
    table: Table | None
    figure: Path | None
    missing: str | None


def make_report(
    definitions: Sequence[Definition], results: Path, scale: str, fill: Path | None = None
) -> tuple[Path, Path]:
    """Draw every figure, fill every table, judge every claim; write ``report.html`` and ``report.md``.

    What has no results yet is said in its place. Returns the two files. With ``fill``, a page of Markdown, the
    same is also written there, between its lines `BEGIN` and `END`; figures go to ``images/results`` beside it.
    """
    require_matplotlib()
    sections = [_section(definition, results, scale) for definition in definitions]
    verdicts = judge_all(results, scale)
    folder = results / scale
    folder.mkdir(parents=True, exist_ok=True)
    page, text = folder / "report.html", folder / "report.md"
    replace_file(page, _as_html(sections, verdicts, scale).encode())
    replace_file(text, _as_markdown(sections, verdicts, scale, folder).encode())
    if fill is not None:
        _fill(fill, sections, verdicts, scale)
    return page, text


def check_page(page: Path) -> tuple[str, str]:
    """Return what a page has before and after its tables, the marks included; refuse one without the marks."""
    try:
        text = page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"`page` must be a page of Markdown: {error}.") from error
    before, begin, rest = text.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(f"{END}\n")
    if not begin or not end:
        raise InvalidInput(f"`page` must have the lines {BEGIN} and {END}, in this order; {page} has not.")
    return before + begin, end + after


def _fill(page: Path, sections: Sequence[Section], verdicts: Sequence[Verdict], scale: str) -> None:
    before, after = check_page(page)
    folder = page.parent / "images" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    moved = []
    for each in sections:
        figure = None if each.figure is None else folder / each.figure.name
        if each.figure is not None and figure is not None:
            replace_file(figure, each.figure.read_bytes())
        moved.append(replace(each, figure=figure))
    lines = _body(moved, verdicts, scale, page.parent)
    replace_file(page, (before + "\n".join(lines).strip() + "\n\n" + after).encode())


def _section(definition: Definition, results: Path, scale: str) -> Section:
    from .figures import draw_figure  # needs matplotlib, an extra

    table, figure, missing = None, None, None
    try:
        table = make_table(definition, results, scale)
        table = _without_the_paper(table) if scale == "smoke" else table
    except NotReady as error:
        missing = str(error)
    except InvalidInput:
        pass  # a figure alone
    try:
        drawn = draw_figure(definition, results, scale)
        figure = drawn[0] if drawn else None
    except NotReady as error:
        missing = missing or str(error)
    return Section(definition, table, figure, missing)


def _groups(verdicts: Sequence[Verdict], scale: str) -> Iterator[tuple[str, list[Verdict]]]:
    """Yield the claims as first committed, those changed since, and those added since."""
    for name in GROUPS:
        group = [verdict for verdict in verdicts if verdict.claim.group == name]
        if group and scale != OWN:
            yield name.capitalize(), group


def _as_html(sections: Sequence[Section], verdicts: Sequence[Verdict], scale: str) -> str:
    links = ["claims", *(each.definition.name for each in sections)]
    parts = [f"<p>{summary(verdicts, scale)} {_evidence(scale)}</p>", claim_cards(_groups(verdicts, scale))]
    for each in sections:
        title = each.definition.title
        heading = title.partition(":")[0] if each.figure is not None else title  # a figure has the whole one
        parts.append(f"<h2 id='{each.definition.name}'>{html.escape(heading)}{_on(scale)}</h2>")
        if each.missing:
            parts.append(f"<p class='open'>{html.escape(each.missing)}</p>")
        if each.figure is not None:
            data = base64.b64encode(each.figure.read_bytes()).decode()
            parts.append(f"<figure><img alt='{html.escape(title)}' src='data:image/png;base64,{data}'></figure>")
        if each.table is not None:
            name = html.escape(heading, quote=True)
            parts.append(f"<div class='scroll' tabindex='0' role='region' aria-label='{name}'>")
            parts += [to_html(each.table), "</div>"]
    return whole_page(f"mihash: the paper's experiments ({scale})", _heading(scale), _about(scale), links, parts)


def _as_markdown(sections: Sequence[Section], verdicts: Sequence[Verdict], scale: str, folder: Path) -> str:
    lines = [f"# {_heading(scale)}", "", _about(scale), "", *_body(sections, verdicts, scale, folder)]
    return "\n".join(lines).rstrip() + "\n"


def _body(sections: Sequence[Section], verdicts: Sequence[Verdict], scale: str, folder: Path) -> list[str]:
    """Return claims, tables and figures; links to figures are relative to a folder."""
    lines = ["## Claims", "", f"{summary(verdicts, scale)} {_evidence(scale)}".strip()]
    groups = list(_groups(verdicts, scale))
    if any(verdict.tested for _, group in groups for verdict in group):
        head, *rows = tally(verdicts)
        lines += ["", _line(head), "|---" + (len(head) - 1) * "|---:" + "|", *map(_line, rows)]
    for title, group in groups:
        changes = any(verdict.claim.changed for verdict in group)
        head = ("claim", "verdict", "figures", "in the paper", *(["changed"] if changes else []))
        lines += ["", f"### {title}", "", _line(head), len(head) * "|---" + "|"]
        for verdict in group:
            claim = verdict.claim
            cells = (claim.statement, verdict.word, verdict.figures, claim.where, "; ".join(claim.changed))
            lines.append(_line(cells[: len(head)]))
    for each in sections:
        lines += ["", f"## {each.definition.title}{_on(scale)}", ""]
        if each.missing:
            lines += [each.missing, ""]
        if each.figure is not None:
            lines += [f"![{each.definition.title}]({each.figure.relative_to(folder).as_posix()})", ""]
        if each.table is not None:
            lines.append(to_markdown(each.table).partition("\n\n")[2])  # it has a heading of its own
    return lines


def _line(cells: Iterable[str]) -> str:
    """Return a row of a table in Markdown."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _on(scale: str) -> str:
    """Return what a title adds where other data stand in for the paper's."""
    return ", on digits in place of the paper's data" if scale == "smoke" else ""


def _evidence(scale: str) -> str:
    """Return what to think of claims about several data sets that are one here."""
    if scale != "smoke":
        return ""
    return (
        "All data sets are the same digits here, LabelMe without their labels. A method's runs on CIFAR-10 and on "
        "Places205 are one piece of evidence where they are the same, and are counted once."
    )


def _without_the_paper(table: Table) -> Table:
    """Return a table without the paper's columns, which invite a comparison with other data."""
    kept = [place for place, name in enumerate(table.columns) if not name.startswith(THEIRS)]
    return replace(
        table,
        columns=tuple(table.columns[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in table.rows),
    )


def _heading(scale: str) -> str:
    return "The paper's experiments, " + ("on files of one's own" if scale == OWN else f"scale {scale}")


def _about(scale: str) -> str:
    what = {
        "smoke": "All three data sets are stood in for by scikit-learn's digits: this shows that everything runs, "
        "not what the paper measured.",
        "small": "The three data sets are generated, with the shapes of the paper's and fewer rows.",
        "full": "The features stand in for the paper's own, at its sizes but for the table of Places205: "
        "compare order, ratios and signs.",
        OWN: "Each file is used whole, divided in the paper's proportions; the paper has no numbers for it.",
    }
    return what[scale]


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
    rule = "|" + "|".join("---:" if right else "---" for right in _right_aligned(table)) + "|"
    lines = [f"### {table.title}", "", _line(table.columns), rule, *map(_line, table.rows)]
    if table.notes:
        lines += ["", *(f"- {note}" for note in table.notes)]
    return "\n".join(lines)


def to_html(table: Table) -> str:
    """Return a table as a fragment of HTML, without its title; cells of numbers have the class ``number``.

    Examples
    --------
    >>> print(to_html(Table("U < 2", ("method", "AUC"), (("OKH", "0.287"),))))
    <table>
    <thead><tr><th>method</th><th class="number">AUC</th></tr></thead>
    <tbody>
    <tr><td>OKH</td><td class="number">0.287</td></tr>
    </tbody>
    </table>
    """
    kinds = [' class="number"' if right else "" for right in _right_aligned(table)]

    def line(tag: str, cells: Sequence[str]) -> str:
        inner = "".join(
            f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True)
        )
        return f"<tr>{inner}</tr>"

    lines = [
        "<table>",
        f"<thead>{line('th', table.columns)}</thead>",
        "<tbody>",
        *(line("td", row) for row in table.rows),
        "</tbody>",
        "</table>",
    ]
    if table.notes:
        lines += ['<ul class="notes">', *(f"<li>{html.escape(note)}</li>" for note in table.notes), "</ul>"]
    return "\n".join(lines)


def _right_aligned(table: Table) -> list[bool]:
    """Tell which columns hold numbers for the most part, so that they are set to the right."""
    filled = [[row[index] for row in table.rows if row[index]] for index in range(len(table.columns))]
    return [
        name not in LABELS and 2 * sum(cell[0] in "+-0123456789" for cell in cells) > len(cells)
        for name, cells in zip(table.columns, filled, strict=True)
    ]
