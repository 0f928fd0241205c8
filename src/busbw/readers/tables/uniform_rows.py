"""Fast parser for uniform rows: both placements checked and right, figures with the same decimals.

This is the most frequent form. The parser reads consecutive rows at once. inference.py accepts them only if the figures
of all rows agree within their rounding, by bounds that are stricter than those of arithmetic.py. The full parser
(layouts.py) handles all other rows. Both give equal results. The parsers for JSON and CSV are in
documents/uniform_json_rows.py and uniform_csv_rows.py.
"""

import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence

from msgspec import Struct

from busbw.logs.plain_rows import FigureColumns, PlainColumns
from busbw.readers.tables.layouts import PlacementText, RawRow, has_whole_shares
from busbw.readers.tables.quantities import DTYPES, REDOPS

ROW_ENDS = (" 0\n", " 0\r\n")
"""Ends of a line that may be a uniform row: no wrong element in place."""
# Patterns of columns. A size and a count fit into 64 bits, a root into 32.
COUNT = r"\d{1,18}"
DTYPE = "|".join(sorted(DTYPES))
REDOP = "|".join(sorted(REDOPS))
ROOT = r"-1|\d{1,9}"
BANDWIDTH = r"\d{1,15}\.\d\d"
_GAP = r"[ \t]+"
_PLACEMENT = _GAP.join(("", r"(\d{1,15}(\.\d\d?)?)", f"({BANDWIDTH})", f"({BANDWIDTH})", "0"))
_ROW = re.compile(
    r"^[ \t]*"
    + _GAP.join(f"({column})" for column in (COUNT, COUNT, DTYPE, REDOP, ROOT))
    + 2 * _PLACEMENT
    + r"[ \t]*\r?\n",
    re.ASCII | re.MULTILINE,
)
_TIME_HALF_STEPS_US = (0.5, 0.0, 0.05, 0.005)
"""Maximum rounding error of a time, by the length of its point and decimals. Length 1, a lone point, does not occur."""
_BANDWIDTH_HALF_STEP_GBPS = 0.005
_MIN_TIME_US = 1.0
"""Below this time, rounding is a large part of the value, so the full parser decides."""


class UniformFigures(Struct, frozen=True, gc=False):
    """Figures of one placement by row, with the maximum rounding errors of the times."""

    figures: FigureColumns
    time_half_steps_us: list[float]
    bandwidth_half_step_gbps: float

    def agrees(self, sizes_bytes: Sequence[int], factor: float | None) -> bool:
        """True if the bandwidths of all rows agree with the sizes and the times.

        `factor`: busbw / algbw of the table. None if unknown: busbw is not checked.
        """
        figures, bandwidth_half_step_gbps = self.figures, self.bandwidth_half_step_gbps
        for size_bytes, time_us, half_step_us, algbw_gbps, busbw_gbps in zip(
            sizes_bytes,
            figures.times_us,
            self.time_half_steps_us,
            figures.algbws_gbps,
            figures.busbws_gbps,
            strict=True,
        ):
            if time_us < _MIN_TIME_US:
                return False
            rate_gbps = size_bytes / (time_us * 1e3)
            # Effect of the rounded time on the rate: the smaller of those upwards and downwards.
            slack_gbps = rate_gbps * half_step_us / (time_us + half_step_us)
            if abs(algbw_gbps - rate_gbps) > bandwidth_half_step_gbps + slack_gbps:
                return False
            if factor is not None and (
                abs(busbw_gbps - factor * rate_gbps) > bandwidth_half_step_gbps + factor * slack_gbps
                or abs(busbw_gbps - factor * algbw_gbps) > (1 + factor) * bandwidth_half_step_gbps
            ):
                return False
        return True


class UniformRows(Struct, frozen=True, gc=False):
    """Consecutive uniform rows, before inference.py has determined the facts of their table."""

    lines: list[int]
    sizes_bytes: list[int]
    counts: list[int | None]
    """Count column. None if the format has none."""
    dtypes: list[str]
    redops: list[str | None]
    roots: list[int | None]
    cycles: list[int]
    """Pass that each row states. 0 also if it states none."""
    out_of_place: UniformFigures
    in_place: UniformFigures
    busbw_texts: Sequence[str]
    """Printed busbw out of place."""

    def agrees(self, factor: float | None) -> bool:
        """True if all figures of all rows agree. `factor`: busbw / algbw of the table; None if unknown."""
        return self.out_of_place.agrees(self.sizes_bytes, factor) and self.in_place.agrees(self.sizes_bytes, factor)

    @property
    def has_whole_shares(self) -> bool:
        """True if all rows have whole shares, see layouts.py."""
        return all(map(has_whole_shares, self.sizes_bytes, self.counts, self.dtypes))

    def columns(self, counted_cycles: list[int]) -> PlainColumns:
        """Returns the rows as columns. `counted_cycles` has the passes of rows that state none."""
        return PlainColumns(
            self.lines,
            self.sizes_bytes,
            self.counts,
            self.dtypes,
            self.redops,
            self.roots,
            [stated or counted for stated, counted in zip(self.cycles, counted_cycles, strict=True)],
            self.out_of_place.figures,
            self.in_place.figures,
        )

    def split(self, count: int) -> "list[UniformRows]":
        """Returns the first rows, up to this number, and the others."""
        first, second = (self._parse_part(part) for part in (slice(count), slice(count, None)))
        # Each row is uniform, so both parts parse.
        assert first is not None
        assert second is not None
        return [first, second]

    @abstractmethod
    def _parse_part(self, part: slice) -> "UniformRows | None":
        """Parses some of the rows again."""

    @abstractmethod
    def raw_row(self, index: int) -> RawRow:
        """Returns one row in the form of the full parser."""

    def raw_rows(self) -> list[RawRow]:
        """Returns all rows in the form of the full parser."""
        return list(map(self.raw_row, range(len(self.lines))))


class _PrintedRows(UniformRows, frozen=True, gc=False):
    """Uniform rows of a text."""

    texts: list[str]
    """Each line without its wrapper."""
    prefix: str
    """Beginning of each text that is no part of the row."""

    def _parse_part(self, part: slice) -> UniformRows | None:
        return parse_uniform_rows(self.lines[part], self.texts[part], self.prefix)

    def raw_row(self, index: int) -> RawRow:
        text = self.texts[index]
        words = text[len(self.prefix) :].split()
        return RawRow(
            self.lines[index],
            text,
            self.sizes_bytes[index],
            self.counts[index],
            self.dtypes[index],
            self.redops[index],
            self.roots[index],
            (_split_placement(words[5:9]), _split_placement(words[9:13])),
            timestamp=None,
        )


def _split_placement(words: list[str]) -> PlacementText:
    time, algbw, busbw, wrong = words
    return PlacementText(time, algbw, busbw, wrong)


def is_uniform_row(text: str, prefix: str) -> bool:
    """True if `parse_uniform_rows` can parse a line that begins with the prefix."""
    return _ROW.match(text[len(prefix) :]) is not None


def parse_uniform_rows(lines: list[int], texts: list[str], prefix: str) -> UniformRows | None:
    """Parses consecutive rows with these line numbers. Returns None if one of them is not uniform.

    `texts` are the lines with their ends. All of them begin with the prefix.
    """
    rows = _ROW.findall("".join(texts) if not prefix else "".join([text[len(prefix) :] for text in texts]))
    if len(rows) != len(texts):
        return None
    sizes, counts, dtypes, redops, roots, *placements = zip(*rows, strict=True)
    return _PrintedRows(
        lines,
        list(map(int, sizes)),
        list(map(int, counts)),
        [DTYPES[dtype] for dtype in dtypes],
        [None if redop == "none" else redop for redop in redops],
        [None if root == "-1" else int(root) for root in roots],
        [0] * len(lines),
        make_figures(*placements[:4]),
        make_figures(*placements[4:]),
        placements[3],
        texts,
        prefix,
    )


def make_figures(
    times: Iterable[str], decimals: Iterable[str], algbws: Iterable[str], busbws: Iterable[str]
) -> UniformFigures:
    """Converts the columns of one placement. `decimals` has the point and the decimals of each time."""
    figures = FigureColumns(list(map(float, times)), list(map(float, algbws)), list(map(float, busbws)))
    half_steps_us = [_TIME_HALF_STEPS_US[len(text)] for text in decimals]
    return UniformFigures(figures, half_steps_us, _BANDWIDTH_HALF_STEP_GBPS)
