"""Recomputes the speed-ups of a published table and names those that its own figures contradict.

published.py reads the table. A speed-up column compares two variants, such as two libraries.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from busbw.readers.tables.quantities import PrintedNumber, parse_number
from busbw.units import count_text, size_text

_MAX_NAMED = 4
"""Maximum number of wrong speed-ups that a warning lists."""


class _MetricColumn(Protocol):
    """The properties of `published.MetricColumn` that are used here."""

    @property
    def position(self) -> int: ...
    @property
    def metric(self) -> str: ...
    @property
    def variant(self) -> str | None: ...


class _WrongSpeedup(NamedTuple):
    size: int
    printed: str
    computed: str


class SpeedupChecks:
    """Checks the speed-ups of one table."""

    def __init__(self, variants: Sequence[str | None]) -> None:
        self._variants = list(dict.fromkeys(variants))
        self._checked_count = 0
        self._wrong: list[_WrongSpeedup] = []

    def check(
        self, size: int, cells: list[str], index: int, header: str, columns: Sequence[_MetricColumn]
    ) -> dict[str | None, float]:
        """Checks one printed speed-up. It is that of the variant in its header over the first other variant.

        Args:
            size: Size of the row in bytes.
            cells: Cells of the row.
            index: Index of the cell with the speed-up.
            header: Header of the speed-up's column.
            columns: Columns of the table.

        Returns:
            The printed speed-up by variant. Empty if the cell or the columns that it compares cannot be read.
        """
        pair = self._compared_columns(header, columns, index)
        printed = parse_number(cells[index])
        if pair is None or printed is None:
            return {}
        old, new = (parse_number(cells[column.position]) if column.position < len(cells) else None for column in pair)
        if old is None or new is None or old.value <= 0 or new.value <= 0:
            return {}
        if pair[0].metric != "time":  # a speed-up divides old by new time, but new by old bandwidth
            old, new = new, old
        min_ratio, max_ratio = _ratio_bounds(old, new)
        claimed, half_step = printed.value, printed.half_step
        if printed.unit == "%":  # 50 % is 1.5x
            claimed, half_step = 1 + claimed / 100, half_step / 100
        self._checked_count += 1
        if claimed + half_step < min_ratio or claimed - half_step > max_ratio:
            # The printed speed-up is outside the interval that the rounding of all three figures allows.
            self._wrong.append(
                _WrongSpeedup(size, cells[index], f"{old.value:g} / {new.value:g} = {old.value / new.value:.2f}x")
            )
        return {pair[1].variant: claimed}

    def _compared_columns(
        self, header: str, columns: Sequence[_MetricColumn], index: int
    ) -> tuple[_MetricColumn, _MetricColumn] | None:
        """Returns the columns of the old and the new variant; None if the header is ambiguous."""
        candidates = [column for column in columns if column.metric != "speedup" and column.position < index]
        by_variant: dict[str, _MetricColumn] = {}
        for column in candidates:
            by_variant.setdefault(column.variant or "", column)
        named = [name for name in by_variant if name and _contains_name(header, name)]
        new_name = max(named, key=len) if named else None
        if new_name is None and len(by_variant) == 2:
            new_name = list(by_variant)[1]
        old_names = [name for name in by_variant if name != new_name]
        if new_name is None or not old_names or by_variant[old_names[0]].metric != by_variant[new_name].metric:
            return None
        return by_variant[old_names[0]], by_variant[new_name]

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


def _contains_name(header: str, variant: str) -> bool:
    """True if a header contains the variant's name as whole words: "MSCCL Speedup" names MSCCL, not NCCL."""
    words, name = header.lower().split(), variant.lower().split()
    return any(words[start : start + len(name)] == name for start in range(len(words) - len(name) + 1))


def _ratio_bounds(old: PrintedNumber, new: PrintedNumber) -> tuple[float, float]:
    """Returns the lower and upper bound of the ratio, given the rounding of both numbers."""
    low = (old.value - old.half_step) / (new.value + new.half_step)
    high = (old.value + old.half_step) / (new.value - new.half_step) if new.value > new.half_step else float("inf")
    return low, high
