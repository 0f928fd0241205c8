"""Recomputes the speed-ups of a published table and names those that its own figures contradict.

A published table may have a column of figures for each variant, such as two libraries. A further column may have the
printed speed-up of one variant over another. Of these two, the new variant is the one that the speed-up is claimed for,
and the baseline is the other one. published_tables.py calls this for each row.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from busbw.readers.other_tables.published_columns import MetricColumn
from busbw.readers.tables.quantities import PrintedNumber, parse_number
from busbw.units import count_text, size_text

_MAX_NAMED = 4
"""Maximum number of wrong speed-ups that a warning lists."""
_BASELINE = re.compile(r"\b[NR]CCL\b|\bbaseline\b", re.IGNORECASE)
"""Name of a variant that others are compared with."""


class _WrongSpeedup(NamedTuple):
    size: int
    """In bytes."""
    printed: str
    computed: str


class SpeedupChecks:
    """Checks the speed-ups of one table."""

    def __init__(self) -> None:
        self._checked_count = 0
        self._wrong: list[_WrongSpeedup] = []

    def check(
        self, size: int, cells: list[str], index: int, header: str, columns: Sequence[MetricColumn]
    ) -> dict[str | None, float]:
        """Checks the printed speed-up in `cells[index]`. `header` is the title of its column, `size` is in bytes.

        Returns the printed speed-up by its variant; empty if the cell or its columns cannot be read.
        """
        compared_columns = _find_columns(header, columns, index)
        printed = parse_number(cells[index])
        if compared_columns is None or printed is None:
            return {}
        baseline_column, new_column = compared_columns
        baseline, new = (
            parse_number(cells[column.position]) if column.position < len(cells) else None
            for column in compared_columns
        )
        if baseline is None or new is None or baseline.value <= 0 or new.value <= 0:
            return {}
        # A speed-up is the ratio of the baseline's time to the new time, but of the new bandwidth to the baseline's.
        numerator, denominator = (baseline, new) if baseline_column.metric == "time" else (new, baseline)
        min_ratio, max_ratio = _ratio_bounds(numerator, denominator)
        claim, half_step = printed.value, printed.half_step
        if printed.unit == "%":
            claim, half_step = 1 + claim / 100, half_step / 100
        self._checked_count += 1
        if claim + half_step < min_ratio or claim - half_step > max_ratio:
            # The printed speed-up is outside the interval that the rounding of all three figures allows.
            ratio = numerator.value / denominator.value
            computed = f"{numerator.value:g} / {denominator.value:g} = {ratio:.2f}x"
            self._wrong.append(_WrongSpeedup(size, cells[index], computed))
        return {new_column.variant: claim}

    def warnings(self) -> list[str]:
        """Returns one warning that lists the wrong speed-ups; empty if all are right."""
        if not self._wrong:
            return []
        examples = "; ".join(
            f"{size_text(wrong.size)}: {wrong.printed}, but {wrong.computed}" for wrong in self._wrong[:_MAX_NAMED]
        )
        more = f"; and {len(self._wrong) - _MAX_NAMED} more" if len(self._wrong) > _MAX_NAMED else ""
        return [
            f"{len(self._wrong)} of {count_text(self._checked_count, 'printed speed-up')} "
            f"{'contradicts' if len(self._wrong) == 1 else 'contradict'} the table's own figures ({examples}{more})"
        ]


def _find_columns(header: str, columns: Sequence[MetricColumn], index: int) -> tuple[MetricColumn, MetricColumn] | None:
    """Returns the columns of the baseline and of the new variant; None if the header is ambiguous.

    The new variant is the one that the header names. Of two others it is the second; but beside a library or baseline
    it is the one without a name, the program that prints the table. The baseline is the first other variant. Only
    columns before the column `index` of the speed-up count.
    """
    candidates = [column for column in columns if column.metric != "speedup" and column.position < index]
    by_variant: dict[str, MetricColumn] = {}
    for column in candidates:
        by_variant.setdefault(column.variant or "", column)
    named = [variant for variant in by_variant if variant and _has_name(header, variant)]
    new = max(named, key=len) if named else None
    if new is None and len(by_variant) == 2:
        is_beside_baseline = "" in by_variant and any(map(_BASELINE.search, by_variant))
        new = "" if is_beside_baseline else list(by_variant)[1]
    others = [variant for variant in by_variant if variant != new]
    if new is None or not others or by_variant[others[0]].metric != by_variant[new].metric:
        return None
    return by_variant[others[0]], by_variant[new]


def _has_name(header: str, variant: str) -> bool:
    """True if a header contains the variant's name as whole words: "MSCCL Speedup" names MSCCL, not NCCL."""
    words, name = header.lower().split(), variant.lower().split()
    return any(words[start : start + len(name)] == name for start in range(len(words) - len(name) + 1))


def _ratio_bounds(numerator: PrintedNumber, denominator: PrintedNumber) -> tuple[float, float]:
    """Returns the lower and upper bound of the ratio, given the rounding of both numbers."""
    min_ratio = (numerator.value - numerator.half_step) / (denominator.value + denominator.half_step)
    min_denominator = denominator.value - denominator.half_step
    max_ratio = (numerator.value + numerator.half_step) / min_denominator if min_denominator > 0 else float("inf")
    return min_ratio, max_ratio
