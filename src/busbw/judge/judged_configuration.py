"""Verdicts with the facts that identify their configurations: log, table, collective, hosts, group and system."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from busbw.expect import Expectation, effective_system, hosts_of
from busbw.judge.reference_selection import ReferenceSelection
from busbw.judge.types import Grade, Verdict
from busbw.judge.verdicts import iterate_verdicts
from busbw.logs import Log
from busbw.system import Nics, System


class JudgedConfiguration(Struct, kw_only=True, frozen=True):
    """One configuration of a log: the rows that differ only in size and pass. None means unknown."""

    log: str
    """Path of the log as given by the user, or '-' for standard input."""
    table: int
    """Number of the table in its log, from 1."""
    start_time: str | None
    """Start of the run, as the log states it."""
    collective: str | None
    """'all_reduce', ..."""
    dtype: str | None
    redop: str | None
    """Reduction operator. None also if the collective does not reduce."""
    root: int | None
    """Root rank. None also if the collective has no root."""
    ranks: int | None
    group: int
    """Group of ranks under NCCL_TESTS_SPLIT."""
    variant: str | None
    """Library or kernel, if the table compares several."""
    hosts: tuple[str, ...]
    """Hosts of the group. Empty if the log does not list its ranks."""
    system: str | None
    """Name of the system that the expectation is for."""
    verdict: Verdict
    expectation: Expectation | None
    """Expected time and busbw at the sizes of the configuration. None if the system or the traffic is unknown."""

    @property
    def grade(self) -> Grade:
        """Grade of the verdict."""
        return self.verdict.grade


def judge_configurations(
    log: Log,
    *,
    system: System | None = None,
    nics: Nics | None = None,
    sharp: bool = False,
    selection: ReferenceSelection | None = None,
    needs_curve: Callable[[Verdict], bool] = lambda _verdict: True,
) -> Iterator[JudgedConfiguration]:
    """Yields each configuration of a log of any length with its verdict. Arguments: as of `iterate_verdicts`."""
    for number, table, series, context, verdict in iterate_verdicts(
        log, system=system, nics=nics, sharp=sharp, selection=selection, needs_curve=needs_curve
    ):
        row = series.row if series else None
        table_system = context.system if context else effective_system(table, system, nics=nics, sharp=sharp)
        yield JudgedConfiguration(
            log=log.source,
            table=number,
            start_time=table.start_time,
            collective=table.collective_of(row) if row else table.collective,
            dtype=row.dtype if row else None,
            redop=row.redop if row else None,
            root=row.root if row else None,
            ranks=table.ranks_of(row) if row else table.ranks,
            group=row.group if row else 0,
            variant=row.variant if row else None,
            hosts=tuple(hosts_of(table, row)) if row else table.hosts,
            system=table_system.name if table_system else None,
            verdict=verdict,
            expectation=context.expectation if context else None,
        )
