"""Derives the scenario and the system of a log, and the expectation for each of its rows.

A scenario is the collective, ranks, nodes and settings that an expectation depends on. Facts that a log does not state
stay unknown.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from busbw.collectives import collectives
from busbw.expect.limits import domain_count
from busbw.expect.predict import expect, with_nics, with_sharp
from busbw.expect.types import Estimate, Expectation, Scenario
from busbw.logs.log import Row, Table
from busbw.system import SYSTEM_VARIABLE, Nics, System, find, find_in_text, nics_from_text, systems

_TITLE_SOURCE = "the log's own title"
"""Source of NICs that the title of a log states."""
_FULL_BUS_ID = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(\.0)?")
"""Domain, bus and device of a GPU on PCI: 0000:0f:00."""


def system_of(table: Table) -> System | None:
    """Returns the system that a log's environment, device names or title state. None if unknown or ambiguous."""
    if any(rank.bus_id == "cpu" for rank in table.rank_list):
        return find("host")
    if stated_system := _stated_system(table):
        return stated_system
    systems_by_name = {system.name: system for device in table.devices if (system := find_in_text(device))}
    if len(systems_by_name) > 1:
        return None  # a system description has one GPU type
    title = table.title or ""
    system = next(iter(systems_by_name.values()), None) or find_in_text(title)
    if system is None:
        return None
    nics = nics_from_text(_text_after_device(title, system), _TITLE_SOURCE)
    if nics is None or system.nics is None:
        return system
    return msgspec.structs.replace(system, nics=system.nics.with_count_and_rate_of(nics))


def _stated_system(table: Table) -> System | None:
    """Returns the system in the run's environment, which `busbw launch --machine-type` sets. None if unknown."""
    return systems().get(table.environment.get(SYSTEM_VARIABLE, ""))


def effective_system(
    table: Table, system: System | None, *, nics: Nics | None = None, sharp: bool = False
) -> System | None:
    """Returns the system for the expectation of a table. None if it is unknown.

    Args:
        table: The table. If `system` is None, its log must name the system.
        system: System that the user states.
        nics: NICs that the user states. Their number and rate replace those of the system.
        sharp: True if the user states that the network reduces.
    """
    system = system or system_of(table)
    if system is None:
        return None
    if nics is not None:
        system = with_nics(system, nics)
    return with_sharp(system) if sharp else system


def _has_stated_nics(table: Table) -> bool:
    """True if title or environment of the log state the NICs. Otherwise the usual NICs of such nodes are assumed."""
    if stated_system := _stated_system(table):
        return stated_system.nics is not None
    system = system_of(table)
    return system is not None and system.nics is not None and system.nics.source == _TITLE_SOURCE


def _text_after_device(title: str, system: System) -> str:
    """Returns the text after the GPU's name, or nothing: in "2 x 16 H100, 8x400", only "8x400" is about NICs."""
    for device in sorted(system.devices, key=len, reverse=True):
        _, separator, text_after = title.partition(device)
        if separator:
            return text_after
    return ""


def hosts_of(table: Table, row: Row) -> Counter[str]:
    """Counts the ranks of a row's group on each host, in the order of the device list. Empty without such a list."""
    return Counter(rank.host for rank in table.rank_list if rank.group == row.group and rank.host)


def _max_groups_per_host(table: Table, hosts: Counter[str]) -> int:
    """Returns the largest number of groups that share the NICs of one of these hosts, at least 1.

    Only groups on several hosts use NICs.
    """
    hosts_by_group: dict[int, set[str | None]] = {}
    for rank in table.rank_list:
        hosts_by_group.setdefault(rank.group, set()).add(rank.host)
    groups_across_hosts = [group_hosts for group_hosts in hosts_by_group.values() if len(group_hosts) > 1]
    groups_per_host = [sum(host in group_hosts for group_hosts in groups_across_hosts) for host in hosts]
    return max([1, *groups_per_host])


def _shares_gpus(table: Table) -> bool:
    """True if several ranks of the device list have one GPU. MIG instances of one GPU have the same bus id.

    Only complete bus ids identify a GPU: older programs print "[0x00]" for every GPU of a virtual machine.
    """
    gpu_by_rank = {
        rank.rank: (rank.host, rank.bus_id)
        for rank in table.rank_list
        if rank.host and rank.bus_id and _FULL_BUS_ID.fullmatch(rank.bus_id)
    }
    return len(set(gpu_by_rank.values())) < len(gpu_by_rank)


def scenario_of(table: Table, row: Row, system: System) -> Scenario | None:
    """Returns the scenario of a row. None if the number of ranks or the collective's traffic is unknown.

    The model has no uneven traffic (--skew).
    """
    collective, ranks = table.collective_of(row), table.ranks_of(row)
    if collective not in collectives() or ranks is None or "skew" in table.settings:
        return None
    hosts = hosts_of(table, row)
    lists_all_ranks = hosts.total() == ranks
    return Scenario(
        collective=collective,
        ranks=ranks,
        ranks_per_node=max(hosts.values()) if lists_all_ranks else min(ranks, system.ranks_per_node),
        node_ranks=tuple(hosts.values()) if lists_all_ranks else (),
        groups=_max_groups_per_host(table, hosts) if lists_all_ranks else 1,
        dtype=row.dtype,
        nvls=table.environment.get("NCCL_NVLS_ENABLE", "").strip() != "0",
        # A CUDA graph runs its operations without the thread, so the thread's number of GPUs has no effect.
        gpus_per_thread=1 if table.is_in_graph else table.gpus_per_thread,
        is_in_graph=table.is_in_graph,
        shares_gpus=_shares_gpus(table),
        algorithm=_single_algorithm(table.environment.get("NCCL_ALGO", "")),
    )


def expectation_of(table: Table, row: Row, system: System, sizes_bytes: Iterable[int]) -> Expectation | None:
    """Returns the expectation of a row's configuration at these sizes. None if its scenario is unknown."""
    scenario = scenario_of(table, row, system)
    return expect(scenario, system, sorted(set(sizes_bytes))) if scenario else None


def _single_algorithm(value: str) -> str | None:
    """Returns the algorithm in a value of NCCL_ALGO: 'Ring' gives 'ring'. None for no value, and for 'Ring,Tree'."""
    name = value.lower()
    if name in ("collnetdirect", "collnetchain"):  # both use the same links
        return "collnet"
    return name if re.fullmatch(r"[a-z]+", name) else None


def _scenario_finder(table: Table, system: System) -> Callable[[Row], Scenario | None]:
    """Returns a function that gives the scenario of a row. Rows with equal properties share one scenario."""
    scenarios: dict[tuple[object, ...], Scenario | None] = {}

    def find_scenario(row: Row) -> Scenario | None:
        key = (row.collective, row.ranks, row.group, row.dtype)
        if key not in scenarios:
            scenarios[key] = scenario_of(table, row, system)
        return scenarios[key]

    return find_scenario


class NetworkNics(NamedTuple):
    """NICs that the expectation of a row across nodes uses."""

    nics: Nics
    is_stated: bool
    """True if the log or the user states the NICs. Otherwise the usual NICs of nodes with these GPUs are assumed."""

    @property
    def assumption(self) -> str:
        """Text of the assumption. Empty if the NICs are stated."""
        return "" if self.is_stated else f"over {self.nics.text} per node, assumed"


def network_nics_finder(table: Table, system: System | None = None) -> Callable[[Row], NetworkNics | None]:
    """Returns a function that gives the NICs for a row, or None if the row's data do not cross NICs.

    Args:
        table: The rows' table.
        system: System that the user states; None to derive it from the log.
    """
    table_system = effective_system(table, system)
    if table_system is None or table_system.nics is None:
        return lambda _row: None
    network_nics = NetworkNics(table_system.nics, system is not None or _has_stated_nics(table))
    find_scenario = _scenario_finder(table, table_system)

    def find_nics(row: Row) -> NetworkNics | None:
        scenario = find_scenario(row)
        # The ranks of one NVLink domain exchange data without NICs.
        crosses_nics = scenario is not None and domain_count(scenario, table_system) > 1
        return network_nics if crosses_nics else None

    return find_nics


def estimator(table: Table, system: System | None = None, *, sharp: bool = False) -> Callable[[Row], Estimate | None]:
    """Returns a function that gives the estimate of a row, for the `expected` column.

    Args:
        table: The rows' table.
        system: System of the run; None to derive it from the log.
        sharp: True if the user states that the network reduces.

    Returns:
        A function that returns None if a row has no expectation, as with one rank or size 0.
    """
    table_system = effective_system(table, system, sharp=sharp)
    if table_system is None:
        return lambda _row: None
    find_scenario = _scenario_finder(table, table_system)
    estimates: dict[tuple[Scenario, int], Estimate | None] = {}

    def estimate(row: Row) -> Estimate | None:
        scenario = find_scenario(row)
        if scenario is None or row.size_bytes <= 0:
            return None
        key = (scenario, row.size_bytes)
        if key not in estimates:
            estimates[key] = expect(scenario, table_system, [row.size_bytes]).at(row.size_bytes)
        return estimates[key]

    return estimate
