"""The option `--topology`: leaf switches that the description of a cluster does not state."""

from collections.abc import Sequence
from pathlib import Path

import click

from busbw.cli.options.param_types import NonEmptyPath
from busbw.find.cluster import Cluster
from busbw.find.measurer import Measurer
from busbw.network_topology.leaves import Attachment, with_leaves
from busbw.units import names_text, plain

_MAX_NAMES = 3
"""Maximum number of nodes that the message names."""

topology_option = click.option(
    "--topology",
    type=NonEmptyPath(dir_okay=False),
    metavar="FILE",
    help="Leaf switches: file of Slurm, ibnetdiscover or kubectl, or lines NODE LEAF.",
)


def add_leaf_switches(measurer: Measurer, attachments: Sequence[Attachment], path: Path) -> None:
    """Adds the leaf switches of a file to the cluster. Names on stderr the nodes with a NIC that has none."""
    nodes = with_leaves(measurer.cluster.nodes, attachments, str(path))
    measurer.cluster = Cluster(nodes)
    unknown = [node.name for node in nodes if any(nic.leaf is None for nic in node.nics)]
    if unknown:
        click.echo(plain(f"{path} lacks leaf switches of {names_text(unknown, _MAX_NAMES)}"), err=True)
