"""Infers a table's time unit, factor, collective and ranks by arithmetic, and refuses rows that contradict them.

The factor is busbw / algbw, which all rows of a table share. assembly.py and table_builder.py pass the rows of
each table.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from busbw.collectives import bandwidth_ratio
from busbw.logs.log import Refusal, Row
from busbw.logs.plain_rows import PlainColumns
from busbw.readers.tables import arithmetic
from busbw.readers.tables.arithmetic import Interpretation, PlacementNumbers, RatioInterval
from busbw.readers.tables.facts import TableFacts
from busbw.readers.tables.identity import TableIdentity, agrees_with_columns, identify, stated_identity
from busbw.readers.tables.layouts import RawRow, has_whole_shares
from busbw.readers.tables.quantities import NOT_FINITE, half_step, is_number
from busbw.readers.tables.rows import RowBuilder
from busbw.readers.tables.uniform_rows import UniformRows
from busbw.units import count_text

_MAX_CONTRADICTING_SHARE = 0.2
"""Maximum share of informative figures that may contradict. Above it, the rows count as those of several runs."""
_FIGURES_PER_ROW = 2
"""Number of placements in one row. A single row with a wrong size does not make a table mixed."""
_MIN_DESCENDING_ROWS = 3
"""Minimum number of rows that show an order of sizes."""
_SAMPLE_ROWS = 2
"""Number of rows with precise figures that decide about a table first."""
_AVERAGE_TOLERANCE = 1e-4
"""Relative tolerance of the footer's average beyond rounding."""

Entry = RawRow | UniformRows
"""A row, or several uniform ones."""
_NumberedRow = tuple[RawRow, tuple[PlacementNumbers, ...]]
"""A row with the numbers of each placement."""


class TableInference:
    """Inference for one table. The result of the first chunk of a long table applies to the later chunks."""

    def __init__(self, facts: TableFacts, claimed_collective: str | None, source: str) -> None:
        self.facts = facts
        self.identity = TableIdentity(None, None)
        self.warnings: list[str] = []
        self.is_mixed = False
        """True if rows of different runs are mixed, so that the collective is unknown whatever the header states."""
        self._claimed_collective = claimed_collective
        self._source = source
        self._interpretation = Interpretation()
        self._factor: RatioInterval | None = None
        self._row_builder: RowBuilder | None = None
        self._may_have_passes = True
        self._requires_whole_shares = False
        """True if most rows have a size that is a multiple of the bytes of their count. Others are then damaged."""

    def infer_rows(self, entries: Sequence[Entry]) -> tuple[list[Row | PlainColumns], list[Refusal]]:
        """Returns the valid rows and the refused ones.

        If all rows agree with a complete header, nothing is inferred. Otherwise a few precise rows of a longer chunk
        decide about the table first, which is faster. If a row is then refused or the number of ranks is unknown, all
        rows decide together.
        """
        if self._row_builder is not None:
            return self._build_rows(entries, self._row_builder)
        self._may_have_passes = not are_descending(entries)
        if rows := self._build_stated_rows(entries):
            return rows, []
        settings = dict(self.facts.settings)
        if sum(map(_count_rows, entries)) > 4 * _SAMPLE_ROWS:  # in fewer rows, a sample saves little
            builder = self._infer_facts(_select_precise_rows(entries))
            rows, refused = self._build_rows(entries, builder)
            if not refused and self.identity.ranks is not None:
                self._row_builder = builder
                return rows, refused
        # The sample, if any, did not suffice: what it added to the facts is removed.
        self.facts.settings = settings
        self.warnings = []
        self._row_builder = self._infer_facts(entries)
        return self._build_rows(entries, self._row_builder)

    def _build_stated_rows(self, entries: Sequence[Entry]) -> list[Row | PlainColumns]:
        """Returns the rows if all of them agree with the header, which then decides. Otherwise returns nothing."""
        identity = stated_identity(self.facts)
        has_usual_facts = self.facts.columns.unit in ("", "us") and not self._claimed_collective
        if identity is None or not has_usual_facts:
            return []
        factor = bandwidth_ratio(identity.collective, identity.ranks)
        builder = RowBuilder(self.facts, identity, Interpretation(), may_have_passes=self._may_have_passes)
        assert factor is not None
        uniform_rows = [entry for entry in entries if isinstance(entry, UniformRows)]
        if len(uniform_rows) < len(entries) or not builder.accepts_uniform_rows:
            return []
        if not all(agrees_with_columns(identity, rows) and rows.agrees(factor) for rows in uniform_rows):
            return []
        self.identity, self._factor = identity, RatioInterval(factor, factor)
        self._row_builder = builder
        return list(map(builder.columns, uniform_rows))

    @property
    def gbps_per_unit(self) -> float:
        """GB/s per unit of the printed bandwidths."""
        return arithmetic.GBPS_PER_UNIT[self._interpretation.bandwidth_unit]

    def closing_warnings(self) -> list[str]:
        """Returns all warnings, including those about a footer that contradicts the rows."""
        warnings = list(self.warnings)
        builder, footer_average = self._row_builder, self.facts.average
        if builder is None:
            return warnings
        if footer_average is not None and builder.busbw_count and is_number(footer_average):
            mean_busbw = builder.busbw_sum / builder.busbw_count
            rounding = builder.busbw_half_steps / builder.busbw_count + half_step(footer_average)
            tolerance = rounding + abs(mean_busbw) * _AVERAGE_TOLERANCE
            if abs(mean_busbw - float(footer_average)) > tolerance:
                warnings.append(
                    f"the footer's average is {footer_average} GB/s, but the rows above average {mean_busbw:.6g} GB/s: "
                    "rows are missing or were changed; do not use the footer's figure"
                )
        if self.facts.out_of_bounds == 0 and builder.wrong_figures:
            warnings.append(
                f"the footer reports no value out of bounds, but {count_text(builder.wrong_figures, 'figure')} "
                "counted wrong elements; check the rows"
            )
        return warnings

    def _build_rows(
        self, entries: Sequence[Entry], builder: RowBuilder
    ) -> tuple[list[Row | PlainColumns], list[Refusal]]:
        """Returns the rows that agree with the inferred facts, and the refused ones."""
        rows: list[Row | PlainColumns] = []
        refused: list[Refusal] = []
        may_be_fast = self._interpretation == Interpretation() and builder.accepts_uniform_rows
        factor = self._factor.middle if self._factor else None
        remaining = list(reversed(entries))  # a stack: the next entry is the last
        while remaining:
            entry = remaining.pop()
            if isinstance(entry, UniformRows):
                has_valid_sizes = not self._requires_whole_shares or entry.has_whole_shares
                if may_be_fast and has_valid_sizes and entry.agrees(factor):
                    rows.append(builder.columns(entry))
                elif may_be_fast and len(entry.lines) > 1:  # each half may agree
                    remaining += reversed(entry.split(len(entry.lines) // 2))
                else:  # the full parser decides
                    remaining += reversed(entry.raw_rows())
                continue
            placements = tuple(map(arithmetic.parse_numbers, entry.placement_texts))
            if reason := self._find_contradiction(entry, placements):
                refused.append(Refusal(line=entry.line, text=entry.text, reason=reason))
            else:
                rows += builder.rows(entry, placements)
        return rows, refused

    def _infer_facts(self, entries: Sequence[Entry]) -> RowBuilder:
        """Infers all facts of the table from these rows, and adds warnings."""
        numbered_rows = [
            (raw, tuple(map(arithmetic.parse_numbers, raw.placement_texts))) for raw in single_rows(entries)
        ]
        whole_count = sum(has_whole_shares(raw.size, raw.elements, raw.dtype) for raw, _ in numbered_rows)
        may_have_whole_shares = "alltoallv" not in (self.facts.stated_collective, self._claimed_collective)
        self._requires_whole_shares = may_have_whole_shares and 2 * whole_count > len(numbered_rows)
        self._select_interpretation(numbered_rows)
        common = self._common_ratio(numbered_rows)
        has_one_ratio = len(self.facts.group_ranks) < 2  # groups may differ in their number of ranks
        max_contradicting = max(_FIGURES_PER_ROW, common.informative_count * _MAX_CONTRADICTING_SHARE)
        is_mixed = has_one_ratio and common.contradicting_count > max_contradicting
        self.is_mixed = is_mixed
        if is_mixed:
            self.warnings.append(
                "busbw / algbw differs within the table: rows of different runs are mixed, and the collective and the "
                "ranks are unknown; put each run into its own file"
            )
        shared_ratio = common.ratio if has_one_ratio and not is_mixed else None
        self._factor = shared_ratio
        consistent_rows = [
            raw
            for raw, placements in numbered_rows
            if all(self._interpretation.is_consistent(raw, numbers) for numbers in placements)
            and not self._has_invalid_size(raw)
        ]
        self.identity = (
            identify(consistent_rows, shared_ratio, self.facts, self._claimed_collective, self._source)
            if consistent_rows
            else TableIdentity(self._claimed_collective or self.facts.stated_collective, None)
        )
        if is_mixed:
            self.identity = TableIdentity(self._claimed_collective, None, self.identity.warnings)
        self.warnings += self.identity.warnings
        if self.identity.ranks_from:
            self.facts.settings["ranks from"] = self.identity.ranks_from
        if self._interpretation.excludes_own_share and self.identity.collective != "hypercube":
            self.warnings.append(
                "algbw counts only the shares of the other ranks, as nccl-tests did until 2019: it is (n-1)/n of the "
                "value in newer logs; compare busbw"
            )
        self._replace_by_exact_factor(shared_ratio)
        return RowBuilder(self.facts, self.identity, self._interpretation, may_have_passes=self._may_have_passes)

    def _common_ratio(self, numbered_rows: list[_NumberedRow]) -> arithmetic.CommonRatio:
        """Returns busbw / algbw of the consistent figures."""
        ratios: list[RatioInterval] = []
        for raw, placements in numbered_rows:
            for numbers in placements:
                rate = self._interpretation.rate(raw, numbers)
                ratio = arithmetic.ratio(rate, numbers) if raw.size else None
                if ratio is not None and arithmetic.is_algbw_near(rate, numbers):
                    ratios.append(ratio)
        return arithmetic.common_ratio(ratios)

    def _select_interpretation(self, numbered_rows: list[_NumberedRow]) -> None:
        """Selects the time unit and the data that algbw counts."""
        columns = self.facts.columns
        stated = Interpretation(columns.unit or "us", has_time=not columns.has_cpu_time)
        # Of the programs with one placement, nccom-test prints GiB/s as GB/s. Elsewhere, such a row is damaged.
        bandwidth_units = ("GB/s", "GiB/s") if columns.has_one_placement else ("GB/s",)
        self._interpretation, contradicting_count = arithmetic.best_interpretation(
            numbered_rows, stated, bandwidth_units
        )
        figure_count = sum(len(placements) for _, placements in numbered_rows)
        if contradicting_count * 2 >= figure_count:
            self._interpretation = stated  # none fits: the rows that contradict the header's unit are refused
        elif self._interpretation.unit != stated.unit:
            unit = self._interpretation.unit
            if columns.unit:
                self.warnings.append(
                    f"the header states {columns.unit}, but by bytes / algbw the times are in {unit}; busbw uses {unit}"
                )
            self.facts.settings["time unit"] = f"{unit}, by bytes / algbw"
        if (unit := self._interpretation.bandwidth_unit) != stated.bandwidth_unit:
            self.warnings.append(
                f"the header states {stated.bandwidth_unit}, but by bytes / time the bandwidths are in {unit}; busbw "
                f"converts them to {stated.bandwidth_unit}"
            )
            self.facts.settings["bandwidth unit"] = f"{unit}, by bytes / time"

    def _replace_by_exact_factor(self, ratio: RatioInterval | None) -> None:
        """Replaces the measured factor by the exact one if the collective and the ranks are known."""
        identity = self.identity
        if identity.collective and identity.ranks and ratio:
            exact = bandwidth_ratio(identity.collective, identity.ranks)
            if exact is not None and ratio.contains(exact):
                self._factor = RatioInterval(exact, exact)

    def _has_invalid_size(self, raw: RawRow) -> bool:
        return self._requires_whole_shares and not has_whole_shares(raw.size, raw.elements, raw.dtype)

    def _find_contradiction(self, raw: RawRow, placements: tuple[PlacementNumbers, ...]) -> str:
        """Returns the contradiction in a row's figures; empty if they agree."""
        if all(numbers.time is numbers.algbw is numbers.busbw is None for numbers in placements):
            return "none of its times and bandwidths is a number"
        if self._has_invalid_size(raw):
            return f"size {raw.size} is not a multiple of the bytes of {raw.elements} {raw.dtype} elements"
        for numbers, texts in zip(placements, raw.placement_texts, strict=True):
            if None in numbers:
                for name, text in zip(("time", "algbw", "busbw"), texts, strict=False):
                    if text in NOT_FINITE:
                        return f'the {name} is "{text}", which is no measured value'
            if numbers.time == 0 and numbers.algbw:
                return f"the time is {texts.time}, but algbw is {texts.algbw}"
            rate = self._interpretation.rate(raw, numbers)
            if not arithmetic.is_algbw_near(rate, numbers):
                low, high = rate
                rate_text = f"{(low + high) / 2:.4g}" if high < 1e12 else f"{low:.4g} or more"
                division = f"{self._interpretation.data_bytes(raw)} bytes / {texts.time} {self._interpretation.unit}"
                return f"algbw {texts.algbw} is not {division} = {rate_text} {self._interpretation.bandwidth_unit}"
            if self._factor is not None and raw.size:
                ratio = arithmetic.ratio(rate, numbers)
                if ratio is not None and not ratio.overlaps(self._factor):
                    return (
                        f"busbw {texts.busbw} is not algbw {texts.algbw} x {self._factor.middle:.4g}, "
                        "as in the rest of the table"
                    )
        return ""


def are_descending(entries: Sequence[Entry]) -> bool:
    """True if each of several rows has a smaller size than the row above, so that they are no passes of -N."""
    row_count = 1
    for earlier, size in pairwise(_sizes(entries)):
        if size >= earlier:
            return False
        row_count += 1
    return row_count >= _MIN_DESCENDING_ROWS


def single_rows(entries: Iterable[Entry]) -> Iterator[RawRow]:
    """Yields the rows of all entries one by one."""
    for entry in entries:
        if isinstance(entry, UniformRows):
            yield from entry.raw_rows()
        else:
            yield entry


def _sizes(entries: Sequence[Entry]) -> Iterator[int]:
    for entry in entries:
        if isinstance(entry, UniformRows):
            yield from entry.sizes_bytes
        else:
            yield entry.size


def _count_rows(entry: Entry) -> int:
    return len(entry.lines) if isinstance(entry, UniformRows) else 1


def _select_precise_rows(entries: Sequence[Entry]) -> list[Entry]:
    """Returns the first row and the rows with the most significant digits of busbw, which determine the factor best."""
    positions = [(entry, index) for entry in entries for index in range(_count_rows(entry))]
    busbw_texts = (
        text
        for entry in entries
        for text in (entry.busbw_texts if isinstance(entry, UniformRows) else (entry.placement_texts[0].busbw,))
    )
    digit_counts = [len(text.lstrip("0.")) for text in busbw_texts]  # leading zeros are not significant
    by_precision = sorted(range(len(positions)), key=digit_counts.__getitem__, reverse=True)
    selected = [positions[number] for number in sorted({0, *by_precision[:_SAMPLE_ROWS]})]
    return [entry.raw_row(index) if isinstance(entry, UniformRows) else entry for entry, index in selected]
