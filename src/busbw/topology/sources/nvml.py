"""Queries the driver about its GPUs through NVML (the Python package nvidia-ml-py).

Each function may fail separately: a virtual machine hides the bus, an old GPU has no MIG. Then only the value of that
function is unknown, and a note may explain it.
"""

from collections.abc import Sequence
from importlib import import_module
from itertools import combinations
from typing import Any, Literal, TypeVar

from msgspec import Struct

from busbw.topology.cpu_ranges import format_ranges, set_bits
from busbw.topology.sources.gpu_paths import LinkEnd
from busbw.topology.sources.link_rates import NVLINK_GBPS, pcie_gbps
from busbw.topology.sources.pci_paths import bus_id_of
from busbw.topology.types import Access, Driver, Gpu, NvLinks, Pcie, PcieLevel, PeerAccess
from busbw.units import plain

T = TypeVar("T")


# Constants of nvml.h. Those of the package are not used: some versions lack a few, and one is a tuple by mistake.
_MAX_LINKS = 36
_LINK_ACTIVE = 1
_SCOPE_NODE = 0
_CPU_WORDS, _NODE_WORDS = 64, 16
"""Lengths of affinity masks in 64-bit words, for 4096 CPUs and 1024 NUMA nodes."""
_FIELD_LINK_SPEED = 164
"""NVML_FI_DEV_NVLINK_GET_SPEED."""
_TYPE_UNSIGNED, _TYPE_UNSIGNED_LONG, _TYPE_UNSIGNED_LONG_LONG = 1, 2, 3
_REMOTE_KINDS = {0: "GPU", 2: "switch"}
"""Value of `LinkEnd.to` by the type of the remote device."""
_NVLINK_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
_LEVELS: dict[int, PcieLevel] = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""NVML also distinguishes two GPUs on one board (0). `nvidia-smi topo` shows that level as PIX too."""
_READ, _WRITE, _NVLINK, _ATOMICS = 0, 1, 2, 3
"""Capabilities of nvmlDeviceGetP2PStatus."""
_ACCESS: dict[int, Access] = {
    0: "ok",
    1: "chipset not supported",
    2: "GPU not supported",
    3: "topology not supported",
    4: "disabled by setting",
    5: "not supported",
}
_INVALID_ARGUMENT, _NOT_SUPPORTED, _NO_DRIVER, _NO_LIBRARY = 2, 3, 9, 12
"""Error codes."""
_MIG_ENABLED = 1


class NvmlSnapshot(Struct, kw_only=True, frozen=True):
    """Data of one machine from NVML."""

    driver: Driver | None
    gpus: tuple[Gpu, ...] | None
    """GPUs without the remote devices of their links, which are in `links`. None if NVML is not available."""
    links: tuple[tuple[LinkEnd, ...], ...] = ()
    """Active NVLinks of each GPU."""
    levels: dict[tuple[int, int], PcieLevel] = {}
    """PCIe level by the indexes of two GPUs, the lower index first. Pairs with an unknown level are missing."""
    access: dict[tuple[int, int], PeerAccess] = {}
    """Peer access, by the same indexes."""
    notes: tuple[str, ...] = ()


def library() -> Any:
    """Returns the package nvidia-ml-py; None if it is not installed."""
    try:
        return import_module("pynvml")
    except ImportError:
        return None


def snapshot(nvml: Any) -> NvmlSnapshot:
    """Returns all data from NVML. Failures become notes.

    Args:
        nvml: The package, or another object with its functions; None if it is not installed.
    """
    if nvml is None:
        note = "the Python package nvidia-ml-py is not installed, so GPUs are unknown; pip install nvidia-ml-py"
        return NvmlSnapshot(driver=None, gpus=None, notes=(note,))
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError, OSError, AttributeError) as error:
        return NvmlSnapshot(driver=None, gpus=None, notes=(_failure_note(error),))
    queries = _NvmlQueries(nvml)
    try:
        return _query_all(queries)
    finally:
        queries("nvmlShutdown")


def _failure_note(error: Exception) -> str:
    code = getattr(error, "value", None)
    if code == _NO_LIBRARY:
        return "no NVIDIA driver found (libnvidia-ml.so.1 cannot be loaded), so GPUs are unknown"
    if code == _NO_DRIVER:
        return "NVIDIA's driver is installed but not loaded, so GPUs are unknown; run modprobe nvidia"
    return f"NVML does not start ({plain(str(error))}), so GPUs are unknown; run nvidia-smi for details"


class _NvmlQueries:
    """Calls NVML functions by name. A call that fails returns None. The notes list failures that are not expected."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._failures: dict[tuple[str, str], int] = {}

    def __call__(self, name: str, *arguments: object) -> Any:
        function = getattr(self._nvml, name, None)
        if function is None:
            self._count_failure(name, "this version of nvidia-ml-py lacks the function")
            return None
        try:
            return function(*arguments)
        # Some functions of the package raise other errors than NVMLError.
        except (self._nvml.NVMLError, OSError, AttributeError, ValueError) as error:
            # These two codes only mean that the GPU lacks the feature or the link. They are no failures.
            if getattr(error, "value", None) not in {_NOT_SUPPORTED, _INVALID_ARGUMENT}:
                self._count_failure(name, plain(str(error)) or type(error).__name__)
            return None

    def _count_failure(self, name: str, reason: str) -> None:
        self._failures[name, reason] = self._failures.get((name, reason), 0) + 1

    @property
    def notes(self) -> tuple[str, ...]:
        """One note per function and error."""
        return tuple(
            f"{name} failed{f' {times} times' if times > 1 else ''}: {reason}"
            for (name, reason), times in self._failures.items()
        )


def _query_all(queries: _NvmlQueries) -> NvmlSnapshot:
    driver = Driver(
        version=_text(queries("nvmlSystemGetDriverVersion")),
        cuda_version=_cuda_version_text(queries("nvmlSystemGetCudaDriverVersion")),
    )
    count = queries("nvmlDeviceGetCount")
    if count is None:
        note = "NVML does not report the number of GPUs, so GPUs are unknown"
        return NvmlSnapshot(driver=driver, gpus=None, notes=(*queries.notes, note))
    gpus, links, handles = [], [], []
    for index in range(count):
        handle = queries("nvmlDeviceGetHandleByIndex", index)
        handles.append(handle)
        gpu_links = _query_links(queries, handle) if handle is not None else None
        links.append(gpu_links or ())
        gpu = Gpu(label=f"GPU{index}")
        gpus.append(gpu if handle is None else _query_gpu(queries, handle, index, gpu_links))
    levels, access = {}, {}
    for pair in combinations(range(count), 2):
        first, second = (handles[index] for index in pair)
        if first is None or second is None:
            continue
        level = queries("nvmlDeviceGetTopologyCommonAncestor", first, second)
        if level in _LEVELS:
            levels[pair] = _LEVELS[level]
        access[pair] = _query_access(queries, first, second)
    return NvmlSnapshot(
        driver=driver, gpus=tuple(gpus), links=tuple(links), levels=levels, access=access, notes=tuple(queries.notes)
    )


def _query_gpu(queries: _NvmlQueries, handle: object, index: int, links: tuple[LinkEnd, ...] | None) -> Gpu:
    def query(name: str, *arguments: object) -> Any:
        return queries(name, handle, *arguments)

    memory = query("nvmlDeviceGetMemoryInfo")
    cpu_mask = query("nvmlDeviceGetCpuAffinity", _CPU_WORDS)
    node_mask = query("nvmlDeviceGetMemoryAffinity", _NODE_WORDS, _SCOPE_NODE)
    mig_modes = query("nvmlDeviceGetMigMode")
    gpu_numa_id = query("nvmlDeviceGetNumaNodeId")
    max_generation = query("nvmlDeviceGetMaxPcieLinkGeneration") or None
    max_width = query("nvmlDeviceGetMaxPcieLinkWidth") or None
    pcie = Pcie(
        generation=query("nvmlDeviceGetCurrPcieLinkGeneration") or None,
        width=query("nvmlDeviceGetCurrPcieLinkWidth") or None,
        max_generation=max_generation,
        max_width=max_width,
        max_gbps=pcie_gbps(max_generation, max_width),
    )
    return Gpu(
        label=f"GPU{index}",
        name=_text(query("nvmlDeviceGetName")),
        bus_id=_bus_id(query("nvmlDeviceGetPciInfo")),
        memory_bytes=None if memory is None else int(memory.total),
        pcie=None if pcie == Pcie() else pcie,
        nvlinks=_summarize_links(links),
        cpu_affinity=None if cpu_mask is None else format_ranges(set_bits(cpu_mask)) or None,
        numa_affinity=None if node_mask is None else format_ranges(set_bits(node_mask)) or None,
        gpu_numa_id=gpu_numa_id if gpu_numa_id is not None and gpu_numa_id >= 0 else None,
        mig_mode=_mig_mode(mig_modes),
    )


def _mig_mode(modes: Sequence[int] | None) -> Literal["enabled", "disabled"] | None:
    """Returns the current mode, the first of `modes`. The second is the mode after the next reset."""
    if modes is None:
        return None
    return "enabled" if modes[0] == _MIG_ENABLED else "disabled"


def _query_links(queries: _NvmlQueries, handle: object) -> tuple[LinkEnd, ...] | None:
    """Returns the active links; None if the driver reports no link state."""
    active_links, has_state = [], False
    for link in range(_MAX_LINKS):
        state = queries("nvmlDeviceGetNvLinkState", handle, link)
        if state is None:
            break  # the GPU has no NVLink, or `link` exceeds the number of its last link
        has_state = True
        if state != _LINK_ACTIVE:
            continue
        version = queries("nvmlDeviceGetNvLinkVersion", handle, link)
        remote_type = queries("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
        remote_pci = queries("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
        active_links.append(
            LinkEnd(
                version=None if version is None else _NVLINK_VERSIONS.get(version),
                to=_REMOTE_KINDS.get(remote_type),
                bus_id=_bus_id(remote_pci),
                line_gbps=_line_gbps(queries("nvmlDeviceGetFieldValues", handle, [(_FIELD_LINK_SPEED, link)])),
            )
        )
    return tuple(active_links) if has_state else None


def _line_gbps(values: Sequence[Any] | None) -> float | None:
    """Converts the driver's value, in units of 1e6 bytes per second, to GB/s."""
    if not values or values[0].nvmlReturn != 0:
        return None
    value, value_type = values[0].value, values[0].valueType
    member_by_type = {_TYPE_UNSIGNED: "uiVal", _TYPE_UNSIGNED_LONG: "ulVal", _TYPE_UNSIGNED_LONG_LONG: "ullVal"}
    megabytes = getattr(value, member_by_type[value_type]) if value_type in member_by_type else 0
    return megabytes / 1000 if megabytes else None


def _summarize_links(links: tuple[LinkEnd, ...] | None) -> NvLinks | None:
    if links is None:
        return None
    version = _shared_value([link.version for link in links])
    return NvLinks(
        active=len(links),
        version=version,
        link_gbps=NVLINK_GBPS.get(version) if version else None,
        line_gbps=_shared_value([link.line_gbps for link in links]),
    )


def _shared_value(values: Sequence[T | None]) -> T | None:
    """Returns the value that all links share; None if they differ or one is unknown."""
    return values[0] if values and all(value == values[0] for value in values) else None


def _query_access(queries: _NvmlQueries, first: object, second: object) -> PeerAccess:
    def query(capability: int) -> Access | None:
        status = queries("nvmlDeviceGetP2PStatus", first, second, capability)
        return None if status is None else _ACCESS.get(status)

    return PeerAccess(read=query(_READ), write=query(_WRITE), atomics=query(_ATOMICS), nvlink=query(_NVLINK))


def _bus_id(info: Any) -> str | None:
    """Returns the bus id; None for all zeros or all ones, which the driver uses for an unknown device."""
    text = _text(info.busId) if info is not None else None
    bus_id = bus_id_of(text) if text else None
    if bus_id is None or bus_id == "0000:00:00.0" or bus_id.startswith("ffffffff:"):
        return None
    return bus_id


def _text(value: str | bytes | None) -> str | None:
    """Returns text without control characters. Some versions of the package return bytes, others str."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return plain(text) or None if text else None


def _cuda_version_text(number: int | None) -> str | None:
    """Formats a CUDA version: 13000 is 13.0 (cuda.h: 1000 times the major plus 10 times the minor version)."""
    return f"{number // 1000}.{number % 1000 // 10}" if number else None
