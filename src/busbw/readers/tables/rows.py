"""Converts printed rows to `logs.Row`, after the inference of the table."""

from busbw.logs import Figure, Placement, Row
from busbw.readers.tables.arithmetic import UNITS_US, Interpretation, PlacementNumbers
from busbw.readers.tables.headers import TableFacts
from busbw.readers.tables.identity import TableIdentity
from busbw.readers.tables.layouts import PlacementText, RawRow
from busbw.readers.tables.quantities import DTYPES, NO_NUMBER

_PER_ITERATION = ("min_us", "max_us", "p99_us", "cv_percent")


class RowBuilder:
    """Builds the rows of one table in order. Counts the passes of -N and sums busbw to check the footer."""

    def __init__(self, facts: TableFacts, identity: TableIdentity, interpretation: Interpretation) -> None:
        self.busbw_sum = self.busbw_steps = 0.0
        self.busbw_count = 0
        self.wrong_figures = 0
        self._facts = facts
        self._identity = identity
        self._scale_us = UNITS_US[interpretation.unit]
        self._cpu_time = facts.columns.cpu_time
        self._may_repeat = len(facts.leaders) < 2
        self._cycle: dict[int, int] = {}
        self._first: dict[int, tuple[object, ...]] = {}
        self._last_size: dict[int, int] = {}

    def rows(self, raw: RawRow, sides: tuple[PlacementNumbers, ...]) -> list[Row]:
        """Returns one row, or one per backend if the line has several side by side."""
        columns = self._facts.columns
        figures = [self._figure(words, side, at) for at, (words, side) in enumerate(zip(raw.sides, sides, strict=True))]
        if columns.backends:
            return [
                self._row(raw, {"unstated": figure} if figure else {}, variant)
                for variant, figure in zip(columns.backends, figures, strict=False)
            ]
        names: tuple[Placement, ...] = columns.placements if len(figures) == len(columns.placements) else ("unstated",)
        named: dict[Placement, Figure] = {
            name: figure for name, figure in zip(names, figures, strict=False) if figure is not None
        }
        return [self._row(raw, named, None)]

    @property
    def accepts_fast_rows(self) -> bool:
        """True if the fast parser may be used."""
        columns = self._facts.columns
        return columns.is_classic and not self._facts.group_ranks

    def fast_row(self, line: int, size: int, words: list[str], first: Figure, second: Figure) -> Row:
        """Returns a row from the figures of the fast parser."""
        self.busbw_sum += first.busbw_gbps + second.busbw_gbps  # type: ignore[operator]
        self.busbw_steps += 0.01
        self.busbw_count += 2
        dtype, root = DTYPES[words[2]], int(words[4])
        redop = None if words[3] == "none" else words[3]
        return Row(
            line=line,
            collective=self._identity.collective,
            size_bytes=size,
            count=int(words[1]),
            dtype=dtype,
            redop=redop,
            root=root if root >= 0 else None,
            ranks=self._identity.ranks,
            cycle=self._cycle_of(0, size, (dtype, redop, root)) if self._may_repeat else 0,
            figures={"out_of_place": first, "in_place": second},
        )

    def _row(self, raw: RawRow, figures: dict[Placement, Figure], variant: str | None) -> Row:
        identity, groups = self._identity, self._facts.group_ranks
        return Row(
            line=raw.line,
            collective=identity.collective,
            size_bytes=raw.size,
            count=raw.elements,
            dtype=raw.dtype,
            redop=raw.redop,
            root=raw.root,
            ranks=groups.get(raw.group, identity.ranks) if groups else identity.ranks,
            group=raw.group,
            cycle=self._cycle_of(raw.group, raw.size, (raw.dtype, raw.redop, -1 if raw.root is None else raw.root))
            if self._may_repeat
            else 0,
            variant=variant,
            figures=figures,
            timestamp=raw.timestamp,
        )

    def _cycle_of(self, group: int, size: int, configuration: tuple[object, ...]) -> int:
        """Returns the pass of a row. A pass begins if the first configuration returns with a size that is not larger.

        Collectives with shares round small sizes down to 0, so several consecutive zeros belong to one pass.
        """
        last = self._last_size.get(group, -1)
        self._last_size[group] = size
        if last < 0:
            self._first[group] = configuration
        elif size <= last and last > 0 and configuration == self._first[group]:
            self._cycle[group] = self._cycle.get(group, 0) + 1
        return self._cycle.get(group, 0)

    def _figure(self, words: PlacementText, side: PlacementNumbers, at: int) -> Figure | None:
        """Returns the figures of one placement; None if nothing was measured."""
        if side.time is None and side.algbw is None and side.busbw is None:
            return None
        if side.busbw is not None:
            self.busbw_sum += side.busbw
            self.busbw_steps += side.busbw_step
            self.busbw_count += 1
        time_us = None if side.time is None else side.time * self._scale_us
        wrong = words.wrong
        if wrong == "0" and not words.per_iteration and not self._cpu_time:  # the most frequent case
            return Figure(
                time_us=time_us, algbw_gbps=side.algbw, busbw_gbps=side.busbw, check="checked", wrong_elements=0
            )
        elements, warnings = self._wrong(wrong)
        self.wrong_figures += bool(elements)
        return Figure(
            time_us=None if self._cpu_time else time_us,
            cpu_time_us=time_us if self._cpu_time else None,
            algbw_gbps=side.algbw,
            busbw_gbps=side.busbw,
            check=(
                "unstated"
                if not wrong
                else "checked"
                if wrong not in NO_NUMBER
                else "not_applicable"
                if at == 1 and self._identity.collective in ("alltoall", "alltoallv")
                else "not_checked"
            ),
            wrong_elements=elements,
            warnings=warnings,
            per_iteration=_per_iteration(words.per_iteration),
        )

    def _wrong(self, wrong: str) -> tuple[int | None, tuple[str, ...]]:
        """Returns the wrong elements and warnings. Until 2022 the last column was the largest error, not a count."""
        if not wrong or wrong in NO_NUMBER:
            return None, ()
        value = float(wrong)
        if value == int(value) and not self._facts.columns.shows_error:
            return int(value), ()
        if value == 0 or self._facts.out_of_bounds == 0:
            return 0, ()
        return None, (f"the largest error is {wrong}; the log does not count the wrong elements",)


def _per_iteration(words: tuple[str, ...]) -> dict[str, float]:
    return {name: float(word) for name, word in zip(_PER_ITERATION, words, strict=False) if word not in NO_NUMBER}
