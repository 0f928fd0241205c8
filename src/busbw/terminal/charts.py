"""Charts of characters without colors, for the plots of `show`, `run` and `history`. plotext draws them."""

from collections.abc import Sequence


class Chart:
    """Chart with a title, curves or marks with labels, and ticks."""

    def __init__(self, title: str, width: int, height: int) -> None:
        """Makes an empty chart of `width` columns and `height` lines."""
        import plotext  # slow to import, and few commands draw a chart

        self._figure = plotext.figure
        """The only figure of plotext. It is cleared, so each chart must be finished before the next one is made."""
        self._uncolorize = plotext.uncolorize
        self._figure.clear()
        self._figure.plot_size(width, height)
        self._figure.title(title)

    def add(self, x: Sequence[float], y: Sequence[float], *, label: str, marker: str, are_joined: bool) -> None:
        """Draws a mark at each point, or a line through the points in the given order."""
        signal = self._figure.signal(list(x), list(y), marker=marker)
        signal.label(label)
        signal.lines(are_joined)
        self._figure.draw(signal)

    def add_vertical_line(self, x: float) -> None:
        """Draws a line over the whole height."""
        self._figure.line(x, orientation="vertical")

    def set_x_ticks(self, positions: Sequence[float], labels: Sequence[str]) -> None:
        """Sets the ticks of the horizontal axis."""
        self._figure.ruler("x").ticks(list(positions), list(labels))

    def set_y_ticks(self, positions: Sequence[float], labels: Sequence[str]) -> None:
        """Sets the ticks of the vertical axis."""
        self._figure.ruler("y").ticks(list(positions), list(labels))

    def set_y_range(self, low: float, high: float | None) -> None:
        """Sets the ends of the vertical axis. `high` is None for the maximum of the points."""
        self._figure.ruler("y").lim(low, high)

    def text(self) -> str:
        """Returns the lines of the chart, without colors and trailing blanks."""
        drawn = self._uncolorize(str(self._figure.build()))
        return "\n".join(line.rstrip() for line in drawn.splitlines())
