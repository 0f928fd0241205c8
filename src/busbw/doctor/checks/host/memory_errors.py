"""Growth of the error counters of the host's memory."""

from collections.abc import Iterator

from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable
from busbw.doctor.model.machine import Machine, shown
from busbw.doctor.parts.counters import growths

_CONTROLLERS = "sys/devices/system/edac/mc"


def _examine(machine: Machine) -> Iterator[Finding]:
    names = [name for name in machine.names_or_none(_CONTROLLERS) if name.startswith("mc")]
    grown = growths(machine, [f"{_CONTROLLERS}/{name}/{kind}_count" for name in names for kind in ("ue", "ce")])
    if not grown:
        raise NotApplicable("the kernel counts no memory errors")
    for path, growth in grown.items():
        if growth > 0:
            is_corrected = path.endswith("ce_count")
            yield Finding(
                severity="risk" if is_corrected else "broken",
                subject=path.split("/")[-2],
                problem=f"{growth} {'corrected' if is_corrected else 'uncorrected'} memory errors within a second",
                evidence=(Evidence(source=shown(path), value=f"+{growth}"),),
            )


CHECK = Check(
    name="host-memory-errors",
    area="host",
    reads="/sys/devices/system/edac/mc/mc*/{ue,ce}_count, twice",
    rule="No memory error occurs within a second.",
    source="https://github.com/facebookresearch/gcm",
    cost="The kernel handles each error on a CPU, so ranks are late. An uncorrected error ends the job.",
    fix="find the module with sudo ras-mc-ctl --layout --error-count, and replace it",
    examine=_examine,
)
