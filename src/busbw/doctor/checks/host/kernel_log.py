"""Recent messages of the kernel about CPUs, tasks and NICs that stopped."""

import re
from collections.abc import Iterator

from busbw.doctor.model.check import Check, Evidence, Finding, Severity
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.kernel_log import recent_lines

_WINDOW_S = 24 * 3600
_PATTERNS: tuple[tuple[str, Severity, str], ...] = (
    (r"soft lockup - CPU|hard LOCKUP", "broken", "CPUs did not respond"),
    (r"mlx5_core.*health compromised", "broken", "a ConnectX NIC stopped"),
    (
        r"mlx5_core.*(?:timeout\. Will cause a leak|cmd_exec.*timeout)",
        "broken",
        "the firmware of a NIC did not respond",
    ),
    (r"task \S+ blocked for more than \d+ seconds", "risk", "tasks waited in the kernel for minutes"),
    (r"mlx5_core.*[Hh]igh [Tt]emperature", "slow", "a module of a NIC is too hot"),
)


def _examine(machine: Machine) -> Iterator[Finding]:
    lines = recent_lines(machine, _WINDOW_S)
    for pattern, severity, problem in _PATTERNS:
        matching = [line for line in lines if re.search(pattern, line)]
        if matching:
            yield Finding(
                severity=severity,
                problem=f"within a day, {problem} ({len(matching)} messages of the kernel)",
                evidence=(Evidence(source="dmesg", value=matching[-1][:160]),),
            )


CHECK = Check(
    name="kernel-lockups",
    area="host",
    reads="dmesg of the last 24 hours, /proc/uptime",
    rule="The kernel reports no lockup, no task that waits for minutes, and no NIC that stopped or is too hot.",
    source="https://github.com/NVIDIA/NVSentinel",
    cost="A rank on this node is late or lost, so that all other ranks wait for it.",
    fix="read the messages with sudo dmesg -T; drain the node, update the firmware, or replace the part",
    examine=_examine,
    needs_root=True,
)
