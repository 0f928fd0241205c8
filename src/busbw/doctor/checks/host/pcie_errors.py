"""Growth of the PCIe error counters of GPUs, RDMA devices and the bridges above them."""

from collections.abc import Iterator

from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable, Severity
from busbw.doctor.model.machine import Machine, shown
from busbw.doctor.parts.counters import growths
from busbw.doctor.parts.pci import DEVICES, bridges_above, gpus, rdma_devices

_COUNTERS: dict[str, tuple[int, Severity]] = {
    "fatal": (0, "broken"),
    "nonfatal": (0, "broken"),
    "correctable": (10, "slow"),
}
"""Growth in a second that is still healthy, and the severity beyond it, by kind of error."""


def _examine(machine: Machine) -> Iterator[Finding]:
    labels: dict[str, str] = {}
    for device in (*gpus(machine), *rdma_devices(machine)):
        labels[device.bus_id] = device.label
        for bridge in bridges_above(machine, device.bus_id):
            labels.setdefault(bridge, f"the bridge {bridge} above {device.label}")
    counters = {f"{DEVICES}/{bus_id}/aer_dev_{kind}": (bus_id, kind) for bus_id in labels for kind in _COUNTERS}
    grown = growths(machine, counters, r"TOTAL_ERR_\w+ +(\d+)")
    if not grown:
        raise NotApplicable("the kernel counts no PCIe errors of GPUs and RDMA devices")
    for path, growth in grown.items():
        bus_id, kind = counters[path]
        max_growth, severity = _COUNTERS[kind]
        if growth > max_growth:
            yield Finding(
                severity=severity,
                subject=labels[bus_id],
                problem=f"{labels[bus_id]} had {growth} {kind} PCIe errors within a second",
                evidence=(Evidence(source=shown(path), value=f"+{growth}"),),
            )


CHECK = Check(
    name="pcie-aer",
    area="host",
    reads="/sys/bus/pci/devices/*/aer_dev_{fatal,nonfatal,correctable}, twice",
    rule="Within a second, no fatal or non-fatal error and at most 10 corrected ones occur.",
    source="https://github.com/facebookresearch/gcm",
    cost="Each corrected error repeats a transfer. With many errors the link trains to a lower speed or fails.",
    fix="reseat the card; update the firmware of card and retimer; replace the card or riser if errors continue",
    examine=_examine,
)
