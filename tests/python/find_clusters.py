"""Simulated clusters for the tests of `busbw find`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from busbw.find.cluster import Cluster
from busbw.find.findings import Finding, UndecidedParts, make_findings
from busbw.find.search import Search
from busbw.simulator.fabric import Fabric, parse_shape
from busbw.simulator.faults import parse_fault
from busbw.simulator.measurer import SimulatedMeasurer
from busbw.simulator.simulation import Noise, Simulation

SIMULATOR = Path(__file__).parent / "find" / "find_simulator.py"
"""A measuring program with a simulated cluster."""


@dataclass
class SearchSetup:
    """A simulated cluster, and the names that its measurer states."""

    simulation: Simulation
    seed: int
    rename_node: Callable[[str], str] = str

    def rename(self, rename_node: Callable[[str], str]) -> None:
        self.rename_node = rename_node


def simulate(
    shape: str,
    *faults: str,
    nodes_per_leaf: int = 32,
    layout: str = "rail",
    oversubscription: float = 1,
    noise: Noise | None = None,
    seed: int = 0,
) -> SearchSetup:
    nodes, gpus = parse_shape(shape)
    fabric = Fabric(
        nodes=nodes,
        gpus=gpus,
        layout=layout,  # type: ignore[arg-type]
        nodes_per_group=nodes_per_leaf,
        oversubscription=oversubscription,
    )
    parsed_faults = [parse_fault(text, fabric) for text in faults]
    return SearchSetup(Simulation(fabric, parsed_faults, noise or Noise(), seed), seed)


def find_parts(setup: SearchSetup) -> tuple[list[Finding], list[UndecidedParts]]:
    """Searches in the cluster and returns the result."""
    measurer = SimulatedMeasurer(setup.simulation)
    described = [
        msgspec.structs.replace(node, name=setup.rename_node(node.name)) for node in setup.simulation.fabric.describe()
    ]
    measurer.cluster = Cluster(described)
    search = Search(measurer=measurer, seed=setup.seed)
    explanation = search.run()
    return make_findings(search.observations(), explanation, measurer.cluster)
