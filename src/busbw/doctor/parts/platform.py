"""Properties of the whole machine that decide which rules apply."""

import re

from busbw.doctor.model.machine import Machine

CLOCKSOURCE = "sys/devices/system/clocksource/clocksource0"


def is_virtual(machine: Machine) -> bool:
    """True in a virtual machine, which offers the clock of its hypervisor."""
    return bool(re.search("kvm-clock|hyperv|xen", machine.text(f"{CLOCKSOURCE}/available_clocksource")))


def is_arm(machine: Machine) -> bool:
    """True for processors of ARM, such as Grace."""
    return machine.has("sys/devices/system/cpu/cpu0/regs/identification/midr_el1")
