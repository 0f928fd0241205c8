"""Expectation of a healthy system for the collectives of a trace."""

from collections import Counter
from collections.abc import Sequence

from busbw.collectives import collectives
from busbw.expect import Estimate, Scenario, expect
from busbw.system import System
from busbw.traces.analysis.types import CommunicatorGroup, OperationRow
from busbw.traces.model import Trace


def nodes_of_ranks(trace: Trace, system: System | None) -> dict[int | None, str]:
    """Returns the known nodes by rank of the job. No key is None, so a member of None (unknown) has no node.

    If no host is known, `system.ranks_per_node` consecutive ranks share a node.
    """
    hosts: dict[int | None, str] = {rank.rank: rank.host for rank in trace.ranks if rank.host}
    if hosts or system is None:
        return hosts
    return {rank: str(rank // system.ranks_per_node) for rank in range(trace.size)}


def estimate_row(
    row: OperationRow, group: CommunicatorGroup, trace: Trace, system: System, nodes: dict[int | None, str]
) -> Estimate | None:
    """Returns the estimate for a row. None if there is no expectation, for example because a node is unknown."""
    member_lists = [trace.communicators[index].members for index in group.communicators]
    node_lists = [[nodes.get(rank) for rank in members] for members in member_lists]
    size = row.max_size_bytes
    if row.function not in collectives() or not size or None in node_lists[0]:
        return None
    ranks_by_node = Counter(node_lists[0])
    scenario = Scenario(
        collective=row.function,
        ranks=group.size,
        ranks_per_node=max(ranks_by_node.values()),
        node_ranks=tuple(ranks_by_node.values()),
        groups=_max_communicators_per_node(node_lists),
        dtype=row.dtypes[0] if len(row.dtypes) == 1 else None,
    )
    return expect(scenario, system, [size]).at(size)


def _max_communicators_per_node(node_lists: Sequence[Sequence[str | None]]) -> int:
    """Returns the maximum number of communicators that share the NICs of a node.

    `node_lists`: for each communicator, the node of each rank.
    """
    communicator_counts: Counter[str | None] = Counter()  # by node
    for nodes in map(set, node_lists):
        if len(nodes) > 1:  # otherwise the communicator uses no NIC
            communicator_counts.update(nodes)
    return max(communicator_counts.values(), default=1)
