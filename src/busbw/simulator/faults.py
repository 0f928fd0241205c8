"""Simulated faults, as `--fault KIND:WHERE:SLOWDOWN` states them. A failover has no slowdown."""

import re
from dataclasses import dataclass

from busbw.errors import UsageError
from busbw.simulator.fabric import Fabric
from busbw.support.near_misses import suggestion

FORMS = {
    "gpu": "NODE/GPU",
    "gpu-ports": "NODE/GPU",
    "nvlink": "NODE/GPU[-GPU]",
    "nic": "NODE/NIC",
    "nic-send": "NODE/NIC",
    "nic-receive": "NODE/NIC",
    "node": "NODE",
    "pair": "NODE-NODE",
    "rail": "RAIL",
    "leaf": "LEAF",
    "uplink": "LEAF",
    "one-uplink": "LEAF/UPLINK",
    "failover": "NODE/NIC",
}
"""ADD A FAULT HERE, and its effect in `Simulation._crosses_fault`: each kind with the form of its place.

Brackets mark an optional part. LEAF is a number in the order of the leaf names of the simulator. A single GPU of nvlink
stands for its links to all other GPUs. The ports of a GPU (gpu-ports) are slow only if the GPU exchanges data with
several GPUs of its node at once. After a failover, the next NIC of the node also carries the traffic of the NIC."""


@dataclass(frozen=True, kw_only=True)
class SimulatedFault:
    """A slow part."""

    kind: str
    place: tuple[int, ...]
    """Numbers of the part, in the order of its form in `FORMS`. The first is a node, leaf or rail."""
    slowdown: float
    """Time of the flows of the part relative to a healthy part. Infinite if the part is dead. 1 for a failover, because
    the simulation derives the times from the load of the next NIC."""
    share: float = 1.0
    """Share of the iterations in which the part is slow."""

    @property
    def peer_gpus(self) -> tuple[int, ...]:
        """The second GPU of an nvlink fault between two GPUs. Empty for all other faults."""
        return self.place[2:]


def parse_fault(text: str, fabric: Fabric) -> SimulatedFault:
    """Returns the fault of a text such as `nic:3/5:2.0`, `nic:3/5:dead` or `nic:3/5:2.0@0.2`.

    The number after "@" is the share of slow iterations.

    Raises:
        UsageError: The kind is unknown, the place is not in the fabric, or a failover has a slowdown.
    """
    kind, _, rest = text.partition(":")
    place_text, _, slowdown_text = rest.partition(":")
    if kind not in FORMS:
        remedy = f"{suggestion(kind, FORMS)}use one of {', '.join(FORMS)}"
        raise UsageError(f'--fault {text}: the kind "{kind}" is unknown', remedy=remedy)
    place = _parse_place(place_text, FORMS[kind])
    slowdown, share = 1.0, 1.0
    form, example = f"{kind}:{FORMS[kind]}", "failover:3/5"
    has_slowdown = kind != "failover"
    if has_slowdown:
        slowdown, share = _parse_slowdown(slowdown_text)
        form, example = f"{form}:SLOWDOWN", "nic:3/5:2.0"
    elif slowdown_text:
        raise UsageError(f"--fault {text}: a failover has no slowdown", remedy=f"write {form}")
    is_slow = slowdown > 1 and 0 < share <= 1  # False for NaN
    if place is None or (has_slowdown and not is_slow):
        raise UsageError(f"--fault {text} is not a fault", remedy=f"write {form}, such as {example}")
    _reject_outside(text, kind, place, fabric)
    return SimulatedFault(kind=kind, place=place, slowdown=slowdown, share=share)


def _parse_place(text: str, form: str) -> tuple[int, ...] | None:
    """Returns the numbers of a place. None if the text has another form."""
    pattern = re.sub("[A-Z]+", r"(\\d+)", form).replace("[", "(?:").replace("]", ")?")  # (\d+)/(\d+)(?:-(\d+))?
    match = re.fullmatch(pattern, text)
    return None if match is None else tuple(int(number) for number in match.groups() if number is not None)


def _parse_slowdown(text: str) -> tuple[float, float]:
    """Returns slow-down and share of a text such as "2.0@0.2" or "dead". NaN if they are not numbers."""
    factor_text, _, share_text = text.partition("@")
    try:
        slowdown = float("inf") if factor_text == "dead" else float(factor_text)
        return slowdown, float(share_text or "1")
    except ValueError:
        return float("nan"), float("nan")


def _reject_outside(text: str, kind: str, place: tuple[int, ...], fabric: Fabric) -> None:
    """Raises `UsageError` if a number is outside the fabric, or both ends of a pair are equal."""
    counts = {
        "NODE": fabric.nodes,
        "GPU": fabric.gpus,
        "NIC": fabric.gpus,
        "RAIL": fabric.gpus,
        "LEAF": len(fabric.leaf_numbers()),
        "UPLINK": fabric.uplinks,
    }
    titles = re.findall("[A-Z]+", FORMS[kind])
    for title, number in zip(titles, place, strict=False):  # the last part of a place may be missing
        count = counts[title]
        if number >= count:
            raise UsageError(
                f"--fault {text}: {number} is outside the cluster of {fabric.nodes}x{fabric.gpus}",
                remedy=f"set {title} to a number from 0 to {count - 1}",
            )
    has_two_ends = kind == "pair" or (kind == "nvlink" and len(place) > 2)
    if has_two_ends and place[-1] == place[-2]:
        raise UsageError(f"--fault {text}: a pair has two different ends", remedy="name two of them")
