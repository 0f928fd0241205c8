"""Scenario and system of a log. Facts that the log does not state stay unknown."""

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
    """Returns the system that matches a log's device names or title. None if unknown or ambiguous."""
    if any(rank.bus_id == "cpu" for rank in table.rank_list):
        return find("host")
    found = {system.name: system for device in table.devices if (system := find_in_text(device))}
    if len(found) > 1:
        return None  # no description fits several GPU types
    title = table.title or ""
    system = next(iter(found.values()), None) or find_in_text(title)
    if system is None:
        return None
    rest = _after_device(title, system)
    nics = nics_from_text(rest, _TITLE)
    if nics is None or not system.nics:
        return system
    return msgspec.structs.replace(system, nics=msgspec.structs.replace(nics, latency_us=system.nics.latency_us))


def _states_nics(table: Table) -> bool:
    """True if the log's title states the NICs. Otherwise they are the usual NICs of nodes with these GPUs."""
    system = system_of(table)
    return system is not None and system.nics is not None and system.nics.source == _TITLE


def _after_device(title: str, system: System) -> str:
    """Returns the text after the GPU's name. A number before the name counts GPUs, not NICs."""
    for device in sorted(system.devices, key=len, reverse=True):
        _, found, rest = title.partition(device)
        if found:
            return rest
    return ""


def hosts_of(table: Table, row: Row) -> Counter[str]:
    """Counts the ranks of a row's group on each host of the device list, in its order."""
    return Counter(rank.host for rank in table.rank_list if rank.group == row.group and rank.host)


def _groups_sharing_nics(table: Table, hosts: Counter[str]) -> int:
    """Returns the number of groups across nodes that share a node's NICs: the maximum over these hosts, at least 1."""
    group_hosts: dict[int, set[str | None]] = {}
    for rank in table.rank_list:
        group_hosts.setdefault(rank.group, set()).add(rank.host)
    crossing = [found for found in group_hosts.values() if len(found) > 1]
    return max((sum(host in found for found in crossing) for host in hosts), default=0) or 1


def scenario_of(table: Table, row: Row, system: System) -> Scenario | None:
    """Returns the scenario of a row. None if the number of ranks or the collective's traffic is unknown."""
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
        groups=_groups_sharing_nics(table, hosts) if is_whole else 1,
        dtype=row.dtype,
        nvls=table.environment.get("NCCL_NVLS_ENABLE", "").strip() != "0",
        gpus_per_thread=1 if table.is_in_graph else table.gpus_per_thread,
        algorithm=_only_algorithm(table.environment.get("NCCL_ALGO", "")),
    )


def _only_algorithm(value: str) -> str | None:
    """Returns the algorithm in NCCL_ALGO in lower case. None unless the variable names exactly one."""
    return value.lower() if re.fullmatch(r"[A-Za-z]+", value) else None


def _scenario_finder(table: Table, system: System | None) -> Callable[[Row], Scenario | None]:
    """Returns a function that gives the scenario of a row. Rows with equal properties share one scenario."""
    known: dict[tuple[object, ...], Scenario | None] = {}

    def job(row: Row) -> Scenario | None:
        key = (row.collective, row.ranks, row.group, row.dtype)
        if key not in known:
            known[key] = scenario_of(table, row, system) if system else None
        return known[key]

    return job


class NetworkNics(NamedTuple):
    """NICs that the expectation of a row across nodes uses."""

    nics: Nics
    is_stated: bool
    """True if the log or the user states the NICs. Otherwise they are the usual ones of nodes with these GPUs."""

    @property
    def assumption(self) -> str:
        """Text of the assumption. Empty if the NICs are stated."""
        return "" if self.is_stated else f"over {self.nics.text} per node, assumed"


def network_nics_finder(table: Table, system: System | None = None) -> Callable[[Row], NetworkNics | None]:
    """Returns a function that gives the NICs for a row. It returns None if the row's data do not cross NICs.

    Args:
        table: The rows' table.
        system: System that the user states; None to derive it from the log.
    """
    effective_system = system or system_of(table)
    scenario_of_row = _scenario_finder(table, effective_system)
    nics = (
        NetworkNics(effective_system.nics, system is not None or _states_nics(table))
        if effective_system and effective_system.nics
        else None
    )

    def nics_of(row: Row) -> NetworkNics | None:
        job = scenario_of_row(row)
        return nics if effective_system and job and node_count(job, effective_system) > 1 else None

    return nics_of


def estimator(table: Table, system: System | None = None) -> Callable[[Row], Estimate | None]:
    """Returns a function that gives the estimate of a row, for the `expected` column.

    Args:
        table: The rows' table.
        system: System of the run; None to derive it from the log.

    Returns:
        A function that returns None if there is no expectation: unknown system, one rank, or size 0.
    """
    effective_system = system or system_of(table)
    scenario_of_row = _scenario_finder(table, effective_system)
    known: dict[tuple[Scenario, int], Estimate | None] = {}

    def estimate(row: Row) -> Estimate | None:
        job = scenario_of_row(row)
        if job is None or effective_system is None or row.size_bytes <= 0:
            return None
        key = (job, row.size_bytes)
        if key not in known:
            known[key] = expect(job, effective_system, [row.size_bytes]).at(row.size_bytes)
        return known[key]

    return estimate
