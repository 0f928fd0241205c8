"""Addresses with which NCCL reaches other nodes: of the interface for sockets, and GIDs of RoCE."""

from collections.abc import Iterator

from busbw.doctor.model import Evidence, Finding, Machine, check, require
from busbw.doctor.parts.nccl_settings import read_settings
from busbw.doctor.parts.nics import NETWORK, Port, compute_ports, is_permitted, majority_value

_NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
_LINK_LOCAL, _ROUTABLE_TYPE = "fe80:", "RoCE v2"
_DOWN_STATES = {"down", "lowerlayerdown", "notpresent"}


@check(
    reads="NCCL_SOCKET_IFNAME, /sys/class/net/INTERFACE/operstate",
    rule="NCCL_SOCKET_IFNAME, if set, selects an interface that is up.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname",
    cost='The job ends with "no socket interface found" or hangs before its first collective.',
    fix="export NCCL_SOCKET_IFNAME==INTERFACE (two equal signs: exactly this name), with a name from `ip -br link`",
)
def socket_interface(machine: Machine) -> Iterator[Finding]:
    setting = read_settings(machine).get("NCCL_SOCKET_IFNAME")
    if setting is None:
        return
    interfaces = [name for name in machine.names(NETWORK) if is_permitted(setting.value, name)]
    states = {name: machine.text_or_none(f"{NETWORK}/{name}/operstate") for name in interfaces}
    # An interface with an unknown state may be up.
    may_be_up = any(state not in _DOWN_STATES for state in states.values())
    if not may_be_up:
        found = ", ".join(f"{name} is {state}" for name, state in states.items()) or "no such interface"
        problem = f"{setting.text} selects no interface that is up: {found}"
        yield Finding("broken", problem, (setting.evidence, Evidence(f"/{NETWORK}", found)))


@check(
    reads="/sys/class/infiniband/NIC/ports/1/gids, gid_attrs/types; NCCL_IB_GID_INDEX",
    rule="Each RoCE compute NIC has a GID of RoCE v2 with an IPv4 or global IPv6 address.",
    source="NVIDIA/nccl#1510",
    cost="Connections fail with `ibv_modify_qp failed` or error 12, or use RoCE v1, which routers drop.",
    fix="assign an address to the interface: ip addr add ADDRESS dev INTERFACE; show_gids lists the result",
)
def roce_gid(machine: Machine) -> Iterator[Finding]:
    ports = [port for port in compute_ports(machine, "RoCE") if port.is_active]
    require(ports, "no RoCE port is active")
    setting = read_settings(machine).get("NCCL_IB_GID_INDEX")
    index = setting.value if setting and setting.value.isdecimal() else None
    reachable = {
        port.label: any(_is_routable(machine, port, number) for number in machine.names(f"{port.folder}/gids"))
        for port in ports
    }
    # Unless most ports are reachable, the network may have no routers and work with link-local addresses.
    is_majority_reachable = majority_value(reachable.values()) is True
    for port in ports:
        if not reachable[port.label]:
            problem = f"{port.label} has no GID of RoCE v2 with an address beyond its link"
            evidence = (Evidence(f"/{port.folder}/gids", "only link-local GIDs, or none"),)
            yield Finding("broken" if is_majority_reachable else "risk", problem, evidence, subject=port.label)
        elif index is not None and not _is_routable(machine, port, index):
            gid_type = _gid_type(machine, port, index)
            yield Finding(
                # Without routers in the network, a link-local GID of RoCE v2 works too.
                "risk" if gid_type == _ROUTABLE_TYPE else "broken",
                f"NCCL_IB_GID_INDEX={index} selects no GID of RoCE v2 with an address beyond the link on {port.label}",
                (Evidence(f"/{port.folder}/gids/{index}", f"{_gid(machine, port, index)} {gid_type or ''}"),),
                subject=port.label,
                fix="unset NCCL_IB_GID_INDEX; NCCL 2.21 and later select the GID",
            )


def _is_routable(machine: Machine, port: Port, index: str) -> bool:
    """True if routers can forward to this GID: it is one of RoCE v2 and not link-local."""
    return not _gid(machine, port, index).startswith(_LINK_LOCAL) and _gid_type(machine, port, index) == _ROUTABLE_TYPE


def _gid(machine: Machine, port: Port, index: str) -> str:
    return machine.text_or_none(f"{port.folder}/gids/{index}") or _NO_GID


def _gid_type(machine: Machine, port: Port, index: str) -> str | None:
    """Returns the type of a GID. None if the index has no GID: the kernel then has no type to read."""
    if _gid(machine, port, index) == _NO_GID:
        return None
    return machine.word(f"{port.folder}/gid_attrs/types/{index}")
