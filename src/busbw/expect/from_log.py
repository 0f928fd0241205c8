"""What a log says of the job and of the system that it ran on; what it does not say stays unknown."""

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from busbw.expect.limits import COLLECTIVES, node_count
from busbw.expect.predict import expect
from busbw.expect.types import Estimate, Scenario
from busbw.logs import Row, Table
from busbw.system import Nics, System, find, find_in_text, nics_from_text

_TITLE = "the log's own title"


def system_of(table: Table) -> System | None:
    """The system that a log's device names, or its title, are of."""
    if any(rank.bus_id == "cpu" for rank in table.rank_list):
        return find("host")
    found = {system.name: system for device in table.devices if (system := find_in_text(device))}
    if len(found) > 1:
        return None  # several kinds of GPU: no description fits
    title = table.title or ""
    system = next(iter(found.values()), None) or find_in_text(title)
    if system is None:
        return None
    beside = _after_device(title, system)
    nics = nics_from_text(beside, _TITLE)
    if nics is None or not system.nics:
        return system
    return msgspec.structs.replace(system, nics=msgspec.structs.replace(nics, latency_us=system.nics.latency_us))


def _states_nics(table: Table) -> bool:
    """Whether the log says what NICs a node has; else they are those that nodes with its GPUs usually have."""
    system = system_of(table)
    return system is not None and system.nics is not None and system.nics.source == _TITLE


def _after_device(title: str, system: System) -> str:
    """What follows the GPU's name: the number before it is that of GPUs."""
    for device in sorted(system.devices, key=len, reverse=True):
        _, found, rest = title.partition(device)
        if found:
            return rest
    return ""


def hosts_of(table: Table, row: Row) -> Counter[str]:
    """How many ranks of a row's group the device list has on each host, in its order."""
    return Counter(rank.host for rank in table.rank_list if rank.group == row.group and rank.host)


def _groups_beside(table: Table, hosts: Counter[str]) -> int:
    """How many groups that leave their nodes, and so share the NICs, have ranks on one of these hosts; at least one."""
    where: dict[int, set[str | None]] = {}
    for rank in table.rank_list:
        where.setdefault(rank.group, set()).add(rank.host)
    crossing = [found for found in where.values() if len(found) > 1]
    return max((sum(host in found for found in crossing) for host in hosts), default=0) or 1


def scenario_of(table: Table, row: Row, system: System) -> Scenario | None:
    """The job of a row; None where the number of ranks, or what the collective moves, is not known."""
    collective, ranks = table.collective_of(row), table.ranks_of(row)
    if collective not in COLLECTIVES or ranks is None:
        return None
    hosts = hosts_of(table, row)
    is_whole = hosts.total() == ranks
    return Scenario(
        collective=collective,
        ranks=ranks,
        ranks_per_node=max(hosts.values()) if is_whole else min(ranks, system.ranks_per_node),
        node_ranks=tuple(hosts.values()) if is_whole else (),
        groups=_groups_beside(table, hosts) if is_whole else 1,
        dtype=row.dtype,
        nvls=table.environment.get("NCCL_NVLS_ENABLE", "").strip() != "0",
        gpus_per_thread=1 if table.is_in_graph else table.gpus_per_thread,
        algorithm=_only_algorithm(table.environment.get("NCCL_ALGO", "")),
    )


def _only_algorithm(value: str) -> str | None:
    """NCCL_ALGO, where it names exactly one."""
    return value.lower() if re.fullmatch(r"[A-Za-z]+", value) else None


def _job_finder(table: Table, system: System | None) -> Callable[[Row], Scenario | None]:
    """A function that gives the job of a row: one for all rows that differ in nothing that it is made of."""
    known: dict[tuple[object, ...], Scenario | None] = {}

    def job(row: Row) -> Scenario | None:
        key = (row.collective, row.ranks, row.group, row.dtype)
        if key not in known:
            known[key] = scenario_of(table, row, system) if system else None
        return known[key]

    return job


class NetworkNics(NamedTuple):
    """The NICs that a row is expected with, since its ranks are on several nodes."""

    nics: Nics
    is_stated: bool
    """Whether somebody says that a node has them; else they are the usual ones of nodes with these GPUs."""

    @property
    def assumption(self) -> str:
        """What is taken for granted of them; empty where they are stated."""
        return "" if self.is_stated else f"over {self.nics.text} per node, which nobody states"


def network_nics_finder(table: Table, system: System | None = None) -> Callable[[Row], NetworkNics | None]:
    """A function that gives for a row the NICs it is expected with; None where nothing crosses any.

    Args:
        table: The rows' table.
        system: What somebody says it ran on; without it what the log says.
    """
    where = system or system_of(table)
    job_of_row = _job_finder(table, where)
    crossed = NetworkNics(where.nics, system is not None or _states_nics(table)) if where and where.nics else None

    def crossed_by(row: Row) -> NetworkNics | None:
        job = job_of_row(row)
        return crossed if where and job and node_count(job, where) > 1 else None

    return crossed_by


def estimator(table: Table, system: System | None = None) -> Callable[[Row], Estimate | None]:
    """The `expected` column: a function that gives for a row what a healthy system reaches.

    Args:
        table: The rows' table.
        system: What it ran on; without it what the log says.

    Returns:
        A function that gives None where there is no expectation: nothing is known of the system, one rank, size 0.
    """
    where = system or system_of(table)
    job_of_row = _job_finder(table, where)
    known: dict[tuple[Scenario, int], Estimate | None] = {}

    def estimate(row: Row) -> Estimate | None:
        job = job_of_row(row)
        if job is None or where is None or row.size_bytes <= 0:
            return None
        key = (job, row.size_bytes)
        if key not in known:
            known[key] = expect(job, where, [row.size_bytes]).at(row.size_bytes)
        return known[key]

    return estimate
