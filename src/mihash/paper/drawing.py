"""The canvas of every picture; only pictures need matplotlib."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..errors import NotReady

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def require_matplotlib() -> None:
    """Raise `NotReady` where matplotlib is not installed; call it before hours of work that end in a picture."""
    if find_spec("matplotlib") is None:
        raise NotReady("A picture needs matplotlib: pip install 'mihash[figures]'.")


def new_figure(**options: Any) -> "Figure":
    """Return an empty figure of matplotlib that needs no display."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(**options)
    FigureCanvasAgg(figure)
    return figure
