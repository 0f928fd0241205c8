"""Recomputes the speed-ups of a published table and names those that its own figures contradict."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from busbw.readers.tables.quantities import PrintedNumber, parse_number
from busbw.units import count_text, size_text

_MAX_NAMED = 4


class _Column(Protocol):
    @property
    def at(self) -> int: ...
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
        self, size: int, cells: list[str], index: int, header: str, columns: Sequence[_Column]
    ) -> dict[str | None, float]:
        """Checks one printed speed-up of the variant in its header over the first other variant.

        Returns the printed speed-up by variant; empty if the cell or its columns cannot be read.
        """
        pair = self._pair(header, columns, index)
        printed = parse_number(cells[index])
        if pair is None or printed is None:
            return {}
        old, new = (parse_number(cells[column.at]) if column.at < len(cells) else None for column in pair)
        if old is None or new is None or old.value <= 0 or new.value <= 0:
            return {}
        if pair[0].metric != "time":
            old, new = new, old
        low, high = _quotient(old, new)
        claim, step = printed.value, printed.half_step
        if printed.unit == "%":
            claim, step = 1 + claim / 100, step / 100
        self._checked_count += 1
        if claim + step < low or claim - step > high:
            # The printed speed-up is outside the interval that the rounding of all three figures allows.
            self._wrong.append(
                _WrongSpeedup(size, cells[index], f"{old.value:g} / {new.value:g} = {old.value / new.value:.2f}x")
            )
        return {pair[1].variant: claim}

    def _pair(self, header: str, columns: Sequence[_Column], index: int) -> tuple[_Column, _Column] | None:
        """Returns the columns of the old and the new variant; None if the header is ambiguous."""
        candidates = [column for column in columns if column.metric != "speedup" and column.at < index]
        by_variant: dict[str, _Column] = {}
        for column in candidates:
            by_variant.setdefault(column.variant or "", column)
        named = [name for name in by_variant if name and _names(header, name)]
        new = max(named, key=len) if named else None
        if new is None and len(by_variant) == 2:
            new = list(by_variant)[1]
        others = [name for name in by_variant if name != new]
        if new is None or not others or by_variant[others[0]].metric != by_variant[new].metric:
            return None
        return by_variant[others[0]], by_variant[new]

    def warnings(self) -> list[str]:
        """Returns one warning that lists the wrong speed-ups; empty if all are right."""
        if not self._wrong:
            return []
        named = "; ".join(f"{size_text(w.size)}: {w.printed}, but {w.computed}" for w in self._wrong[:_MAX_NAMED])
        more = f"; and {len(self._wrong) - _MAX_NAMED} more" if len(self._wrong) > _MAX_NAMED else ""
        return [
            f"{len(self._wrong)} of {count_text(self._checked_count, 'printed speed-up')} "
            f"{'contradicts' if len(self._wrong) == 1 else 'contradict'} the table's own figures ({named}{more})"
        ]


def _names(header: str, variant: str) -> bool:
    """True if a header contains the variant's name as whole words: "MSCCL Speedup" names MSCCL, not NCCL."""
    words, name = header.lower().split(), variant.lower().split()
    return any(words[at : at + len(name)] == name for at in range(len(words) - len(name) + 1))


def _quotient(old: PrintedNumber, new: PrintedNumber) -> tuple[float, float]:
    """Returns the lower and upper bound of the ratio, given the rounding of both numbers."""
    low = (old.value - old.half_step) / (new.value + new.half_step)
    high = (old.value + old.half_step) / (new.value - new.half_step) if new.value > new.half_step else float("inf")
    return low, high
