from mihash.paper.markup import to_html, to_markdown
from mihash.paper.tables import Table


def test_rendering():
    table = Table("a < b", ("method", "AUC"), (("A|B", "0.1"), ("<i>", "")), ("1 & 2",))
    assert to_markdown(table).splitlines() == [
        "### a < b",
        "",
        "| method | AUC |",
        "|---|---:|",
        "| A\\|B | 0.1 |",
        "| <i> |  |",
        "",
        "- 1 & 2",
    ]
    html = to_html(table)
    assert "<caption>a &lt; b</caption>" in html
    assert "<td>&lt;i&gt;</td>" in html
    assert html.endswith('<ul class="notes">\n<li>1 &amp; 2</li>\n</ul>')
