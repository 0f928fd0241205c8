"""Converts printed rows to `logs.Row` after inference.py has determined the collective, the ranks and the time unit."""

from itertools import chain, repeat
from operator import lt
from typing import Literal

import msgspec

from busbw.collectives import collectives
from busbw.logs.log import Figure, Placement, Row
from busbw.logs.plain_rows import PlainColumns
from busbw.readers.tables.arithmetic import GBPS_PER_UNIT, UNITS_US, Interpretation, PlacementNumbers
from busbw.readers.tables.facts import TableFacts
from busbw.readers.tables.identity import TableIdentity
from busbw.readers.tables.layouts import PlacementText, RawRow, placements_of
from busbw.readers.tables.quantities import NO_NUMBER
from busbw.readers.tables.uniform_rows import UniformRows

_PER_ITERATION = ("min_us", "max_us", "p99_us", "cv_percent")


class RowBuilder:
    """Builds the rows of one table in order. Counts the passes of -N (`Row.cycle`). Sums busbw to check the footer."""

    def __init__(
        self, facts: TableFacts, identity: TableIdentity, interpretation: Interpretation, *, may_have_passes: bool
    ) -> None:
        self.busbw_sum = 0.0
        """Sum of all busbw figures, in the unit of the table."""
        self.busbw_half_steps = 0.0
        """Sum of the maximum rounding errors of all busbw figures, in the unit of the table."""
        self.busbw_count = 0
        self.wrong_figures = 0
        """Number of figures with wrong elements."""
        self._facts = facts
        self._identity = identity
        self._us_per_unit = UNITS_US[interpretation.unit]
        self._gbps_per_unit = GBPS_PER_UNIT[interpretation.bandwidth_unit]
        self._has_cpu_time = facts.columns.has_cpu_time
        # The repeated sizes of several separate jobs would look like passes.
        self._may_have_passes = may_have_passes and len(facts.rank_zero_processes) < 2
        self._cycle_by_group: dict[int, int] = {}
        self._first_configuration_by_group: dict[int, tuple[object, ...]] = {}
        self._last_size_by_group: dict[int, int] = {}

    def rows(self, raw: RawRow, placements: tuple[PlacementNumbers, ...]) -> list[Row]:
        """Returns one row, or one per backend if the line has several side by side."""
        columns = self._facts.columns
        names = placements_of(raw, columns)
        figures = [
            self._make_figure(texts, numbers, name)
            for texts, numbers, name in zip(raw.placement_texts, placements, names, strict=True)
        ]
        if columns.backends:
            return [
                self._make_row(raw, {"unstated": figure} if figure else {}, variant)
                for variant, figure in zip(columns.backends, figures, strict=False)
            ]
        named: dict[Placement, Figure] = {}
        for name, figure in zip(names, figures, strict=True):
            if figure is not None and name not in named:  # a row has only one figure of unstated placement
                named[name] = msgspec.structs.replace(figure, **raw.figure_fields.get(name, {}))
        return [self._make_row(raw, named, raw.variant)]

    @property
    def accepts_uniform_rows(self) -> bool:
        """True if the fast parser may be used."""
        columns = self._facts.columns
        return columns.is_classic and not self._facts.group_ranks

    def columns(self, rows: UniformRows) -> PlainColumns:
        """Returns uniform rows as columns."""
        busbws_by_row = zip(rows.out_of_place.figures.busbws_gbps, rows.in_place.figures.busbws_gbps, strict=True)
        for busbw in chain.from_iterable(busbws_by_row):
            self.busbw_sum += busbw  # unlike sum(), it rounds as for single rows
        self.busbw_half_steps += 2 * rows.in_place.bandwidth_half_step_gbps * len(rows.lines)
        self.busbw_count += 2 * len(rows.lines)
        return rows.columns(self._next_cycles(rows) if self._may_have_passes else [0] * len(rows.lines))

    def _next_cycles(self, rows: UniformRows) -> list[int]:
        """Returns the pass of each row."""
        sizes = rows.sizes_bytes
        roots = [-1 if root is None else root for root in rows.roots]
        configurations = zip(rows.dtypes, rows.redops, roots, strict=True)
        group = 0  # a table with groups accepts no uniform rows
        if all(map(lt, sizes, sizes[1:])):  # no new pass begins after the first row
            cycle = self._next_cycle(group, sizes[0], next(configurations))
            self._last_size_by_group[group] = sizes[-1]
            return [cycle] * len(sizes)
        return list(map(self._next_cycle, repeat(group), sizes, configurations))

    def _make_row(self, raw: RawRow, figures: dict[Placement, Figure], variant: str | None) -> Row:
        identity, groups = self._identity, self._facts.group_ranks
        configuration = (raw.dtype, raw.redop, -1 if raw.root is None else raw.root)
        counted_cycle = self._next_cycle(raw.group, raw.size, configuration) if self._may_have_passes else 0
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
            cycle=raw.cycle or counted_cycle,
            variant=variant,
            figures=figures,
            timestamp=raw.timestamp,
        )

    def _next_cycle(self, group: int, size: int, configuration: tuple[object, ...]) -> int:
        """Returns the pass of a row: the value of `Row.cycle`.

        A configuration is the type, operator and root. A new pass begins if the first configuration appears again with
        a size that is not larger than that of the row before. Some collectives round small sizes down to 0, so
        consecutive zeros belong to one pass.
        """
        last_size = self._last_size_by_group.get(group)
        self._last_size_by_group[group] = size
        if last_size is None:
            self._first_configuration_by_group[group] = configuration
        elif last_size > 0 and size <= last_size and configuration == self._first_configuration_by_group[group]:
            self._cycle_by_group[group] = self._cycle_by_group.get(group, 0) + 1
        return self._cycle_by_group.get(group, 0)

    def _make_figure(self, texts: PlacementText, numbers: PlacementNumbers, placement: Placement) -> Figure | None:
        """Returns the figures of one placement; None if nothing was measured."""
        if numbers.time is None and numbers.algbw is None and numbers.busbw is None:
            return None
        if numbers.busbw is not None:
            self.busbw_sum += numbers.busbw
            self.busbw_half_steps += numbers.busbw_half_step
            self.busbw_count += 1
        time_us = None if numbers.time is None else numbers.time * self._us_per_unit
        algbw_gbps = None if numbers.algbw is None else numbers.algbw * self._gbps_per_unit
        busbw_gbps = None if numbers.busbw is None else numbers.busbw * self._gbps_per_unit
        wrong = texts.wrong
        is_plain = not (texts.per_iteration or texts.algorithm or self._has_cpu_time)
        if wrong == "0" and is_plain:  # the most frequent case
            return Figure(
                time_us=time_us, algbw_gbps=algbw_gbps, busbw_gbps=busbw_gbps, check="checked", wrong_elements=0
            )
        elements, warnings = self._parse_wrong(wrong)
        if elements:
            self.wrong_figures += 1
        algorithm, protocol, channels = _parse_algorithm(texts.algorithm)
        return Figure(
            time_us=None if self._has_cpu_time else time_us,
            cpu_time_us=time_us if self._has_cpu_time else None,
            algbw_gbps=algbw_gbps,
            busbw_gbps=busbw_gbps,
            check=self._check_state(wrong, placement),
            wrong_elements=elements,
            warnings=warnings,
            per_iteration=_parse_per_iteration(texts.per_iteration),
            algorithm=algorithm,
            protocol=protocol,
            channels=channels,
        )

    def _check_state(
        self, wrong: str, placement: Placement
    ) -> Literal["checked", "not_checked", "not_applicable", "unstated"]:
        if not wrong:
            return "unstated"
        if wrong not in NO_NUMBER:
            return "checked"
        collective = collectives().get(self._identity.collective or "")
        is_defined = placement != "in_place" or collective is None or collective.checked_in_place
        return "not_checked" if is_defined else "not_applicable"

    def _parse_wrong(self, wrong: str) -> tuple[int | None, tuple[str, ...]]:
        """Returns the number of wrong elements (None if unknown) and warnings.

        Until 2022 the last column was the largest error. Then only the footer states if elements were wrong.
        """
        if not wrong or wrong in NO_NUMBER:
            return None, ()
        value = float(wrong)
        if value == int(value) and not self._facts.columns.shows_error:
            return int(value), ()
        if value == 0 or self._facts.out_of_bounds == 0:
            return 0, ()
        return None, (f"the largest error is {wrong}; the log does not count the wrong elements",)


def _parse_algorithm(text: str) -> tuple[str | None, str | None, int | None]:
    """Returns algorithm, protocol and channels. None for an unknown one."""
    algorithm, protocol, channels = (None if part == "-" else part for part in (text or "-/-/-").split("/"))
    return algorithm, protocol, None if channels is None else int(channels)


def _parse_per_iteration(words: tuple[str, ...]) -> dict[str, float]:
    return {name: float(word) for name, word in zip(_PER_ITERATION, words, strict=False) if word not in NO_NUMBER}
