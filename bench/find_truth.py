"""Judges the answers to simulated faults: those of `busbw find` and of the three existing rules, for bench/find.py."""

from collections.abc import Iterable

from busbw.find.naming import NamedPart
from busbw.simulator.fabric import Fabric
from busbw.simulator.faults import SimulatedFault

_NETWORK_FAULTS = ("rail", "leaf", "uplink", "one-uplink")
"""Faults outside of the nodes. The rules name only nodes, so each node that they name is wrong."""


def truth_of(fault: SimulatedFault, fabric: Fabric) -> list[NamedPart]:
    """Returns the parts that name a fault correctly. Several, if they are the same hardware."""
    place = fault.place
    node = f"n{place[0]}"
    leaves = {number: name for name, number in fabric.leaf_numbers().items()}
    if fault.kind in ("nic", "nic-send", "nic-receive", "failover"):
        direction = {"nic-send": "send", "nic-receive": "receive"}.get(fault.kind, "both")
        nics = [place[1]] if fault.kind != "failover" else [place[1], (place[1] + 1) % fabric.gpus]
        return [
            NamedPart(kind="nic", node=node, nic=f"mlx5_{nic}", gpu=nic, rail=nic, direction=direction)  # type: ignore[arg-type]
            for nic in nics
        ]
    if fault.kind == "gpu":
        return [NamedPart(kind="gpu", node=node, gpu=place[1])]
    if fault.kind == "gpu-ports":
        return [NamedPart(kind="nvlink", node=node, gpus=(place[1],))]
    if fault.kind == "nvlink":
        return [NamedPart(kind="nvlink", node=node, gpus=tuple(sorted(place[1:])))]
    if fault.kind == "node":
        return [NamedPart(kind="node", node=node, direction="both")]
    if fault.kind == "pair":
        return [NamedPart(kind="pair", nodes=tuple(f"n{number}" for number in sorted(place)), direction="both")]
    has_one_leaf_per_rail = fabric.layout == "rail" and fabric.nodes <= fabric.nodes_per_group
    rail = NamedPart(kind="rail", rail=place[0])
    if fault.kind == "rail" and not has_one_leaf_per_rail:
        return [rail]
    if fault.kind in ("rail", "leaf"):
        leaf = NamedPart(kind="leaf", leaf=leaves[place[0]])
        return [rail, leaf] if has_one_leaf_per_rail else [leaf]
    return [NamedPart(kind="uplink", leaf=leaves[place[0]], direction="both")]


def find_result(
    fault: str, truth: list[list[NamedPart]], findings: Iterable[NamedPart], undecided: Iterable[NamedPart]
) -> str:
    """Returns the result of a search. Right: all faults are named, and nothing else."""
    named = [_without_figures(finding) for finding in findings]
    faulty_parts = [part for same_hardware in truth for part in same_hardware]
    if any(part not in faulty_parts for part in named):
        return "wrong"
    open_parts = list(undecided)
    if fault == "failover":
        # No flow can show which of the two NICs failed: both share one port.
        pair = truth[0]
        return "right" if all(part in named or part in open_parts for part in pair) else "missed"
    if open_parts:
        return "undecided"
    is_each_fault_named = all(any(part in named for part in same_hardware) for same_hardware in truth)
    return "right" if is_each_fault_named else "missed"


def _without_figures(part: NamedPart) -> NamedPart:
    """Returns the names of a finding without its figures."""
    return NamedPart(**{name: getattr(part, name) for name in NamedPart.__struct_fields__})


def baseline_result(fault: str, faults: list[SimulatedFault], accused: frozenset[int]) -> str:
    """Returns the result of a rule, which can only name nodes. Right: exactly the nodes with a fault."""
    if not faults:
        return "wrong" if accused else "right"
    if not accused:
        return "missed"
    if fault in _NETWORK_FAULTS:
        return "wrong"
    if fault == "pair":  # one of the two nodes suffices
        return "right" if accused <= set(faults[0].place) else "wrong"
    nodes = {simulated_fault.place[0] for simulated_fault in faults}
    if not accused <= nodes:
        return "wrong"
    return "right" if accused == nodes else "missed"
