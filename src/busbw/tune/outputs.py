"""Output files of a tuning run: an environment file, and a file for NCCL's example tuner plugin.

The example plugin (ext-tuner/example in NCCL's sources, since 2.27) reads lines of comma-separated fields: collective,
minimum and maximum bytes, algorithm, protocol, channels, nodes, ranks, pipelined operations, registered buffers. The
first matching line applies. -1 matches everything, or leaves the choice of channels to NCCL. # begins a comment line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

from busbw.collectives import collectives
from busbw.tune.knobs import Setting, setting_text
from busbw.units import size_text

TUNER_FORMAT = "NCCL's example tuner plugin, 2.27 and later"
TUNER_FIELDS = (
    "collective_type", "min_bytes", "max_bytes", "algorithm", "protocol", "channels",
    "nNodes", "nRanks", "numPipeOps", "regBuff",
)  # fmt: skip
# Spellings of the plugin: of collectives, and of the values of NCCL_ALGO and NCCL_PROTO in lower case.
_COLLECTIVES = {name: name.replace("_", "") for name, entry in collectives().items() if entry.runs_as_ring}
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
    """The best confirmed setting at a size."""

    size_bytes: int
    setting: Setting
    speedup: float
    """Speed with the setting over speed without it: 1.05 is 5 % faster."""


def environment_file(setting: Setting, evidence: Sequence[str]) -> str:
    """Returns lines of KEY=VALUE for `env`, Docker, systemd and shells, after the evidence as comments."""
    comments = [f"# {line}" for line in evidence]
    return "\n".join([*comments, *(f"{name}={value}" for name, value in setting)]) + "\n"


def tuner_file(
    collective: str, winners: Sequence[Winner], sizes_bytes: Sequence[int], *, hosts: int, ranks: int
) -> tuple[str, list[str]]:
    """Returns the plugin's file, and a sentence for each winner that the file cannot express.

    The line of a measured size covers the range to the geometric means with the next smaller and larger measured size.
    """
    lines = [f"# {TUNER_FORMAT}", f"# {','.join(TUNER_FIELDS)}"]
    omitted = []
    for winner in sorted(winners, key=lambda winner: winner.size_bytes):
        variables = dict(winner.setting)
        algorithm = _ALGORITHMS.get(variables.get("NCCL_ALGO", "").lower())
        protocol = _PROTOCOLS.get(variables.get("NCCL_PROTO", "").lower())
        has_other_variables = bool(variables.keys() - {"NCCL_ALGO", "NCCL_PROTO"})
        has_all_fields = collective in _COLLECTIVES and algorithm and protocol
        can_express_setting = has_all_fields and not has_other_variables
        if not can_express_setting:
            omitted.append(
                f"{setting_text(winner.setting)} at {size_text(winner.size_bytes)} is not in the tuner file, because "
                f"it needs an algorithm together with a protocol, for {', '.join(_COLLECTIVES)}."
            )
            continue
        min_bytes, max_bytes = _covered_range(winner.size_bytes, sorted(sizes_bytes))
        # The values of TUNER_FIELDS.
        fields = (_COLLECTIVES[collective], min_bytes, max_bytes, algorithm, protocol, -1, hosts, ranks, -1, -1)
        lines.append(",".join(map(str, fields)))
    return "\n".join(lines) + "\n", omitted


def _covered_range(size_bytes: int, measured_sizes: Sequence[int]) -> tuple[int, int]:
    """Returns the range of a size in bytes: between the geometric means with its neighbors.

    The range of the smallest size begins at this size. The range of the largest size ends at that size.
    """
    index = measured_sizes.index(size_bytes)
    is_last = index + 1 == len(measured_sizes)
    min_bytes = size_bytes if index == 0 else isqrt(measured_sizes[index - 1] * size_bytes) + 1
    max_bytes = size_bytes if is_last else isqrt(size_bytes * measured_sizes[index + 1])
    return min_bytes, max_bytes
