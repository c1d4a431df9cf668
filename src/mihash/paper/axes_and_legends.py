"""Axes and legends that the figures share."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

_LEGEND_CHARACTERS, _MARK_CHARACTERS = 120, 7


def stream_axis(axes: Axes) -> None:
    """Count examples of the stream along an axis."""
    axes.set_xlabel("examples of the stream")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def log_axis(axis: Axis, form: str) -> None:
    """Put plain numbers at 1, 2, 5, 10 and so on of an axis that is scaled by its logarithm."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(StrMethodFormatter(form))
    axis.set_minor_formatter(NullFormatter())


def mark(label: str, **options: Any) -> Line2D:
    """Return a line for the legend."""
    given: dict[str, Any] = {"color": "#333333", "lw": 1.8} | options
    return Line2D([], [], label=label, **given)


def legend(figure: Figure, marks: Sequence[Line2D]) -> None:
    """Put a legend below a figure, in two rows where one is too long."""
    fit = sum(len(str(mark.get_label())) + _MARK_CHARACTERS for mark in marks) <= _LEGEND_CHARACTERS
    columns = len(marks) if fit else -(-len(marks) // 2)
    figure.legend(handles=list(marks), loc="outside lower center", ncols=columns)
