"""NVIDIA GPUs as NVML reports them. Serial numbers and UUIDs are not kept."""

import time
from collections.abc import Callable
from ctypes import byref
from hashlib import sha256
from itertools import combinations
from typing import Any

import msgspec
from msgspec import Struct

from busbw.doctor.facts.nvml import LOST, NO_PERMISSION, attempt, field_values, open_nvml
from busbw.doctor.model.check import Unreadable
from busbw.doctor.model.machine import Fact
from busbw.topology.sources.pci_paths import bus_id_of
from busbw.units import plain

_MAX_LINKS = 36
_GROWTH_PERIOD_S = 1.0
_RECOVERY_ACTION, _LINK_SPEED, _RECOVERIES, _RETRIES = 230, 164, (162, 215), (161, 163)
"""Fields of NVML. Recoveries: DL_RECOVERY, COUNT_LINK_RECOVERY_EVENTS. Retries: DL_REPLAY, DL_CRC."""
_TO_SWITCH = 2
_NVLINK, _READ = 2, 0
"""Capabilities of nvmlDeviceGetP2PStatus."""


class NvLinks(Struct, kw_only=True, frozen=True):
    """NVLinks of a GPU."""

    count: int
    inactive: tuple[int, ...] = ()
    to_switch: bool = False
    """True if an active link leads to an NVLink switch."""
    speeds_mbps: tuple[int, ...] = ()
    """Different speeds of the active links in 10^6 bytes/s, ascending."""
    recoveries: int | None = None
    """Times that links stopped and trained again within a second. None without counters."""
    retries: int | None = None
    """Packets with CRC errors, and repeated ones, within a second. None without counters."""

    @property
    def active(self) -> int:
        """Number of active links."""
        return self.count - len(self.inactive)


class Fabric(Struct, kw_only=True, frozen=True):
    """Registration of a GPU at the fabric manager, with the codes of nvmlGpuFabricInfo."""

    state: int
    """0: not supported, 1: not started, 2: in progress, 3: completed."""
    status: int = 0
    """Error code of NVML; 0 for success."""
    health_mask: int = 0
    clique: int = 0
    domain: str | None = None
    """Digest of the UUID of the NVLink domain. None if NVLink does not leave the node."""


class Gpu(Struct, kw_only=True, frozen=True):
    """A GPU. A value is None if the GPU lacks it, or if reading it failed; then `failures` has the reason."""

    index: int
    lost: bool = False
    """True if the GPU no longer answers on the bus."""
    failures: dict[str, str] = msgspec.field(default_factory=dict)
    """Reasons by field."""
    bus_id: str | None = None
    name: str | None = None
    vbios: str | None = None
    inforom: str | None = None
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    """Without the driver's own."""
    bar1_bytes: int | None = None
    ecc: bool | None = None
    ecc_pending: bool | None = None
    """Mode after the next reset."""
    ecc_uncorrected: int | None = None
    """Errors since the last reset."""
    rows_remapped: int | None = None
    """Rows of memory that were remapped after uncorrectable errors."""
    remap_pending: bool | None = None
    remap_failure: bool | None = None
    recovery_action: int | None = None
    sm_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    applications_clock_mhz: int | None = None
    default_applications_clock_mhz: int | None = None
    event_reasons: int | None = None
    """Mask of the reasons for the present clock (nvmlClocksEventReasons)."""
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    temperature_c: int | None = None
    thermal_margin_c: int | None = None
    """Difference to the temperature at which the GPU slows down."""
    persistence: bool | None = None
    mig: bool | None = None
    compute_mode: int | None = None
    """0: default, 1: exclusive thread, 2: prohibited, 3: exclusive process."""
    utilization_percent: int | None = None
    processes: int | None = None
    """Processes with a compute context."""
    nvlinks: NvLinks | None = None
    nvlink_best_mode: bool | None = None
    """False if the NVLinks are in a mode with reduced bandwidth."""
    fabric: Fabric | None = None

    @property
    def label(self) -> str:
        """Name in findings."""
        return f"GPU{self.index}"


class PeerFault(Struct, kw_only=True, frozen=True):
    """Pair of GPUs without full peer access, with the codes of nvmlGpuP2PStatus_t; 0 is OK."""

    first: int
    second: int
    nvlink: int
    read: int


class Gpus(Fact, kw_only=True, frozen=True):
    """All GPUs that this process may use, and values of the driver."""

    gpus: tuple[Gpu, ...]
    hidden: int = 0
    """GPUs that exist but that this process may not use."""
    driver_version: str | None = None
    cuda_version: int | None = None
    """1000 times the major plus 10 times the minor version."""
    conf_compute: bool | None = None
    multi_gpu_mode: int | None = None
    """Mode of confidential computing. 0: none, 1: protected PCIe, 2: encrypted NVLink."""
    peer_pairs: int = 0
    """Pairs of GPUs with known peer access."""
    peer_faults: tuple[PeerFault, ...] = ()
    failures: dict[str, str] = msgspec.field(default_factory=dict)
    """Reasons for values of the driver that could not be read, by field."""


_SYSTEM_VALUES: dict[str, Callable[[Any], Any]] = {
    "driver_version": lambda n: _text(n.nvmlSystemGetDriverVersion()),
    "cuda_version": lambda n: n.nvmlSystemGetCudaDriverVersion(),
    "conf_compute": lambda n: bool(n.nvmlSystemGetConfComputeState().ccFeature),
    "multi_gpu_mode": lambda n: _multi_gpu_mode(n),
}

_GPU_VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "bus_id": lambda n, gpu: bus_id_of(_text(n.nvmlDeviceGetPciInfo(gpu).busId)),
    "name": lambda n, gpu: _text(n.nvmlDeviceGetName(gpu)),
    "vbios": lambda n, gpu: _text(n.nvmlDeviceGetVbiosVersion(gpu)),
    "inforom": lambda n, gpu: _text(n.nvmlDeviceGetInforomImageVersion(gpu)),
    "memory_bytes": lambda n, gpu: n.nvmlDeviceGetMemoryInfo(gpu).total,
    # Version 1 of the structure counts the driver's own memory as used.
    "memory_used_bytes": lambda n, gpu: n.nvmlDeviceGetMemoryInfo(gpu, n.nvmlMemory_v2).used,
    "bar1_bytes": lambda n, gpu: n.nvmlDeviceGetBAR1MemoryInfo(gpu).bar1Total,
    "ecc": lambda n, gpu: bool(n.nvmlDeviceGetEccMode(gpu)[0]),
    "ecc_pending": lambda n, gpu: bool(n.nvmlDeviceGetEccMode(gpu)[1]),
    "ecc_uncorrected": lambda n, gpu: n.nvmlDeviceGetTotalEccErrors(gpu, 1, 0),  # uncorrected, volatile
    "rows_remapped": lambda n, gpu: n.nvmlDeviceGetRemappedRows(gpu)[1],
    "remap_pending": lambda n, gpu: bool(n.nvmlDeviceGetRemappedRows(gpu)[2]),
    "remap_failure": lambda n, gpu: bool(n.nvmlDeviceGetRemappedRows(gpu)[3]),
    "recovery_action": lambda n, gpu: field_values(n, gpu, [(_RECOVERY_ACTION, 0)])[0],
    "sm_clock_mhz": lambda n, gpu: n.nvmlDeviceGetClockInfo(gpu, 1),  # SM
    "max_sm_clock_mhz": lambda n, gpu: n.nvmlDeviceGetMaxClockInfo(gpu, 1),
    "applications_clock_mhz": lambda n, gpu: n.nvmlDeviceGetApplicationsClock(gpu, 0),  # graphics
    "default_applications_clock_mhz": lambda n, gpu: n.nvmlDeviceGetDefaultApplicationsClock(gpu, 0),
    "event_reasons": lambda n, gpu: n.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
    "power_limit_w": lambda n, gpu: n.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000,
    "default_power_limit_w": lambda n, gpu: n.nvmlDeviceGetPowerManagementDefaultLimit(gpu) / 1000,
    "temperature_c": lambda n, gpu: n.nvmlDeviceGetTemperature(gpu, 0),
    "thermal_margin_c": lambda n, gpu: n.nvmlDeviceGetMarginTemperature(gpu),
    "persistence": lambda n, gpu: bool(n.nvmlDeviceGetPersistenceMode(gpu)),
    "mig": lambda n, gpu: bool(n.nvmlDeviceGetMigMode(gpu)[0]),
    "compute_mode": lambda n, gpu: n.nvmlDeviceGetComputeMode(gpu),
    "utilization_percent": lambda n, gpu: n.nvmlDeviceGetUtilizationRates(gpu).gpu,
    "processes": lambda n, gpu: len(n.nvmlDeviceGetComputeRunningProcesses(gpu)),
    "nvlinks": lambda n, gpu: _nvlinks(n, gpu),
    "nvlink_best_mode": lambda n, gpu: _nvlink_best_mode(n, gpu),
    "fabric": lambda n, gpu: _fabric(n, gpu),
}


def read_gpus() -> Gpus:
    """Returns the GPUs of this machine. Takes a second if they have NVLinks with error counters.

    Raises:
        Unreadable: NVML is not available, or does not report the number of GPUs.
    """
    with open_nvml() as nvml:
        count, reason, _ = attempt(nvml, nvml.nvmlDeviceGetCount)
        if count is None:
            raise Unreadable(f"the number of GPUs: {reason}")
        opened = {index: attempt(nvml, nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)}
        handles = {index: handle for index, (handle, _, _) in opened.items() if handle is not None}
        start, before = time.monotonic(), {index: _link_errors(nvml, each) for index, each in handles.items()}
        gpus = [
            _read_gpu(nvml, index, handle) if handle is not None else _failed_gpu(index, reason, code)
            for index, (handle, reason, code) in opened.items()
            if code != NO_PERMISSION
        ]
        values, failures, _ = _read_all(nvml, _SYSTEM_VALUES)
        faults = [_peer_fault(nvml, handles, *pair) for pair in combinations(handles, 2)]
        if any(before.values()):
            time.sleep(max(0.0, start + _GROWTH_PERIOD_S - time.monotonic()))
        return Gpus(
            gpus=tuple(
                _with_growth(gpu, before[gpu.index], _link_errors(nvml, handles[gpu.index]))
                if gpu.index in handles
                else gpu
                for gpu in gpus
            ),
            hidden=count - len(gpus),
            peer_pairs=sum(fault is not None for fault in faults),
            peer_faults=tuple(fault for fault in faults if fault is not None and (fault.nvlink or fault.read)),
            failures=failures,
            **values,
        )


def _read_gpu(nvml: Any, index: int, handle: Any) -> Gpu:
    values, failures, is_lost = _read_all(nvml, _GPU_VALUES, handle)
    return Gpu(index=index, lost=is_lost, failures={} if is_lost else failures, **values)


def _failed_gpu(index: int, reason: str, code: int | None) -> Gpu:
    return Gpu(index=index, lost=code == LOST, failures={} if code == LOST else dict.fromkeys(_GPU_VALUES, reason))


def _read_all(
    nvml: Any, functions: dict[str, Callable[..., Any]], *handle: Any
) -> tuple[dict[str, Any], dict[str, str], bool]:
    """Returns the values, the reasons of failures, and True if a call found that the GPU is lost."""
    outcomes = {name: attempt(nvml, read, nvml, *handle) for name, read in functions.items()}
    values = {name: value for name, (value, _, _) in outcomes.items()}
    failures = {name: reason for name, (_, reason, _) in outcomes.items() if reason}
    return values, failures, any(code == LOST for _, _, code in outcomes.values())


def _text(value: str | bytes) -> str:
    return plain(value.decode(errors="replace") if isinstance(value, bytes) else value)


def _nvlinks(nvml: Any, gpu: Any) -> NvLinks | None:
    states: list[int] = []
    for link in range(_MAX_LINKS):
        state, reason, _ = attempt(nvml, nvml.nvmlDeviceGetNvLinkState, gpu, link)
        if reason:
            raise ValueError(reason)
        if state is None:
            break  # past the last link
        states.append(state)
    active = [link for link, state in enumerate(states) if state]  # asleep (2) is active too
    ends = [attempt(nvml, nvml.nvmlDeviceGetNvLinkRemoteDeviceType, gpu, link)[0] for link in active]
    speeds, _, _ = attempt(nvml, field_values, nvml, gpu, [(_LINK_SPEED, link) for link in active])
    inactive = tuple(link for link, state in enumerate(states) if not state)
    known_speeds = tuple(sorted({speed for speed in speeds or () if speed}))
    links = NvLinks(count=len(states), inactive=inactive, to_switch=_TO_SWITCH in ends, speeds_mbps=known_speeds)
    return links if states else None


def _link_errors(nvml: Any, gpu: Any) -> tuple[int, int] | None:
    """Returns the recoveries and retries of all links. None without counters."""

    def read(link: int) -> list[int | None]:
        return field_values(nvml, gpu, [(field, link) for field in (*_RECOVERIES, *_RETRIES)])

    links = [attempt(nvml, read, link)[0] or [] for link in range(_MAX_LINKS)]
    if all(value is None for values in links for value in values):
        return None
    return sum(sum(filter(None, values[:2])) for values in links), sum(
        sum(filter(None, values[2:])) for values in links
    )


def _with_growth(gpu: Gpu, before: tuple[int, int] | None, after: tuple[int, int] | None) -> Gpu:
    if gpu.nvlinks is None or before is None or after is None:
        return gpu
    recoveries, retries = (max(0, last - first) for first, last in zip(before, after, strict=True))
    nvlinks = msgspec.structs.replace(gpu.nvlinks, recoveries=recoveries, retries=retries)
    return msgspec.structs.replace(gpu, nvlinks=nvlinks)


def _nvlink_best_mode(nvml: Any, gpu: Any) -> bool:
    mode = nvml.c_nvmlNvlinkGetBwMode_v1_t()
    nvml.nvmlDeviceGetNvlinkBwMode(gpu, byref(mode))
    return bool(mode.bIsBest)


def _fabric(nvml: Any, gpu: Any) -> Fabric:
    info = nvml.c_nvmlGpuFabricInfo_v2_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(gpu, byref(info))
    uuid = bytes(info.clusterUuid)
    domain = sha256(uuid).hexdigest()[:8] if any(uuid) else None
    return Fabric(
        state=info.state, status=info.status, health_mask=info.healthMask, clique=info.cliqueId, domain=domain
    )


def _multi_gpu_mode(nvml: Any) -> int | None:
    settings = nvml.c_nvmlSystemConfComputeSettings_v1_t()
    # This function of the package returns the error code.
    code = nvml.nvmlSystemGetConfComputeSettings(byref(settings))
    return settings.multiGpuMode if code == 0 else None


def _peer_fault(nvml: Any, handles: dict[int, Any], first: int, second: int) -> PeerFault | None:
    """Returns the peer access of two GPUs. None if it is unknown."""
    nvlink, read = (
        attempt(nvml, nvml.nvmlDeviceGetP2PStatus, handles[first], handles[second], capability)[0]
        for capability in (_NVLINK, _READ)
    )
    return None if nvlink is None or read is None else PeerFault(first=first, second=second, nvlink=nvlink, read=read)
