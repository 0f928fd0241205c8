"""Infers a table's time unit, factor, collective and ranks by arithmetic, and refuses rows that contradict them."""

from collections.abc import Sequence

from busbw.logs import Refusal, Row
from busbw.readers.tables import arithmetic, collectives, fast_rows
from busbw.readers.tables.arithmetic import Interpretation, PlacementNumbers, RatioInterval
from busbw.readers.tables.headers import TableFacts
from busbw.readers.tables.identity import TableIdentity, identify
from busbw.readers.tables.layouts import NotARowError, RawRow, parse
from busbw.readers.tables.quantities import half_step, is_number
from busbw.readers.tables.rows import RowBuilder
from busbw.units import count_text

_MAX_CONTRADICTING = 0.2
"""Maximum share of informative figures that may contradict. Above it, the rows are taken for those of several runs."""
_ONE_ROW = 2
"""Number of figures in one row. One wrong size makes both figures of its row contradict."""
_SAMPLE = 2

Entry = RawRow | fast_rows.SplitLine
_Numbered = tuple[RawRow, tuple[PlacementNumbers, ...]]


class TableInference:
    """Inference for one table. The result of the first chunk of a long table applies to the later chunks."""

    def __init__(self, facts: TableFacts, claim: str | None, source: str) -> None:
        self.facts = facts
        self.identity = TableIdentity(None, None)
        self.warnings: list[str] = []
        self._claim = claim
        self._source = source
        self._interpretation = Interpretation()
        self._factor: RatioInterval | None = None
        self._row_builder: RowBuilder | None = None

    def infer_rows(self, entries: Sequence[Entry]) -> tuple[list[Row], list[Refusal]]:
        """Returns the valid rows and the refused ones.

        In a longer chunk a few informative rows decide first. If then a row is refused, all rows decide together.
        """
        if self._row_builder is not None:
            return self._judge(entries, self._row_builder)
        settings = dict(self.facts.settings)
        if len(entries) > 4 * _SAMPLE:
            builder = self._decide(_informative(entries))
            rows, refused = self._judge(entries, builder)
            if not refused and self.identity.ranks is not None:
                self._row_builder = builder
                return rows, refused
        self.facts.settings = settings
        self.warnings = []
        self._row_builder = self._decide(entries)
        return self._judge(entries, self._row_builder)

    def closing_warnings(self) -> list[str]:
        """Returns all warnings, including those about a footer that contradicts the rows."""
        warnings = list(self.warnings)
        builder, claimed = self._row_builder, self.facts.average
        if builder is None:
            return warnings
        if claimed is not None and builder.busbw_count and is_number(claimed):
            mean = builder.busbw_sum / builder.busbw_count
            tolerance = builder.busbw_steps / builder.busbw_count + half_step(claimed) + abs(mean) * 1e-4
            if abs(mean - float(claimed)) > tolerance:
                warnings.append(
                    f"the footer's average is {claimed} GB/s, but the rows above average {mean:.6g} GB/s: rows are "
                    "missing or were changed; do not use the footer's figure"
                )
        if self.facts.out_of_bounds == 0 and builder.wrong_figures:
            warnings.append(
                f"the footer reports no value out of bounds, but {count_text(builder.wrong_figures, 'figure')} "
                "counted wrong elements; check the rows"
            )
        return warnings

    def _judge(self, entries: Sequence[Entry], builder: RowBuilder) -> tuple[list[Row], list[Refusal]]:
        rows: list[Row] = []
        refused: list[Refusal] = []
        may_be_fast = self._interpretation == Interpretation() and builder.accepts_fast_rows
        factor = self._factor.middle if self._factor else None
        for entry in entries:
            if may_be_fast and isinstance(entry, fast_rows.SplitLine):
                words = entry.words
                size = int(words[0])
                first = fast_rows.figure(size, words[5], words[6], words[7], words[8], factor)
                if first is not None:
                    second = fast_rows.figure(size, words[9], words[10], words[11], words[12], factor)
                    if second is not None:
                        rows.append(builder.fast_row(entry.number, size, words, first, second))
                        continue
            try:
                raw = self._raw(entry)
            except NotARowError as error:
                refused.append(
                    Refusal(
                        line=entry.number if isinstance(entry, fast_rows.SplitLine) else entry.line,
                        text=_text(entry),
                        reason=str(error),
                    )
                )
                continue
            sides = tuple(map(arithmetic.placement_numbers, raw.sides))
            if reason := self._contradiction(raw, sides):
                refused.append(Refusal(line=raw.line, text=raw.text, reason=reason))
            else:
                rows += builder.rows(raw, sides)
        return rows, refused

    def _raw(self, entry: Entry) -> RawRow:
        if isinstance(entry, RawRow):
            return entry
        return parse(entry.number, " ".join(entry.words), entry.words, self.facts.columns, self.facts.group)

    def _decide(self, entries: Sequence[Entry]) -> RowBuilder:
        numbered: list[_Numbered] = []
        for entry in entries:
            try:
                raw = self._raw(entry)
            except NotARowError:
                continue
            numbered.append((raw, tuple(map(arithmetic.placement_numbers, raw.sides))))
        self._choose_interpretation(numbered)
        ratios = [
            ratio
            for raw, sides in numbered
            for side in sides
            if self._interpretation.agrees(raw, side) and (ratio := arithmetic.ratio(raw, side, self._interpretation))
        ]
        common = arithmetic.common_ratio(ratios)
        has_one_ratio = len(self.facts.group_ranks) < 2
        is_mixed = has_one_ratio and common.contradicting > max(_ONE_ROW, common.informative * _MAX_CONTRADICTING)
        if is_mixed:
            self.warnings.append(
                "busbw / algbw differs within the table: rows of different runs are mixed, and the collective and the "
                "ranks are unknown; put each run into its own file"
            )
        known = common.ratio if has_one_ratio and not is_mixed else None
        self._factor = known
        fitting = [raw for raw, sides in numbered if all(self._interpretation.agrees(raw, side) for side in sides)]
        self.identity = (
            identify(fitting, known, self.facts, self._claim, self._source)
            if fitting
            else TableIdentity(self._claim or self.facts.stated_collective, None)
        )
        if is_mixed:
            self.identity = TableIdentity(self._claim, None, self.identity.warnings)
        self.warnings += self.identity.warnings
        if self.identity.ranks_from:
            self.facts.settings["ranks from"] = self.identity.ranks_from
        if self._interpretation.excludes_own_share and self.identity.collective != "hypercube":
            self.warnings.append(
                "algbw counts only the shares of the other ranks, as nccl-tests did until 2019: it is (n-1)/n of the "
                "value in newer logs; compare busbw"
            )
        self._use_exact_factor(known)
        return RowBuilder(self.facts, self.identity, self._interpretation)

    def _choose_interpretation(self, numbered: list[_Numbered]) -> None:
        columns = self.facts.columns
        first = Interpretation(columns.unit or "us", has_time=not columns.cpu_time)
        self._interpretation, contradicting = arithmetic.best_interpretation(numbered, first)
        figures = sum(len(sides) for _, sides in numbered)
        if contradicting * 2 >= figures:
            self._interpretation = first  # no interpretation fits; rows are refused by the unit of the header
        elif self._interpretation.unit != first.unit:
            unit = self._interpretation.unit
            if columns.unit:
                self.warnings.append(
                    f"the header states {columns.unit}, but by bytes / algbw the times are in {unit}; busbw uses {unit}"
                )
            self.facts.settings["time unit"] = f"{unit}, by bytes / algbw"

    def _use_exact_factor(self, ratio: RatioInterval | None) -> None:
        """Replaces the measured factor by the exact one if the collective and the ranks are known."""
        identity = self.identity
        if identity.collective and identity.ranks and ratio:
            exact = collectives.factor(identity.collective, identity.ranks)
            if ratio.meets(exact):
                self._factor = RatioInterval(exact, exact)

    def _contradiction(self, raw: RawRow, sides: tuple[PlacementNumbers, ...]) -> str:
        """Returns the contradiction in a row's figures; empty if they agree."""
        for side, words in zip(sides, raw.sides, strict=True):
            if not self._interpretation.agrees(raw, side):
                low, high = self._interpretation.rate(raw, side)
                rate = f"{(low + high) / 2:.4g}" if high < 1e12 else f"{low:.4g} or more"
                data = self._interpretation.data_bytes(raw)
                return (
                    f"algbw {words.algbw} is not {data} bytes / {words.time} {self._interpretation.unit} = {rate} GB/s"
                )
            if self._factor is not None and side.busbw is not None:
                ratio = arithmetic.ratio(raw, side, self._interpretation)
                if ratio is not None and not ratio.overlaps(self._factor):
                    return (
                        f"busbw {words.busbw} is not algbw {words.algbw} x {self._factor.middle:.4g}, "
                        "as in the rest of the table"
                    )
        return ""


def _informative(entries: Sequence[Entry]) -> list[Entry]:
    """Returns the first row and the rows with the most digits of busbw, which determine the factor best."""
    most = sorted(range(len(entries)), key=lambda at: _digits(entries[at]), reverse=True)[:_SAMPLE]
    return [entries[at] for at in sorted({0, *most})]


def _digits(entry: Entry) -> int:
    return len(entry.words[7]) if isinstance(entry, fast_rows.SplitLine) else len(entry.sides[0].busbw)


def _text(entry: Entry) -> str:
    return " ".join(entry.words) if isinstance(entry, fast_rows.SplitLine) else entry.text
