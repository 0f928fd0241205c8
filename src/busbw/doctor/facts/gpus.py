"""NVIDIA GPUs as NVML reports them. Serial numbers and UUIDs are not kept."""

import time
from collections.abc import Callable
from ctypes import byref
from hashlib import sha256
from itertools import combinations
from typing import Annotated, Any, get_type_hints

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
    """A GPU. A value is None if the GPU lacks it, or if reading it failed; then `failures` has the reason.

    The annotation of a value holds the function that reads it from the package and the handle of the GPU.
    """

    index: int
    lost: bool = False
    """True if the GPU no longer answers on the bus."""
    failures: dict[str, str] = msgspec.field(default_factory=dict)
    """Reasons by field."""
    bus_id: Annotated[str | None, lambda n, g: bus_id_of(_text(n.nvmlDeviceGetPciInfo(g).busId))] = None
    name: Annotated[str | None, lambda n, g: _text(n.nvmlDeviceGetName(g))] = None
    vbios: Annotated[str | None, lambda n, g: _text(n.nvmlDeviceGetVbiosVersion(g))] = None
    inforom: Annotated[str | None, lambda n, g: _text(n.nvmlDeviceGetInforomImageVersion(g))] = None
    memory_bytes: Annotated[int | None, lambda n, g: n.nvmlDeviceGetMemoryInfo(g).total] = None
    memory_used_bytes: Annotated[int | None, lambda n, g: n.nvmlDeviceGetMemoryInfo(g, n.nvmlMemory_v2).used] = None
    """Without the driver's own, which version 1 of the structure includes."""
    bar1_bytes: Annotated[int | None, lambda n, g: n.nvmlDeviceGetBAR1MemoryInfo(g).bar1Total] = None
    ecc: Annotated[bool | None, lambda n, g: bool(n.nvmlDeviceGetEccMode(g)[0])] = None
    ecc_pending: Annotated[bool | None, lambda n, g: bool(n.nvmlDeviceGetEccMode(g)[1])] = None
    """Mode after the next reset."""
    ecc_uncorrected: Annotated[int | None, lambda n, g: n.nvmlDeviceGetTotalEccErrors(g, 1, 0)] = None
    """Errors since the last reset."""
    rows_corrected: Annotated[int | None, lambda n, g: n.nvmlDeviceGetRemappedRows(g)[0]] = None
    rows_uncorrected: Annotated[int | None, lambda n, g: n.nvmlDeviceGetRemappedRows(g)[1]] = None
    """Rows of memory that were remapped after uncorrectable errors."""
    remap_pending: Annotated[bool | None, lambda n, g: bool(n.nvmlDeviceGetRemappedRows(g)[2])] = None
    remap_failure: Annotated[bool | None, lambda n, g: bool(n.nvmlDeviceGetRemappedRows(g)[3])] = None
    recovery_action: Annotated[int | None, lambda n, g: field_values(n, g, [(_RECOVERY_ACTION, 0)])[0]] = None
    sm_clock_mhz: Annotated[int | None, lambda n, g: n.nvmlDeviceGetClockInfo(g, 1)] = None
    max_sm_clock_mhz: Annotated[int | None, lambda n, g: n.nvmlDeviceGetMaxClockInfo(g, 1)] = None
    applications_clock_mhz: Annotated[int | None, lambda n, g: n.nvmlDeviceGetApplicationsClock(g, 0)] = None
    default_clock_mhz: Annotated[int | None, lambda n, g: n.nvmlDeviceGetDefaultApplicationsClock(g, 0)] = None
    event_reasons: Annotated[int | None, lambda n, g: n.nvmlDeviceGetCurrentClocksThrottleReasons(g)] = None
    """Mask of the reasons for the present clock (nvmlClocksEventReasons)."""
    power_limit_w: Annotated[float | None, lambda n, g: n.nvmlDeviceGetEnforcedPowerLimit(g) / 1000] = None
    default_limit_w: Annotated[float | None, lambda n, g: n.nvmlDeviceGetPowerManagementDefaultLimit(g) / 1000] = None
    temperature_c: Annotated[int | None, lambda n, g: n.nvmlDeviceGetTemperature(g, 0)] = None
    thermal_margin_c: Annotated[int | None, lambda n, g: n.nvmlDeviceGetMarginTemperature(g)] = None
    """Difference to the temperature at which the GPU slows down."""
    persistence: Annotated[bool | None, lambda n, g: bool(n.nvmlDeviceGetPersistenceMode(g))] = None
    mig: Annotated[bool | None, lambda n, g: bool(n.nvmlDeviceGetMigMode(g)[0])] = None
    compute_mode: Annotated[int | None, lambda n, g: n.nvmlDeviceGetComputeMode(g)] = None
    """0: default, 1: exclusive thread, 2: prohibited, 3: exclusive process."""
    performance_state: Annotated[int | None, lambda n, g: n.nvmlDeviceGetPerformanceState(g)] = None
    pcie_generation: Annotated[int | None, lambda n, g: n.nvmlDeviceGetCurrPcieLinkGeneration(g)] = None
    """Lower than the maximum while the GPU is idle."""
    max_pcie_generation: Annotated[int | None, lambda n, g: n.nvmlDeviceGetMaxPcieLinkGeneration(g)] = None
    pcie_width: Annotated[int | None, lambda n, g: n.nvmlDeviceGetCurrPcieLinkWidth(g)] = None
    max_pcie_width: Annotated[int | None, lambda n, g: n.nvmlDeviceGetMaxPcieLinkWidth(g)] = None
    utilization_percent: Annotated[int | None, lambda n, g: n.nvmlDeviceGetUtilizationRates(g).gpu] = None
    processes: Annotated[int | None, lambda n, g: len(n.nvmlDeviceGetComputeRunningProcesses(g))] = None
    """Processes with a compute context."""
    nvlinks: Annotated[NvLinks | None, lambda n, g: _nvlinks(n, g)] = None
    nvlink_best_mode: Annotated[bool | None, lambda n, g: _nvlink_best_mode(n, g)] = None
    """False if the NVLinks are in a mode with reduced bandwidth."""
    fabric: Annotated[Fabric | None, lambda n, g: _fabric(n, g)] = None

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
    driver_version: Annotated[str | None, lambda n: _text(n.nvmlSystemGetDriverVersion())] = None
    cuda_version: Annotated[int | None, lambda n: n.nvmlSystemGetCudaDriverVersion()] = None
    """1000 times the major plus 10 times the minor version."""
    conf_compute: Annotated[bool | None, lambda n: bool(n.nvmlSystemGetConfComputeState().ccFeature)] = None
    multi_gpu_mode: Annotated[int | None, lambda n: _multi_gpu_mode(n)] = None
    """Mode of confidential computing. 0: none, 1: protected PCIe, 2: encrypted NVLink."""
    peer_pairs: int = 0
    """Pairs of GPUs with known peer access."""
    peer_faults: tuple[PeerFault, ...] = ()
    failures: dict[str, str] = msgspec.field(default_factory=dict)
    """Reasons for values of the driver that could not be read, by field."""


def _readers(struct: type[Struct]) -> dict[str, Callable[..., Any]]:
    """Returns the functions that read the values of a structure, by field."""
    hints = get_type_hints(struct, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}


_SYSTEM_VALUES, _GPU_VALUES = _readers(Gpus), _readers(Gpu)


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
