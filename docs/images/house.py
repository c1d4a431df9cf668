"""Draws docs/images/house.svg: the rooms of the package, the walls between them, and who imports whom.

Run ``python docs/images/house.py`` after a room was added, renamed or described anew; a test compares the picture with
the import graph. Layers come from pyproject.toml, arrows from the imports, sentences from the docstrings.
"""

import ast
import tomllib
from html import escape
from pathlib import Path
from textwrap import wrap

import grimp

ROOT = Path(__file__).parents[2]
PICTURE = Path(__file__).with_name("house.svg")
WIDTH, GAP, BOX, LINE, MARGIN = 1180, 34, 74, 15, 14
FOUNDATION = 3  # layers at the bottom that everybody may import: no arrows to them
INK, PAPER, WALL, ARROW = "#1f2933", "#f4f6f8", "#52606d", "#9aa5b1"


def layers() -> list[list[str]]:
    """Return the rooms of each layer, the topmost first, as the contract in pyproject.toml has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (walls,) = (each["layers"] for each in contracts if each["type"] == "layers")
    return [[name.strip().removeprefix("mihash.") for name in layer.split("|")] for layer in walls]


def sentence(room: str) -> str:
    """Return the first sentence of a room's docstring."""
    path = ROOT / "src/mihash" / room
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(source.read_text())) or ""
    return " ".join(text.split("\n\n")[0].replace("`", "").split())


def imports(rooms: list[str]) -> set[tuple[str, str]]:
    """Return who imports whom, without the arrows that follow from others, and those to the foundation."""
    graph = grimp.build_graph("mihash", cache_dir=None)
    direct = {
        (room, other)
        for room in rooms
        for other in rooms
        if room != other
        and graph.direct_import_exists(importer=f"mihash.{room}", imported=f"mihash.{other}", as_packages=True)
    }
    order = {room: depth for depth, layer in enumerate(layers()) for room in layer}
    down = {(a, b) for a, b in direct if order[a] < order[b]}

    def reach(start: str, without: tuple[str, str]) -> set[str]:
        found, todo = set(), [start]
        while todo:
            here = todo.pop()
            for a, b in down - {without}:
                if a == here and b not in found:
                    found.add(b)
                    todo.append(b)
        return found

    foundation = {room for layer in layers()[-FOUNDATION:] for room in layer}
    return {edge for edge in down if edge[1] not in foundation and edge[1] not in reach(edge[0], edge)}


def draw() -> str:
    """Return the picture as SVG."""
    rows = layers()
    places: dict[str, tuple[float, float, float]] = {}
    parts = []
    y = MARGIN
    for row in rows:
        width = min(440.0, (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row))
        left = (WIDTH - width * len(row) - GAP * (len(row) - 1)) / 2
        for number, room in enumerate(row):
            places[room] = (left + number * (width + GAP), y, width)
        y += BOX + GAP
    for a, b in sorted(imports(list(places))):
        (xa, ya, wa), (xb, yb, wb) = places[a], places[b]
        start, end = (xa + wa / 2, ya + BOX), (xb + wb / 2, yb)
        parts.append(
            f'<path d="M{start[0]:.0f},{start[1]:.0f} C{start[0]:.0f},{start[1] + GAP:.0f} '
            f'{end[0]:.0f},{end[1] - GAP:.0f} {end[0]:.0f},{end[1]:.0f}" fill="none" stroke="{ARROW}" '
            f'stroke-width="1.4" marker-end="url(#tip)"/>'
        )
    for room, (x, top, width) in places.items():
        parts.append(
            f'<rect x="{x:.0f}" y="{top}" width="{width:.0f}" height="{BOX}" rx="6" fill="{PAPER}" stroke="{WALL}"/>'
        )
        path = ROOT / "src/mihash" / room
        name = f"{room}/" if path.is_dir() else room
        parts.append(
            f'<text x="{x + 10:.0f}" y="{top + 20}" font-weight="bold" font-size="15">{escape(name)}</text>'
        )
        lines = wrap(sentence(room), max(12, int(width / 6.6)))
        if len(lines) > 3:
            lines = [*lines[:2], lines[2].rstrip(".,;:") + " ..."]
        for number, text in enumerate(lines):
            parts.append(
                f'<text x="{x + 10:.0f}" y="{top + 20 + LINE * (number + 1)}" font-size="11.5">{escape(text)}</text>'
            )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-family="sans-serif" fill="{INK}">'
        f'<rect width="{WIDTH}" height="{y}" fill="white"/>'
        f'<defs><marker id="tip" markerWidth="7" markerHeight="6" refX="6" refY="3" orient="auto">'
        f'<path d="M0,0 L7,3 L0,6 z" fill="{ARROW}"/></marker></defs>'
    )
    return "\n".join([head, *parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw())
