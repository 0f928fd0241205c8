"""Names of parts: the fields of `busbw find --json`, and text for people."""

from msgspec import Struct
from msgspec.structs import asdict, replace

from busbw.find.cluster import Cluster
from busbw.find.parts import Direction, Kind, Part, gpus_of, nodes_of

_DIRECTION_TEXT: dict[Direction, str] = {"send": ", sending only", "receive": ", receiving only", "both": ""}
_TEXTS: dict[Kind, str] = {
    "gpu": "GPU {gpu} of {node}",
    "nvlink": "NVLink of GPUs {gpu_pair} of {node}",
    "nic": "NIC {nic} of {node} ({served}{rail_suffix})",
    "numa": "NICs of NUMA node {numa} of {node}",
    "node": "node {node}",
    "pair": "network between {node_pair}",
    "rail": "rail {rail}",
    "leaf": "leaf switch {leaf}",
    "uplink": "uplinks of leaf {leaf}",
}
"""Text of a part in both directions, from the fields of `NamedPart` and the texts that `NamedPart.text` adds."""


class NamedPart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part by the names of the cluster. The fields that do not apply are missing."""

    kind: Kind
    node: str | None = None
    numa: int | None = None
    nodes: tuple[str, ...] | None = None
    nic: str | None = None
    gpu: int | None = None
    gpus: tuple[int, ...] | None = None
    """NVLinks: the two GPUs that they join, or one GPU with all its NVLinks. NIC: its GPUs, if it serves several."""
    rail: int | None = None
    leaf: str | None = None
    direction: Direction | None = None
    """Direction of the slow flows. None for parts that have no direction, such as a GPU."""

    @property
    def text(self) -> str:
        """Text such as "NIC mlx5_3 of n3 (GPU 3), sending only".

        In a part from a record, any field may be missing.
        """
        if self.kind == "pair" and self.nodes and self.direction == "send":
            return f"network from {self.nodes[0]} to {self.nodes[1]}"
        template = "NVLinks of GPU {gpu_pair} of {node}" if self._is_all_nvlinks else _TEXTS[self.kind]
        served = self.gpus or (() if self.gpu is None else (self.gpu,))
        text = template.format(
            **asdict(self),
            gpu_pair=" and ".join(map(str, self.gpus or ())),
            node_pair=" and ".join(self.nodes or ("", "")),
            served=f"{'GPU' if len(served) == 1 else 'GPUs'} {', '.join(map(str, served))}",
            rail_suffix="" if self.rail is None else f", rail {self.rail}",
        )
        return text + _DIRECTION_TEXT[self.direction or "both"]

    @property
    def is_plural(self) -> bool:
        """True if the text is a plural noun."""
        return self.kind in ("numa", "uplink") or self._is_all_nvlinks

    @property
    def _is_all_nvlinks(self) -> bool:
        """True if the part is all NVLinks of one GPU."""
        return self.kind == "nvlink" and len(self.gpus or ()) == 1


def name_part(part: Part, cluster: Cluster) -> NamedPart:
    """Returns the names of a part."""
    number, direction = part.number, part.direction
    match part.kind:
        case "gpu":
            node, local = cluster.gpu_name(number)
            return NamedPart(kind="gpu", node=node, gpu=local)
        case "nvlink":
            ends = gpus_of(part, cluster) if part.is_between else (number,)
            names = [cluster.gpu_name(gpu) for gpu in ends]
            one_way = None if direction == "both" else direction
            return NamedPart(kind="nvlink", node=names[0][0], gpus=tuple(gpu for _, gpu in names), direction=one_way)
        case "nic":
            if part.is_between:
                raise ValueError("two NICs have two names")
            port, node = cluster.nics[number], cluster.nodes[int(cluster.nic_node[number])].name
            named = NamedPart(kind="nic", node=node, nic=port.name, rail=port.rail, direction=direction)
            if len(port.gpus) > 1:
                return replace(named, gpus=port.gpus)
            return replace(named, gpu=port.gpus[0])
        case "numa":
            node_number, numa = cluster.numa_nodes[number]
            return NamedPart(kind="numa", node=cluster.nodes[node_number].name, numa=numa)
        case "node":
            return NamedPart(kind="node", node=cluster.nodes[number].name, direction=direction)
        case "pair":
            first, second = (cluster.nodes[node].name for node in nodes_of(number, cluster))
            # One direction of a pair is named as sending, with the sender first.
            nodes = (second, first) if direction == "receive" else (first, second)
            return NamedPart(kind="pair", nodes=nodes, direction="both" if direction == "both" else "send")
        case "rail":
            return NamedPart(kind="rail", rail=number)
        case "leaf":
            return NamedPart(kind="leaf", leaf=cluster.leaf_names[number])
        case "uplink":
            return NamedPart(kind="uplink", leaf=cluster.leaf_names[number], direction=direction)
