"""What a tuning leaves behind: an environment file, and a file for NCCL's example tuner plugin.

The example plugin (ext-tuner/example in NCCL's sources, since 2.27) reads lines of comma-separated fields: collective,
least and most bytes, algorithm, protocol, channels, nodes, ranks, pipelined operations, registered buffers. The first
line that fits decides, -1 fits everything, and a line that begins with # is a comment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isqrt

from busbw.tune.knobs import Setting
from busbw.units import size_text

TUNER_FORMAT = "NCCL's example tuner plugin, 2.27 and later"
TUNER_FIELDS = (
    "collective_type",
    "min_bytes",
    "max_bytes",
    "algorithm",
    "protocol",
    "channels",
    "nNodes",
    "nRanks",
    "numPipeOps",
    "regBuff",
)
_COLLECTIVES = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
_ALGORITHMS = {
    "ring": "ring",
    "tree": "tree",
    "collnetdirect": "collnet_direct",
    "collnetchain": "collnet_chain",
    "nvls": "nvls",
    "nvlstree": "nvls_tree",
    "pat": "pat",
}
_PROTOCOLS = {"ll": "ll", "ll128": "ll128", "simple": "simple"}


@dataclass(frozen=True)
class Winner:
    """A setting that was confirmed at a size."""

    size_bytes: int
    setting: Setting
    speedup: float


def environment_file(setting: Setting, evidence: Sequence[str]) -> str:
    """Lines of KEY=VALUE, as `env`, Docker, systemd and a shell read them; the evidence as comments before them."""
    head = [f"# {line}" for line in evidence]
    return "\n".join([*head, *(f"{name}={value}" for name, value in setting)]) + "\n"


def tuner_file(
    collective: str, winners: Sequence[Winner], sizes_bytes: Sequence[int], *, hosts: int, ranks: int
) -> tuple[str, list[str]]:
    """The plugin's file, and a sentence for each winner that it cannot express.

    A line reaches half way, by ratio, to the next size that was measured, and no further than the sizes that were.
    """
    lines = [f"# {TUNER_FORMAT}", f"# {','.join(TUNER_FIELDS)}"]
    left_out = []
    for winner in sorted(winners, key=lambda each: each.size_bytes):
        words = dict(winner.setting)
        algorithm = _ALGORITHMS.get(words.get("NCCL_ALGO", "").lower())
        protocol = _PROTOCOLS.get(words.get("NCCL_PROTO", "").lower())
        others = words.keys() - {"NCCL_ALGO", "NCCL_PROTO"}
        if collective not in _COLLECTIVES or not algorithm or not protocol or others:
            text = " ".join(f"{name}={value}" for name, value in winner.setting)
            left_out.append(
                f"{text} at {size_text(winner.size_bytes)} has no line in the tuner's file, which takes an algorithm "
                f"together with a protocol, for {', '.join(_COLLECTIVES)}."
            )
            continue
        low, high = _reach(winner.size_bytes, sorted(sizes_bytes))
        fields: Mapping[str, object] = {
            "collective_type": _COLLECTIVES[collective],
            "min_bytes": low,
            "max_bytes": high,
            "algorithm": algorithm,
            "protocol": protocol,
            "channels": -1,
            "nNodes": hosts,
            "nRanks": ranks,
            "numPipeOps": -1,
            "regBuff": -1,
        }
        lines.append(",".join(str(fields[name]) for name in TUNER_FIELDS))
    return "\n".join(lines) + "\n", left_out


def _reach(size: int, sizes: Sequence[int]) -> tuple[int, int]:
    """From the ratio's middle to the size before, to that to the size behind."""
    at = sizes.index(size)
    low = isqrt(sizes[at - 1] * size) + 1 if at else size
    high = isqrt(size * sizes[at + 1]) if at + 1 < len(sizes) else size
    return low, high
