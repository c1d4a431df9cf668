"""The page of a report: its style, the navigation, and claims as cards with a filter; it needs no script."""

import html
from collections.abc import Iterable, Sequence

from .claims import Verdict

_CLASS = {"held": "held", "not held": "not", "not settled": "noise", "not tested": "open"}
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: light-dark(#1a7f4b, #5fc08d);
  --bad: light-dark(#b3261e, #f2948c);
  --soft: light-dark(#5a6570, #a3adb8); --ground: light-dark(#f7f6f2, #14171b);
  --card: light-dark(#fff, #1b1f24); }
* { box-sizing: border-box; }
html { scroll-padding-top: 4rem; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 0 auto; padding: 1.5rem 1rem 4rem;
  background: var(--ground); }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h3 { font-size: 1.05rem; }
nav { position: sticky; top: 0; z-index: 1; display: flex; gap: .2rem 1rem; overflow-x: auto; padding: .6rem 0;
  background: var(--ground); border-bottom: 1px solid var(--line); white-space: nowrap; }
a { color: light-dark(#1d5f9e, #7cb8ee); }
.filter { border: 0; padding: 0; margin: 1rem 0; display: flex; flex-wrap: wrap; gap: .4rem 1.2rem; }
.filter legend { float: left; padding: 0; margin-right: 1.2rem; color: var(--soft); }
.filter label { cursor: pointer; } .filter input { accent-color: #1d5f9e; }
.claims { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(22rem, 100%), 1fr)); gap: .8rem; }
.claim { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--soft);
  border-radius: 8px; padding: .7rem .9rem; }
.claim.held { border-left-color: var(--good); } .claim.not { border-left-color: var(--bad); }
.claim p { margin: .2rem 0; overflow-wrap: anywhere; } .claim .small { font-size: .85rem; color: var(--soft); }
.verdict { font-weight: 600; font-size: .85rem; color: var(--soft); }
.held .verdict { color: var(--good); } .not .verdict { color: var(--bad); }
body:has(#show-not:checked) .claim:not(.not), body:has(#show-noise:checked) .claim:not(.noise),
body:has(#show-open:checked) .claim:not(.open) { display: none; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: .3rem .6rem; }
table { border-collapse: collapse; font-size: .8rem; }
th, td { padding: .25rem .45rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; } .number { text-align: right; }
.notes { font-size: .85rem; color: var(--soft); padding-left: 1.2rem; }
figure { margin: 1rem 0; background: #fff; border-radius: 8px; overflow: hidden; }
img { max-width: 100%; height: auto; display: block; }
p.open { color: var(--soft); }
"""


def claim_cards(groups: Iterable[tuple[str, Sequence[Verdict]]]) -> str:
    """Return the claims as cards, under a filter that shows all or those of one verdict that is not held.

    Examples
    --------
    >>> from mihash.paper.claims import Claim
    >>> claim = Claim("a", "A < B", "Sec. 4", "reduction", {})
    >>> cards = claim_cards([("Early", [Verdict(claim, False, "0.1")])])
    >>> "class='claim not'" in cards, "A &lt; B" in cards
    (True, True)
    """
    parts = []
    for title, group in groups:
        parts.append(f"<h3>{title}</h3><div class='claims'>")
        for verdict in group:
            claim = verdict.claim
            statement, figures, where = map(html.escape, (claim.statement, verdict.figures, claim.where))
            parts.append(
                f"<article class='claim {_CLASS[verdict.word]}'><span class='verdict'>{verdict.word}</span>"
                f"<p>{statement}</p><p class='small'>{figures}</p><p class='small'>{where}</p>"
                + "".join(f"<p class='small'>Changed {html.escape(change)}</p>" for change in claim.changed)
                + "</article>"
            )
        parts.append("</div>")
    if not parts:
        return ""
    choices = (
        ("all", "all", " checked"),
        ("not", "not held", ""),
        ("noise", "not settled", ""),
        ("open", "not tested", ""),
    )
    radios = "".join(
        f"<label><input type='radio' name='show' id='show-{value}'{checked}> {word}</label>"
        for value, word, checked in choices
    )
    return "\n".join([f"<fieldset class='filter'><legend>Show claims:</legend>{radios}</fieldset>", *parts])


def whole_page(title: str, heading: str, about: str, links: Sequence[str], parts: Sequence[str]) -> str:
    """Return the page; ``links`` are the anchors of the navigation."""
    anchors = "".join(f"<a href='#{anchor}'>{html.escape(anchor)}</a>" for anchor in links)
    head = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<header><h1>{heading}</h1><p>{about}</p></header>",
        f"<nav aria-label='Experiments'>{anchors}</nav><main><h2 id='claims'>Claims</h2>",
    ]
    return "\n".join([*head, *parts, "</main></body></html>"]) + "\n"
