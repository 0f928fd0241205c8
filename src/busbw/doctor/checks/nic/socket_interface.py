"""Network interfaces that NCCL_SOCKET_IFNAME selects for the start of a job."""

from collections.abc import Iterator

from busbw.doctor.model import Evidence, Finding, Machine, check
from busbw.doctor.parts.nccl_settings import read_settings
from busbw.doctor.parts.nics import NETWORK, is_permitted


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
    states = {name: machine.optional(f"{NETWORK}/{name}/operstate") for name in interfaces}
    if all(state in {"down", "lowerlayerdown", "notpresent"} for state in states.values()):
        found = ", ".join(f"{name} is {state}" for name, state in states.items()) or "no such interface"
        problem = f"{setting.text} selects no interface that is up: {found}"
        yield Finding("broken", problem, (setting.evidence, Evidence(f"/{NETWORK}", found)))
