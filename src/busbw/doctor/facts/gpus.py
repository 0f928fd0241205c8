"""NVIDIA GPUs as NVML reports them. Serial numbers and UUIDs are not kept."""

import time
from collections.abc import Callable
from ctypes import byref
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Struct

from busbw.doctor.facts.nvml import LOST, NO_PERMISSION, attempt, field_values, open_nvml
from busbw.doctor.model import Unreadable
from busbw.doctor.model.machine import Fact
from busbw.topology.sources.pci_paths import bus_id_of
from busbw.units import plain

_MAX_LINKS = 36
"""Maximum number of links that are queried. No GPU has more."""
_GROWTH_PERIOD_S = 1.0
"""Time between the two readings of the recovery counters."""
_RECOVERY_ACTION, _LINK_SPEED, _RECOVERIES = 230, 164, (162, 215)
"""Numbers of fields of NVML. The two counters of recoveries are DL_RECOVERY and COUNT_LINK_RECOVERY_EVENTS."""
_UNCORRECTED_ERRORS = 1, 0
"""Arguments of nvmlDeviceGetTotalEccErrors: uncorrected errors, since the last reset."""
_REMAP_PENDING, _REMAP_FAILURE = 2, 3
"""Positions in the result of nvmlDeviceGetRemappedRows."""
_GRAPHICS, _SM = 0, 1
"""Kinds of clocks, in NVML's numbers."""


class NvLinks(Struct, kw_only=True, frozen=True):
    """NVLinks of a GPU."""

    count: int
    inactive: tuple[int, ...] = ()
    speeds_mbps: tuple[int, ...] = ()
    """Different speeds of the active links in 10^6 bytes/s, ascending."""
    recoveries: int | None = None
    """Number of recoveries during _GROWTH_PERIOD_S: a link stopped and trained again. None without counters."""

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
    joins_nodes: bool = False
    """True if the GPU states a cluster. NVLink then leaves the node in a rack, but not on a board such as HGX B200."""


class Gpu(Struct, kw_only=True, frozen=True):
    """A GPU. A value is None if the GPU lacks it, or if reading it failed; then `failures` has the reason.

    The annotation of a value has the function that reads it. Its arguments are NVML's package and the GPU's handle.
    """

    index: int
    lost: bool = False
    """True if the GPU no longer answers on the bus."""
    failures: dict[str, str] = msgspec.field(default_factory=dict)
    """Reasons by field."""
    bus_id: Annotated[str | None, lambda n, g: bus_id_of(_text(n.nvmlDeviceGetPciInfo(g).busId))] = None
    name: Annotated[str | None, lambda n, g: _text(n.nvmlDeviceGetName(g))] = None
    memory_used_bytes: Annotated[int | None, lambda n, g: n.nvmlDeviceGetMemoryInfo(g, n.nvmlMemory_v2).used] = None
    """Used memory without the driver's own memory, which version 1 of NVML's structure includes."""
    ecc_uncorrected: Annotated[int | None, lambda n, g: n.nvmlDeviceGetTotalEccErrors(g, *_UNCORRECTED_ERRORS)] = None
    """Errors since the last reset."""
    remap_pending: Annotated[bool | None, lambda n, g: bool(n.nvmlDeviceGetRemappedRows(g)[_REMAP_PENDING])] = None
    remap_failure: Annotated[bool | None, lambda n, g: bool(n.nvmlDeviceGetRemappedRows(g)[_REMAP_FAILURE])] = None
    recovery_action: Annotated[int | None, lambda n, g: field_values(n, g, [(_RECOVERY_ACTION, 0)])[0]] = None
    sm_clock_mhz: Annotated[int | None, lambda n, g: n.nvmlDeviceGetClockInfo(g, _SM)] = None
    max_sm_clock_mhz: Annotated[int | None, lambda n, g: n.nvmlDeviceGetMaxClockInfo(g, _SM)] = None
    applications_clock_mhz: Annotated[int | None, lambda n, g: n.nvmlDeviceGetApplicationsClock(g, _GRAPHICS)] = None
    event_reasons: Annotated[int | None, lambda n, g: n.nvmlDeviceGetCurrentClocksThrottleReasons(g)] = None
    """Mask of the reasons for the present clock (nvmlClocksEventReasons)."""
    power_limit_w: Annotated[float | None, lambda n, g: n.nvmlDeviceGetEnforcedPowerLimit(g) / 1000] = None
    persistence: Annotated[bool | None, lambda n, g: bool(n.nvmlDeviceGetPersistenceMode(g))] = None
    mig: Annotated[bool | None, lambda n, g: bool(n.nvmlDeviceGetMigMode(g)[0])] = None
    compute_mode: Annotated[int | None, lambda n, g: n.nvmlDeviceGetComputeMode(g)] = None
    """0: default, 1: exclusive thread, 2: prohibited, 3: exclusive process."""
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


class Gpus(Fact, kw_only=True, frozen=True):
    """All GPUs that this process may use."""

    gpus: tuple[Gpu, ...]
    hidden: int = 0
    """GPUs that exist but that this process may not use."""


_VALUES: dict[str, Callable[[Any, Any], Any]] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Gpu, include_extras=True).items()
    if hasattr(hint, "__metadata__")
}
"""Functions that read the values of a GPU, by field."""


def read_gpus() -> Gpus:
    """Returns the GPUs of this machine. Takes a second if NVLinks have counters of recoveries.

    Raises:
        Unreadable: NVML is not available, or does not report the number of GPUs.
    """
    with open_nvml() as nvml:
        count, reason, _ = attempt(nvml, nvml.nvmlDeviceGetCount)
        if count is None:
            raise Unreadable(f"the number of GPUs: {reason}")
        opened = {index: attempt(nvml, nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)}
        handles = {index: handle for index, (handle, _, _) in opened.items() if handle is not None}
        start = time.monotonic()
        before = {index: _recoveries(nvml, handle) for index, handle in handles.items()}
        gpus = [
            _failed_gpu(index, reason, code) if handle is None else _read_gpu(nvml, index, handle)
            for index, (handle, reason, code) in opened.items()
            if code != NO_PERMISSION
        ]
        if any(recoveries is not None for recoveries in before.values()):
            time.sleep(max(0.0, start + _GROWTH_PERIOD_S - time.monotonic()))
        after = {index: _recoveries(nvml, handle) for index, handle in handles.items()}
        return Gpus(
            gpus=tuple(_with_growth(gpu, before.get(gpu.index), after.get(gpu.index)) for gpu in gpus),
            hidden=count - len(gpus),
        )


def _failed_gpu(index: int, reason: str, code: int | None) -> Gpu:
    if code == LOST:
        return Gpu(index=index, lost=True)
    return Gpu(index=index, failures=dict.fromkeys(_VALUES, reason))


def _read_gpu(nvml: Any, index: int, handle: Any) -> Gpu:
    outcomes = {name: attempt(nvml, read, nvml, handle) for name, read in _VALUES.items()}
    is_lost = any(code == LOST for _, _, code in outcomes.values())
    failures = {name: reason for name, (_, reason, _) in outcomes.items() if reason and not is_lost}
    values: dict[str, Any] = {name: value for name, (value, _, _) in outcomes.items()}
    return Gpu(index=index, lost=is_lost, failures=failures, **values)


def _text(value: str | bytes) -> str:
    return plain(value.decode(errors="replace") if isinstance(value, bytes) else value)


def _nvlinks(nvml: Any, handle: Any) -> NvLinks | None:
    states: list[int] = []
    for link in range(_MAX_LINKS):
        state, reason, _ = attempt(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link)
        if reason:
            raise ValueError(reason)
        if state is None:
            break  # past the last link
        states.append(state)
    if not states:
        return None
    active = [link for link, state in enumerate(states) if state]  # asleep (2) is active too
    speeds, _, _ = attempt(nvml, field_values, nvml, handle, [(_LINK_SPEED, link) for link in active])
    inactive = tuple(link for link, state in enumerate(states) if not state)
    known_speeds = tuple(sorted({speed for speed in speeds or () if speed}))
    return NvLinks(count=len(states), inactive=inactive, speeds_mbps=known_speeds)


def _recoveries(nvml: Any, handle: Any) -> int | None:
    """Returns the recoveries of all links since the last reset. None if the GPU has no counters."""
    counts: list[int] = []
    for link in range(_MAX_LINKS):
        values, _, _ = attempt(nvml, field_values, nvml, handle, [(field, link) for field in _RECOVERIES])
        counts += [value for value in values or () if value is not None]
    return sum(counts) if counts else None


def _with_growth(gpu: Gpu, before: int | None, after: int | None) -> Gpu:
    """Returns the GPU with its recoveries between two readings of the counters. None: no reading."""
    if gpu.nvlinks is None or before is None or after is None:
        return gpu
    nvlinks = msgspec.structs.replace(gpu.nvlinks, recoveries=max(0, after - before))
    return msgspec.structs.replace(gpu, nvlinks=nvlinks)


def _nvlink_best_mode(nvml: Any, handle: Any) -> bool:
    mode = nvml.c_nvmlNvlinkGetBwMode_v1_t()
    nvml.nvmlDeviceGetNvlinkBwMode(handle, byref(mode))
    return bool(mode.bIsBest)


def _fabric(nvml: Any, handle: Any) -> Fabric:
    info = nvml.c_nvmlGpuFabricInfo_v2_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, byref(info))
    joins_nodes = any(bytes(info.clusterUuid))
    return Fabric(state=info.state, status=info.status, health_mask=info.healthMask, joins_nodes=joins_nodes)
