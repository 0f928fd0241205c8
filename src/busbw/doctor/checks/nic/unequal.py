"""Properties in which all compute NICs of a node agree. ADD A PROPERTY with @_same_on_most_ports."""

import re
from collections.abc import Callable, Iterator
from functools import wraps
from typing import TypeAlias

from busbw.doctor.model import Damage, Evidence, Finding, Machine, Severity, Unreadable, check, require
from busbw.doctor.parts.nics import NETWORK, Kind, Port, compute_ports, majority_value
from busbw.doctor.parts.pci import INFINIBAND, MELLANOX, gpus

Reading: TypeAlias = Callable[[Machine, Port], tuple[str, str]]
"""Returns the source and the value of a port."""
Examination: TypeAlias = Callable[[Machine], Iterator[Finding]]

_MIN_MTU = 4200
"""Bytes for an RDMA packet with 4096 bytes of data and its headers. With a smaller MTU, packets have less data."""


def _same_on_most_ports(
    severity: Severity, *kinds: Kind, reduces_rate: bool = False
) -> Callable[[Reading], Examination]:
    """Turns a function that reads one port into an examination of all active compute ports.

    The examination reports each port with another value than most ports. `compute_ports` returns ports of one model.

    With `reduces_rate`, a port with a lower rate reduces the bandwidth between nodes in the same proportion. Otherwise
    the cost of a difference is unknown.
    """

    def make_examination(read: Reading) -> Examination:
        @wraps(read)
        def examine(machine: Machine) -> Iterator[Finding]:
            ports = [port for port in compute_ports(machine, *kinds) if port.is_active]
            require(ports, "no compute NIC is active")
            readings = {port: read(machine, port) for port in ports}
            normal = majority_value(value for _, value in readings.values())
            if normal is None:
                return  # without a majority, no port is the odd one
            normal_gbit = majority_value(port.rate_gbit for port in ports) if reduces_rate else None
            for port, (source, value) in readings.items():
                if value != normal:
                    damage = None
                    if normal_gbit is not None and port.rate_gbit < normal_gbit:
                        damage = Damage(nic_share=port.rate_gbit / normal_gbit)
                    yield Finding(
                        severity,
                        f"{port.label} has {value}; most of {len(ports)} equal NICs have {normal}",
                        (Evidence(source, value),),
                        subject=port.label,
                        damage=damage,
                    )

        return examine

    return make_examination


@check(
    reads="/sys/class/infiniband/NIC/ports/1/rate",
    rule="All active compute NICs of one model have the same rate.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    cost="A ring runs at the rate of its slowest NIC, on all nodes of the job.",
    fix="reseat or replace the cable; check speed and split of the switch port: mlxlink -d DEVICE -m",
)
@_same_on_most_ports("slow", reduces_rate=True)
def nic_rate(_: Machine, port: Port) -> tuple[str, str]:
    return f"/{port.folder}/rate", f"{port.rate_gbit:g} Gb/s"


@check(
    reads="/sys/class/infiniband/NIC/fw_ver",
    rule="All compute NICs of one board run the same firmware.",
    source="https://github.com/scitix/sichek",
    cost="Not known in general; some pairs of nodes can be slower, or errors occur on some NICs only.",
    fix="update the firmware: flint -d DEVICE -i IMAGE burn; mlxfwreset -d DEVICE reset",
)
@_same_on_most_ports("risk")
def nic_fw_driver_mixed(machine: Machine, port: Port) -> tuple[str, str]:
    # Only the firmware is compared. Users know the check by this name, so "driver" stays in the name.
    path = f"{INFINIBAND}/{port.device}/fw_ver"
    return f"/{path}", f"firmware {machine.word(path)}"


def _mtu(machine: Machine, port: Port) -> int:
    return machine.number(f"{NETWORK}/{port.interface}/mtu")


def _mtu_reading(machine: Machine, port: Port) -> tuple[str, str]:
    return f"/{NETWORK}/{port.interface}/mtu", f"MTU {_mtu(machine, port)}"


@check(
    reads="/sys/class/net/INTERFACE/mtu",
    rule="The interfaces of all RoCE compute NICs have the same MTU, which holds RDMA packets of 4096 bytes.",
    source="NVIDIA/nccl#709",
    cost="Another MTU than the switch or the peer ends large operations with error 12; 1024 bytes cost 5 to 10 %.",
    fix="ip link set INTERFACE mtu 9000, or the largest MTU of the switches, on all NICs and nodes",
)
def nic_mtu(machine: Machine) -> Iterator[Finding]:
    yield from _same_on_most_ports("slow", "RoCE")(_mtu_reading)(machine)
    if not gpus(machine):
        return  # without a GPU, the NICs may be ordinary network interfaces
    ports = [port for port in compute_ports(machine, "RoCE") if port.is_active and port.model.startswith(MELLANOX)]
    mtus = sorted({_mtu(machine, port) for port in ports})
    if mtus and mtus[-1] < _MIN_MTU:
        problem = (
            f"the interfaces of {len(ports)} RoCE NICs have MTU {' or '.join(map(str, mtus))};"
            f" RDMA packets with 4096 bytes of data need {_MIN_MTU}"
        )
        yield Finding("slow", problem, tuple(Evidence(*_mtu_reading(machine, port)) for port in ports))


@check(
    reads="dcb pfc show dev INTERFACE",
    rule="All RoCE compute NICs enable PFC for the same priorities.",
    source="NVIDIA/nccl#2383",
    cost="Traffic in a class that loses packets is sent again: 25 to 50 % of the bandwidth, or retry errors.",
    fix="dcb pfc set dev INTERFACE prio-pfc all:off 3:on, with the priority of the other NICs and the switches",
)
@_same_on_most_ports("slow", "RoCE")
def roce_qos(machine: Machine, port: Port) -> tuple[str, str]:
    command = ("dcb", "pfc", "show", "dev", port.interface)
    states = re.findall(r"\b([0-7]):(on|off)\b", machine.output(*command).partition("prio-pfc")[2])
    if not states:
        raise Unreadable(f"priorities in the output of {' '.join(command)}")
    enabled = [number for number, state in states if state == "on"]
    return " ".join(command), f"PFC for priorities {', '.join(enabled) or 'none'}"


@check(
    reads="/sys/class/net/INTERFACE/ecn/roce_{np,rp}/enable/PRIORITY",
    rule="All RoCE compute NICs react to marked packets (ECN) of the same priorities.",
    source="https://docs.nvidia.com/networking/display/mlnxofedv24103250lts/explicit+congestion+notification+(ecn)",
    cost="A NIC that does not slow down fills buffers of switches, and other flows wait or lose packets.",
    fix="echo 1 | sudo tee /sys/class/net/INTERFACE/ecn/roce_{np,rp}/enable/PRIORITY, as on the other NICs",
)
@_same_on_most_ports("risk", "RoCE")
def roce_ecn(machine: Machine, port: Port) -> tuple[str, str]:
    folder = f"{NETWORK}/{port.interface}/ecn"
    require(machine.has(folder), "the driver does not state for which priorities it reacts to marked packets")
    texts = []
    # A reaction point (rp) slows down its sending. A notification point (np) reports marked packets that it received.
    for role, side in (("sent", "rp"), ("received", "np")):
        path = f"{folder}/roce_{side}/enable"
        priorities = [priority for priority in machine.names(path) if machine.number(f"{path}/{priority}")]
        texts.append(f"{role}: {' '.join(priorities) or 'none'}")
    return f"/{folder}", f"ECN for priorities {', '.join(texts)}"


@check(
    reads="ip -o route show dev INTERFACE",
    rule="If most RoCE compute NICs have a route at their interface, all have one.",
    source="https://github.com/oracle-quickstart/oci-hpc-oke",
    cost="RDMA connections leave by the interface of another route, or fail with `ibv_modify_qp failed`.",
    fix="compare `ip route show table all dev INTERFACE` with other NICs, then assign address and route again",
)
@_same_on_most_ports("risk", "RoCE")
def roce_route(machine: Machine, port: Port) -> tuple[str, str]:
    command = ("ip", "-o", "route", "show", "dev", port.interface)
    return " ".join(command), "an IPv4 route" if machine.output(*command) else "no IPv4 route"
