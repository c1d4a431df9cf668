"""The report of the drift benchmark: its tables, figures and verdicts on claims, from results alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..state import replace_file
from .claims import judge, load_claims
from .definition import Definition
from .figures import draw_figure
from .outcomes import Study
from .report import to_markdown
from .tables import Table, make_table

CLAIMS = Path(__file__).with_name("drift_claims.toml")


def make_drift_report(definitions: Sequence[Definition], results: Path, scale: str) -> tuple[Path, ...]:
    """Draw the figure of each data set, fill its tables, judge the claims about it; write ``drift.md``."""
    page, parts = results / scale / "drift.md", ["# Streams that change"]
    for definition in definitions:
        figure = draw_figure(definition, results, scale)[0].relative_to(page.parent).as_posix()
        held_out = replace(definition, draws="held-out", title="Held-out queries over all classes so far")
        tables = [make_table(each, results, scale) for each in (definition, held_out)]
        parts += [to_markdown(table) for table in tables if table.rows]
        parts.append(f"![{definition.title}]({figure})")
    claims = claims_table(definitions, Study(results, scale))
    parts += [to_markdown(claims)] if claims.rows else []
    replace_file(page, ("\n\n".join(parts) + "\n").encode())
    return (page,)


def claims_table(definitions: Sequence[Definition], study: Study) -> Table:
    """Return the verdicts on the claims about the data sets of definitions."""
    names = {name for definition in definitions for name in definition.datasets}
    claims = [claim for claim in load_claims(CLAIMS) if claim.parameters["dataset"] in names]
    verdicts = [judge(claim, study) for claim in claims]
    rows = tuple((verdict.claim.statement, verdict.word, verdict.figures) for verdict in verdicts)
    return Table("Claims, fixed before the runs", ("claim", "verdict", "figures"), rows)
