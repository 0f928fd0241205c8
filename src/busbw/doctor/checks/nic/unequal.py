"""Properties in which all compute NICs of a node agree. ADD A PROPERTY to CHECKS."""

import re
from collections.abc import Callable, Iterator

from busbw.doctor.model.check import Check, Evidence, Finding, Severity, Unreadable
from busbw.doctor.model.damage import Damage
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.nics import INFINIBAND, Kind, Port, compute_ports, usual


def _differing(
    read: Callable[[Machine, Port], str | float], source: str, severity: Severity, *kinds: Kind
) -> Callable[[Machine], Iterator[Finding]]:
    """Returns a function that finds the ports with another value than most others. Only active ports count."""

    def examine(machine: Machine) -> Iterator[Finding]:
        ports = [port for port in compute_ports(machine, *kinds) if port.is_active]
        if not ports:
            raise Unreadable("a compute NIC with an active port")
        values = [read(machine, port) for port in ports]
        normal = usual(values)
        for port, value in zip(ports, values, strict=True):
            if normal is not None and value != normal:
                interface = port.interfaces[0] if port.interfaces else ""
                share = value / normal if isinstance(value, float) and isinstance(normal, float) else 1.0
                yield Finding(
                    severity=severity,
                    subject=port.label,
                    problem=f"{port.label} has {_text(value)}; {values.count(normal)} equal NICs have {_text(normal)}",
                    evidence=(Evidence(source=source.format(port=port, interface=interface), value=_text(value)),),
                    damage=Damage(nic_share=share) if 0 < share < 1 else None,
                )

    return examine


def _text(value: str | float) -> str:
    return f"{value:g} Gb/s" if isinstance(value, float) else value


def _lossless_priorities(machine: Machine, port: Port) -> str:
    output = machine.output("dcb", "pfc", "show", "dev", interface_of(port))
    states = re.findall(r"\b([0-7]):(on|off)\b", output.partition("prio-pfc")[2])
    if not states:
        raise Unreadable("priorities in the output of dcb pfc show")
    return f"PFC for priorities {', '.join(number for number, state in states if state == 'on') or 'none'}"


def interface_of(port: Port) -> str:
    """Returns the network interface of a port.

    Raises:
        Unreadable: This network namespace does not have it.
    """
    if not port.interfaces:
        raise Unreadable(f"the network interface of {port.label}; use the network namespace of the host")
    return port.interfaces[0]


CHECKS = (
    Check(
        name="nic-phys-peers-mixed",
        area="nic",
        reads="/sys/class/infiniband/NIC/ports/1/link_layer",
        rule="All compute NICs of one model are InfiniBand, or all are Ethernet.",
        source="NVIDIA/nccl#1066",
        cost="NCCL may connect an InfiniBand NIC to an Ethernet NIC, which fails, or uses one NIC less.",
        fix="set the type of the port: mlxconfig -d DEVICE set LINK_TYPE_P1=1 (InfiniBand) or 2 (Ethernet); reboot",
        examine=_differing(lambda _, port: port.kind, "/{port.folder}/link_layer", "broken"),
    ),
    Check(
        name="nic-rate",
        area="nic",
        reads="/sys/class/infiniband/NIC/ports/1/rate",
        rule="All active compute NICs of one model have the same rate.",
        source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        cost="A ring runs at the rate of its slowest NIC, on all nodes of the job.",
        fix="reseat or replace the cable; check speed and split of the switch port: mlxlink -d DEVICE -m",
        examine=_differing(lambda _, port: port.rate_gbit, "/{port.folder}/rate", "slow"),
    ),
    Check(
        name="nic-fw-driver-mixed",
        area="nic",
        reads="/sys/class/infiniband/NIC/fw_ver",
        rule="All compute NICs of one board run the same firmware.",
        source="https://github.com/scitix/sichek",
        cost="Not known in general; pairs of nodes can differ in speed, and errors occur on some NICs only.",
        fix="update the firmware: flint -d DEVICE -i IMAGE burn; mlxfwreset -d DEVICE reset",
        examine=_differing(
            lambda machine, port: f"firmware {machine.word(f'{INFINIBAND}/{port.device}/fw_ver')}",
            f"/{INFINIBAND}/{{port.device}}/fw_ver",
            "risk",
        ),
    ),
    Check(
        name="nic-mtu",
        area="nic",
        reads="/sys/class/net/INTERFACE/mtu",
        rule="The interfaces of all RoCE compute NICs have the same MTU.",
        source="NVIDIA/nccl#709",
        cost="Another MTU than the switch or the peer ends large operations with error 12; 1024 bytes cost 5 to 10 %.",
        fix="ip link set INTERFACE mtu 9000",
        examine=_differing(
            lambda machine, port: f"MTU {machine.number(f'sys/class/net/{interface_of(port)}/mtu')}",
            "/sys/class/net/{interface}/mtu",
            "slow",
            "RoCE",
        ),
    ),
    Check(
        name="roce-qos",
        area="nic",
        reads="dcb pfc show dev INTERFACE",
        rule="All RoCE compute NICs enable PFC for the same priorities.",
        source="NVIDIA/nccl#2383",
        cost="Traffic in a class that loses packets is sent again: 25 to 50 % of the bandwidth, or retry errors.",
        fix="dcb pfc set dev INTERFACE prio-pfc all:off 3:on, with the priority of the other NICs and the switches",
        examine=_differing(_lossless_priorities, "dcb pfc show dev {interface}", "slow", "RoCE"),
    ),
)
