"""Late ranks of several measurements: the rank that others waited for, its host, its delay and the number of sizes."""

from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

from msgspec import Struct

from busbw.logs.log import Figure, Row
from busbw.records import LateRankKind
from busbw.units import count_text

_MIN_SIZES = 2
"""Minimum number of sizes at which a rank must be late: at one of several sizes, a rank may be late by chance."""

_TEXT_BY_KIND: dict[LateRankKind, str] = {
    "late_start": "starts each iteration {late_us:.0f} us after all others",
    "slow_launch": "takes {late_us:.0f} us longer than others to launch an operation",
    "late_first": "began {late_us:.0f} us after all others",
    "slow_call": "takes {late_us:.0f} us longer for a call than the median of its equals",
}


class LateRank(Struct, kw_only=True, frozen=True):
    """A rank that the others waited for at several sizes."""

    kind: LateRankKind
    rank: int
    """Rank in the whole job."""
    host: str
    late_us: float
    """Median over the measurements that name the rank."""
    sizes: int
    """Number of sizes at which the rank was late."""
    measured_sizes: int
    """Number of all measured sizes."""

    @property
    def text(self) -> str:
        """Sentence about the rank, with a remedy."""
        late_text = _TEXT_BY_KIND[self.kind].format(late_us=self.late_us)
        sizes_text = f"at {self.sizes} of {count_text(self.measured_sizes, 'size')}"
        remedy = "check for other load on its host, and the CPU binding of its process"
        return f"rank {self.rank} on {self.host} {late_text}, {sizes_text}; {remedy}"


class _Delay(NamedTuple):
    """Delay of one late rank in one measurement."""

    size_bytes: int
    late_us: float


def late_ranks(rows: Iterable[Row], measured_sizes: int | None = None) -> tuple[LateRank, ...]:
    """Returns the late ranks of the rows of one or more configurations, the latest first.

    Args:
        rows: The rows. Rows without late ranks may be left out if `measured_sizes` is given.
        measured_sizes: Number of sizes of all rows. None: the sizes of `rows` are counted.
    """
    delays_by_rank: dict[tuple[LateRankKind, int, str], list[_Delay]] = {}
    sizes_bytes: set[int] = set()
    for row in rows:
        sizes_bytes.add(row.size_bytes)
        for figure in row.figures.values():
            for late in figure.late_ranks:
                delays = delays_by_rank.setdefault((late.kind, late.rank, late.host), [])
                delays.append(_Delay(row.size_bytes, late.late_us))
    if measured_sizes is None:
        measured_sizes = len(sizes_bytes)
    candidates = [
        LateRank(
            kind=kind,
            rank=rank,
            host=host,
            late_us=median(delay.late_us for delay in delays),
            sizes=len({delay.size_bytes for delay in delays}),
            measured_sizes=measured_sizes,
        )
        for (kind, rank, host), delays in delays_by_rank.items()
    ]
    min_sizes = min(_MIN_SIZES, measured_sizes)
    confirmed = (late_rank for late_rank in candidates if late_rank.sizes >= min_sizes)
    return tuple(sorted(confirmed, key=lambda late_rank: -late_rank.late_us))


def other_warnings(figure: Figure) -> list[str]:
    """Returns the warnings of a figure that do not name a late rank, because `late_ranks` summarizes those."""
    messages = {late.message for late in figure.late_ranks}
    return [warning for warning in figure.warnings if warning not in messages]
