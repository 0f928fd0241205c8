"""The collectives that busbw knows, from collectives.toml: their spellings, and how bytes become busbw."""

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

Factor = Literal["1", "(n-1)/n", "2(n-1)/n"]
"""Formula of a factor for n ranks."""

_LIMITS: dict[Factor, float] = {"1": 1.0, "(n-1)/n": 1.0, "2(n-1)/n": 2.0}
"""Value that each factor approaches with more ranks."""


class Collective(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One collective."""

    name: str
    """Name in records. The program is the name with the suffix `_perf`."""
    description: str
    """Verb phrase for the program's help: "reduces a buffer of every rank, ..."."""
    spelling: str
    """Regular expression of the name in logs. It ignores case."""
    bus_factor: Factor
    """Ratio of busbw to size / time."""
    algbw_factor: Factor = "1"
    """Ratio of algbw to size / time."""
    input: Literal["whole", "shares"]
    output: Literal["whole", "shares"]
    """Contents of the buffers of a rank. whole: one block of data. shares: one share for each rank."""
    redop: Literal["always", "never", "sometimes"]
    """Presence of a reduction operator in the rows of nccl-tests."""
    root: Literal["source", "target"] | None = None
    """source: only the root has an input. target: only the root has a result. None: the collective has no root."""
    runs_as_ring: bool = False
    """True if NCCL can run the collective as a ring. False: it consists of point-to-point transfers."""
    checked_in_place: bool = True
    """False if the result is undefined in place, so programs do not check it there."""
    always_named: bool = False
    """True if every program that measures this collective prints the name. A table without a name is of another one."""
    fast_methods: tuple[str, ...] = ()
    """Methods of the fast path, besides `nccl`. Empty if the fast path delegates the collective to NCCL."""

    @property
    def size(self) -> Literal["whole", "shares"]:
        """Meaning of the size: the data of one rank, or one share for each rank."""
        return "shares" if "shares" in (self.input, self.output) else "whole"

    @property
    def has_root(self) -> bool:
        """True if the rows of nccl-tests have a root."""
        return self.root is not None

    @property
    def reduces(self) -> bool:
        """True if the collective applies an operator."""
        return self.redop == "always"

    @property
    def has_constant_ratio(self) -> bool:
        """True if busbw / algbw is 1 for any number of ranks."""
        return self.bus_factor == self.algbw_factor

    @property
    def ratio_limit(self) -> float:
        """Value that busbw / algbw approaches with more ranks."""
        return 1.0 if self.has_constant_ratio else _LIMITS[self.bus_factor]

    def bus_factor_of(self, ranks: int) -> float:
        """Returns busbw / (size / time) on this number of ranks."""
        return _compute(self.bus_factor, ranks)

    def algbw_factor_of(self, ranks: int) -> float:
        """Returns algbw / (size / time) on this number of ranks."""
        return _compute(self.algbw_factor, ranks)

    def bandwidth_ratio_of(self, ranks: int) -> float:
        """Returns busbw / algbw on this number of ranks."""
        return 1.0 if self.has_constant_ratio else self.bus_factor_of(ranks) / self.algbw_factor_of(ranks)


def _compute(factor: Factor, ranks: int) -> float:
    return 1.0 if factor == "1" else _LIMITS[factor] * (ranks - 1) / ranks


@cache
def collectives() -> dict[str, Collective]:
    """Returns every collective by name."""
    content = Path(__file__).with_suffix(".toml").read_bytes()
    entries = msgspec.toml.decode(content, type=dict[Literal["collective"], list[Collective]])["collective"]
    return {entry.name: entry for entry in entries}


def bus_factor(name: str | None, ranks: int | None) -> float | None:
    """Returns busbw / (size / time) of a collective. None if the collective or the number of ranks is unknown."""
    collective = collectives().get(name or "")
    return collective.bus_factor_of(ranks) if collective and ranks else None


def algbw_factor(name: str | None, ranks: int | None) -> float | None:
    """Returns algbw / (size / time) of a collective: 1 if it is unknown. None if the factor needs the unknown ranks."""
    collective = collectives().get(name or "")
    if collective is None or collective.algbw_factor == "1":
        return 1.0
    return collective.algbw_factor_of(ranks) if ranks else None


def bandwidth_ratio(name: str | None, ranks: int | None) -> float | None:
    """Returns busbw / algbw of a collective. None if the collective or the number of ranks is unknown."""
    collective = collectives().get(name or "")
    return collective.bandwidth_ratio_of(ranks) if collective and ranks else None


COMM_OPS = "comm_ops"
"""Program that measures the life of communicators. It is no collective: its rows are calls without size and busbw."""

COLLECTIVES = tuple(collectives())
"""Names of all collectives. The engine measures each of them."""

PROGRAMS = (*COLLECTIVES, COMM_OPS)
"""Names of all programs of the engine without their suffix `_perf`."""
