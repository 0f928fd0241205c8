"""Errors of GPUs and NVLink switches in the kernel log."""

import re
from collections.abc import Iterator

from busbw.doctor.model import Evidence, Finding, Machine, Unreadable, check, require
from busbw.doctor.parts.gpus import has_nvswitch, require_gpus
from busbw.doctor.parts.job import uptime_s

_WINDOW_S = 2 * 3600
"""Age up to which events count. A later reset may have corrected the error of an older event."""
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:]+)[^)]*\): (\d+),(.*)")
"""Error of a GPU: "NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, GPU has fallen off the bus."."""
_SXID = re.compile(r"(nvidia-nvswitch\d+): SXid \(PCI:[0-9a-fA-F:.]+\): (\d+), Fatal")
"""Error of an NVLink switch: "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 ..."."""
_RESET = re.compile(r"NVRM: loading NVIDIA UNIX|nvidia-nvswitch\d*: Probing device")
_NO_ACTION_NEEDED = "to 0x0 (None)"
"""End of the line that the driver logs after a reset: Xid 154 states that the GPU needs no recovery action."""
_BLACKWELL_LINK_XIDS = range(144, 151)
"""Errors of NVLink on Blackwell. Only lines with "Fatal" matter."""
_XIDS: dict[int, str] = {
    48: "uncorrectable memory error",
    62: "internal controller halted",
    64: "row remapping failed",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "GSP does not answer",
    120: "GSP error",
    140: "unrecovered ECC error",
    143: "GPU initialization failed",
    **dict.fromkeys(_BLACKWELL_LINK_XIDS, "fatal NVLink error"),
}
"""Errors of hardware and driver, by Xid. Xids 13, 31, 43, 45 and often 109 are missing: applications cause them."""
_LINE = re.compile(r"(?:<\d+>)?\[ *(\d{1,12})\.\d+\] *(.*)")
"""Line of dmesg with the seconds since boot: "[ 1234.567890] text", or with a priority before it: "<6>[ ...] text"."""


def _recent_lines(machine: Machine) -> list[str]:
    """Returns the lines of the kernel log within the window and after the last reset, without their times.

    Raises:
        Unreadable: The log cannot be read, or its lines have no time.
    """
    start_s = uptime_s(machine) - _WINDOW_S
    matches = [match for line in machine.output("dmesg").splitlines() if (match := _LINE.match(line))]
    if not matches:
        raise Unreadable("lines with times in the kernel log")
    lines = [match[2] for match in matches if int(match[1]) >= start_s]
    resets = [index for index, line in enumerate(lines) if _RESET.search(line)]
    return lines[resets[-1] :] if resets else lines


@check(
    reads="dmesg, /proc/uptime",
    rule="The kernel log has no hardware or driver error of a GPU after its last reset, within 2 hours.",
    source="https://docs.nvidia.com/deploy/xid-errors/",
    cost="Xids 74 and 144 to 150 explain slow or dead NVLinks, 119 and 120 hangs; after 48, 79 or 95 jobs fail.",
    fix="follow the action for the Xid in NVIDIA's catalog: https://docs.nvidia.com/deploy/xid-errors/",
    needs_root=True,
)
def gpu_xid(machine: Machine) -> Iterator[Finding]:
    require_gpus(machine)
    errors: dict[tuple[str, int], str] = {}  # last line by bus id and Xid
    for line in _recent_lines(machine):
        if match := _XID.search(line):
            bus_id, xid = f"{match[1].lower()}.0", int(match[2])
            is_harmless_link_error = xid in _BLACKWELL_LINK_XIDS and not re.search(r"\bFatal\b", match[3])
            if line.endswith(_NO_ACTION_NEEDED):  # a reset corrected the errors of this GPU
                errors = {key: text for key, text in errors.items() if key[0] != bus_id}
            elif xid in _XIDS and not is_harmless_link_error:
                errors[bus_id, xid] = line
    for (bus_id, xid), line in errors.items():
        # Not every driver logs the reset of one GPU, so a reset may have corrected the error: it is only a risk.
        problem = f"the GPU {bus_id} reported Xid {xid} within the last 2 hours: {_XIDS[xid]}"
        yield Finding("risk", problem, (Evidence("dmesg", line),), subject=bus_id)


@check(
    reads="dmesg, /proc/uptime, /proc/driver/nvidia-nvswitch/devices",
    rule="The kernel log has no fatal error of an NVLink switch within 2 hours. A GPU reset causes non-fatal errors.",
    source="https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
    cost="NVLink traffic through the switch stops until all GPUs are reset; jobs fail or hang.",
    fix="drain the node, then sudo systemctl stop nvidia-fabricmanager; sudo nvidia-smi --gpu-reset; "
    "sudo systemctl start nvidia-fabricmanager",
    needs_root=True,
)
def nvswitch_sxid(machine: Machine) -> Iterator[Finding]:
    require(has_nvswitch(machine), "no NVLink switch")
    matches = [match for line in _recent_lines(machine) if (match := _SXID.search(line))]
    for (switch, sxid), line in {(match[1], match[2]): match.string for match in matches}.items():
        problem = f"{switch} reported fatal SXid {sxid} within the last 2 hours"
        yield Finding("broken", problem, (Evidence("dmesg", line),), subject=switch)
