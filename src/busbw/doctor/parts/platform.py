"""Properties of the whole machine that decide which rules apply."""

import re

from busbw.doctor.model import Machine, Unreadable

CLOCKSOURCE = "sys/devices/system/clocksource/clocksource0"

_BOOT_S = 120
"""Time after boot in which services start, GPUs register at the fabric, and ports get their addresses."""


def uptime_s(machine: Machine) -> float:
    """Returns the time since boot in seconds."""
    return float(machine.word("proc/uptime").split()[0])


def has_just_booted(machine: Machine) -> bool:
    """True if the fabric manager or the subnet manager may not have had the time to configure this machine."""
    return uptime_s(machine) < _BOOT_S


def is_virtual(machine: Machine) -> bool:
    """True in a virtual machine, which offers the clock of its hypervisor."""
    return bool(re.search("kvm-clock|hyperv|xen", machine.text(f"{CLOCKSOURCE}/available_clocksource")))


def is_arm(machine: Machine) -> bool:
    """True for processors of ARM, such as Grace."""
    return machine.has("sys/devices/system/cpu/cpu0/regs/identification/midr_el1")


def allowed_cpus(machine: Machine) -> str:
    """Returns the CPUs that this process may use, as ranges.

    Raises:
        Unreadable: The kernel does not state them.
    """
    match = re.search(r"^Cpus_allowed_list:\s*(\d\S*)$", machine.text("proc/self/status"), re.MULTILINE)
    if match is None:
        raise Unreadable("Cpus_allowed_list in /proc/self/status")
    return match[1]
