"""Show answers in notebooks: as a line, a table and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairlead.errors import InputError

if TYPE_CHECKING:
    import polars

    from fairlead.model.cluster import FloatArray, IntArray


@dataclass(frozen=True)
class Plot:
    """A picture of an answer, which notebooks show.

    Attributes
    ----------
    title : str
    page : str
        The picture as an HTML page without scripts, for a file.
    height : int
        Height in a notebook, in pixels.
    """

    title: str
    page: str
    height: int

    def __repr__(self) -> str:
        return f"<picture: {self.title}>"

    def _repr_html_(self) -> str:
        """Return a frame with the page, whose styles do not apply to the notebook."""
        style = f"width: 100%; height: {self.height}px; border: 0"
        return f'<iframe srcdoc="{escape(self.page)}" style="{style}"></iframe>'


class Tabular:
    """Base of answers that print as a line, and in notebooks as a table."""

    frames: tuple[str, ...] = ("users",)  # names of the tables of `to_frame`; the first by default

    def to_frame(self, what: str = "") -> polars.DataFrame:
        """Return a table as a polars frame, which `to_pandas` converts.

        `what` is one of `frames`, by default the first. Raises InputError for another name.
        """
        if what and what not in self.frames:
            fault = f"must be one of {', '.join(self.frames)}, not {what!r:.60}"
            raise InputError(fault, "what")
        return frame_of(self._columns(what or self.frames[0]))

    def _repr_html_(self) -> str:
        """Return the summary and the first table, for notebooks."""
        table = self.to_frame()._repr_html_()
        return f"<pre>{escape(repr(self))}</pre>{table}"

    def _columns(self, what: str) -> Mapping[str, Any]:
        """Return the columns of the table named `what`, by heading."""
        raise NotImplementedError


class Plottable(Tabular):
    """Base of answers that can also be drawn."""

    def plot(self) -> Plot:
        """Return a picture."""
        drawn: Plot = import_module("fairlead.report.plots").plot(self)  # imports this module
        return drawn


def frame_of(columns: Mapping[str, Any]) -> polars.DataFrame:
    """Return columns as a polars frame; NaN becomes null, so that polars leaves it out of means."""
    # `fill_nan` takes column names such as `*` and `^...$` for patterns, so it sees numbers.
    numbered = {str(k): values for k, values in enumerate(columns.values())}
    frame: polars.DataFrame = import_module("polars").DataFrame(numbered)  # slow to import
    frame = frame.fill_nan(None)
    frame.columns = list(columns)
    return frame


def labelled(
    rows: Sequence[str], columns: Sequence[str], values: FloatArray | IntArray, first: str = "user"
) -> dict[str, Any]:
    """Return the columns of a table by name: the names of the rows, then the columns of `values`.

    The first one is named `first`, with underscores added while another has that name.
    """
    while first in columns:
        first += "_"
    return {first: list(rows)} | {name: values[:, k] for k, name in enumerate(columns)}
