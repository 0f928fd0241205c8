"""Reads Slurm's topology.conf and topology.yaml. A block counts as a leaf switch. Slurm does not know NICs."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from busbw.launchers.slurm.hostlist import expand_hostlist
from busbw.launchers.slurm.node_order import Switch, parse_switches
from busbw.network_topology.leaves import Attachment


class _Switch(Struct, frozen=True):
    """A switch of a tree, or a block. The name is in the field `switch` or `block`."""

    switch: str = ""
    block: str = ""
    children: str = ""
    nodes: str = ""


class _Switches(Struct, frozen=True):
    switches: list[_Switch] = []
    blocks: list[_Switch] = []


class SlurmTopology(Struct, frozen=True):
    """One of the topologies in topology.yaml."""

    topology: str
    cluster_default: bool = False
    tree: _Switches = _Switches()
    block: _Switches = _Switches()


def parse_topology_conf(text: str) -> Iterator[Attachment]:
    """Yields the attachments of topology.conf, or of the output of `scontrol show topology`."""
    return _attachments(parse_switches(text))


def attachments_of_default_topology(topologies: list[SlurmTopology]) -> Iterator[Attachment]:
    """Yields the attachments of the default topology of topology.yaml, or of the first if none is the default."""
    if not topologies:
        return
    topology = next((topology for topology in topologies if topology.cluster_default), topologies[0])
    switches = [*topology.tree.switches, *topology.block.blocks]
    yield from _attachments(Switch(switch.switch or switch.block, switch.children, switch.nodes) for switch in switches)


def _attachments(switches: Iterable[Switch]) -> Iterator[Attachment]:
    for switch in switches:
        if switch.children:  # no leaf: `scontrol show topology` repeats the nodes of the switches below it
            continue
        try:
            yield from (Attachment(node, None, switch.name) for node in expand_hostlist(switch.nodes))
        except ValueError as error:
            raise ValueError(f"the nodes of {switch.name} are no host list: {error}") from error
