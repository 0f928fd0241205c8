"""Independent model of table rows: values that nccl-tests' documentation defines, computed from the requested size."""

from dataclasses import dataclass
from fractions import Fraction

from busbw.collectives import collectives

ELEMENT_BYTES = {
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "half": 2,
    "float": 4,
    "double": 8,
    "bfloat16": 2,
    "f8e4m3": 1,
    "f8e5m2": 1,
}
DTYPES = list(ELEMENT_BYTES)
OPS = ["sum", "prod", "max", "min", "avg", "mulsum"]


@dataclass(frozen=True)
class Expected:
    size_bytes: int  # the size column
    count: int  # the count column
    algbw_bytes: int  # what is divided by the time
    bus_factor: Fraction  # from algbw to busbw


def whole_16_bytes(size_bytes: int) -> int:
    return size_bytes // 16 * 16


def alltoallv_pair_bytes(total_bytes: int, distance: int, ranks: int, spread: Fraction) -> int:
    """Bytes from a rank to the one `distance` after it: a blend of an even and a distance-proportional share."""
    even = Fraction(total_bytes, ranks)
    proportional = Fraction(distance * total_bytes, ranks * (ranks - 1) // 2)
    return whole_16_bytes(int((1 - spread) * even + spread * proportional))


def expected_row(collective: str, asked_bytes: int, dtype: str, ranks: int, spread: Fraction = Fraction(1)) -> Expected:
    element = ELEMENT_BYTES[dtype]
    elements = asked_bytes // element
    all_but_own = Fraction(ranks - 1, ranks)
    if collective in {"all_reduce", "broadcast", "reduce", "sendrecv"}:
        size = elements * element
        return Expected(size, elements, size, 2 * all_but_own if collective == "all_reduce" else Fraction(1))
    share = whole_16_bytes(elements // ranks * element) // element
    size = share * ranks * element
    if collective == "hypercube":
        return Expected(size, share, size - share * element, Fraction(1))
    if collective == "alltoallv":
        size = sum(alltoallv_pair_bytes(size, distance, ranks, spread) for distance in range(ranks))
    return Expected(size, share, size, all_but_own)


def redop_column(collective: str, op: str) -> str:
    """sendrecv shows the operator though it uses none; hypercube shows nothing."""
    if collectives()[collective].redop != "never":
        return op
    return "" if collective == "hypercube" else "none"
