"""What the driver says of its GPUs, through NVML (the Python package nvidia-ml-py).

Each function may fail by itself: a virtual machine hides the bus, an old GPU has no MIG. Then that one value is not
known.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from msgspec import Struct

from busbw.topology.cpu_ranges import format_ranges, set_bits
from busbw.topology.sources.gpu_paths import LinkEnd
from busbw.topology.sources.link_rates import NVLINK_GBPS, pcie_gbps
from busbw.topology.sources.nvml_functions import Nvml
from busbw.topology.sources.pci_paths import bus_id_of
from busbw.topology.types import Access, Driver, Gpu, NvLinks, Pcie, PcieLevel, PeerAccess
from busbw.units import plain

T = TypeVar("T")


# Numbers of nvml.h. Not taken from the package: versions of it lack some, and one of them is a tuple by mistake there.
_MAX_LINKS = 36
_SCOPE_NODE = 0
_CPU_WORDS, _NODE_WORDS = 64, 16
"""Words of 64 bits: 4096 CPUs and 1024 nodes."""
_FIELD_LINK_SPEED = 164
_TYPE_UNSIGNED, _TYPE_UNSIGNED_LONG, _TYPE_UNSIGNED_LONG_LONG = 1, 2, 3
_REMOTE_GPU, _REMOTE_SWITCH = 0, 2
_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
_LEVELS: dict[int, PcieLevel] = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""0 is two GPUs on one board, which `nvidia-smi topo` calls PIX too: at most a single bridge."""
_READ, _WRITE, _NVLINK, _ATOMICS = 0, 1, 2, 3
_ACCESS: dict[int, Access] = {
    0: "ok",
    1: "chipset not supported",
    2: "GPU not supported",
    3: "topology not supported",
    4: "disabled by setting",
    5: "not supported",
}
_NOT_SUPPORTED = 3
_INVALID_ARGUMENT = 2
_NO_LIBRARY, _NO_DRIVER = 12, 9


class NvmlSnapshot(Struct, kw_only=True, frozen=True):
    """What NVML says of a machine."""

    driver: Driver | None
    gpus: tuple[Gpu, ...] | None
    """Without where their links lead, which `links` says. None: NVML itself is not there."""
    links: tuple[tuple[LinkEnd, ...], ...] = ()
    """Active NVLinks of each GPU."""
    levels: dict[tuple[int, int], PcieLevel] = {}
    access: dict[tuple[int, int], PeerAccess] = {}
    notes: tuple[str, ...] = ()


def snapshot(nvml: Nvml | None) -> NvmlSnapshot:
    """All that NVML says; never an error."""
    if nvml is None:
        note = "the Python package nvidia-ml-py is not installed, so nothing is said of GPUs; pip install nvidia-ml-py"
        return NvmlSnapshot(driver=None, gpus=None, notes=(note,))
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError, OSError, AttributeError) as error:
        return NvmlSnapshot(driver=None, gpus=None, notes=(_why_not(error),))
    asked = _NvmlQueries(nvml)
    try:
        return _look(nvml, asked)
    finally:
        asked(nvml.nvmlShutdown)


def _why_not(error: Exception) -> str:
    code = getattr(error, "value", None)
    if code == _NO_LIBRARY:
        return "no NVIDIA driver here (libnvidia-ml.so.1 cannot be loaded), so nothing is said of GPUs"
    if code == _NO_DRIVER:
        return "NVIDIA's driver is installed but not loaded, so nothing is said of GPUs; modprobe nvidia"
    return f"NVML does not start ({plain(str(error))}), so nothing is said of GPUs; nvidia-smi may say more"


class _NvmlQueries:
    """Asks NVML, and remembers which questions failed with what."""

    def __init__(self, nvml: Nvml) -> None:
        self._error = nvml.NVMLError
        self._failures: dict[tuple[str, str], int] = {}

    def __call__(self, function: Callable[..., T], *arguments: object) -> T | None:
        try:
            return function(*arguments)
        # Not all of the package's functions turn what they get into an NVMLError.
        except (self._error, OSError, AttributeError, ValueError) as error:
            # "Not supported" says that the GPU has no such thing, which is no trouble.
            if getattr(error, "value", None) not in {_NOT_SUPPORTED, _INVALID_ARGUMENT}:
                key = (getattr(function, "__name__", "a function"), plain(str(error)) or type(error).__name__)
                self._failures[key] = self._failures.get(key, 0) + 1
            return None

    @property
    def notes(self) -> tuple[str, ...]:
        """One for each function that failed in one way."""
        return tuple(
            f"{name} failed{f' {times} times' if times > 1 else ''}: {reason}"
            for (name, reason), times in self._failures.items()
        )


def _look(nvml: Nvml, asked: _NvmlQueries) -> NvmlSnapshot:
    driver = Driver(
        version=_text(asked(_named(nvml, "nvmlSystemGetDriverVersion"))),
        cuda_version=_cuda(asked(_named(nvml, "nvmlSystemGetCudaDriverVersion"))),
    )
    count = asked(_named(nvml, "nvmlDeviceGetCount"))
    if count is None:
        note = "NVML does not say how many GPUs there are, so nothing is said of them"
        return NvmlSnapshot(driver=driver, gpus=None, notes=(*asked.notes, note))
    gpus, links, handles = [], [], []
    for index in range(count):
        handle = asked(_named(nvml, "nvmlDeviceGetHandleByIndex"), index)
        handles.append(handle)
        ends = _links(nvml, asked, handle) if handle is not None else None
        links.append(ends or ())
        gpus.append(_gpu(nvml, asked, handle, index, ends) if handle is not None else Gpu(label=f"GPU{index}"))
    pairs = [(one, other) for one in range(count) for other in range(one + 1, count)]
    levels, access = {}, {}
    for one, other in pairs:
        if handles[one] is None or handles[other] is None:
            continue
        level = asked(_named(nvml, "nvmlDeviceGetTopologyCommonAncestor"), handles[one], handles[other])
        if level in _LEVELS:
            levels[one, other] = _LEVELS[level]
        access[one, other] = _access(nvml, asked, handles[one], handles[other])
    return NvmlSnapshot(
        driver=driver, gpus=tuple(gpus), links=tuple(links), levels=levels, access=access, notes=tuple(asked.notes)
    )


def _named(nvml: Nvml, name: str) -> Callable[..., Any]:
    """A function of the package; versions of it that lack one fail when it is called, like a driver that lacks it."""
    found = getattr(nvml, name, None)
    if found is not None:
        return cast(Callable[..., Any], found)

    def absent(*_arguments: object) -> None:
        raise AttributeError("this version of nvidia-ml-py lacks it")

    absent.__name__ = name
    return absent


def _gpu(nvml: Nvml, asked: _NvmlQueries, handle: object, index: int, ends: tuple[LinkEnd, ...] | None) -> Gpu:
    def ask(name: str, *more: object) -> Any:
        return asked(_named(nvml, name), handle, *more)

    memory = ask("nvmlDeviceGetMemoryInfo")
    near = ask("nvmlDeviceGetCpuAffinity", _CPU_WORDS)
    nodes = ask("nvmlDeviceGetMemoryAffinity", _NODE_WORDS, _SCOPE_NODE)
    mig = ask("nvmlDeviceGetMigMode")
    node = ask("nvmlDeviceGetNumaNodeId")
    generation, width = ask("nvmlDeviceGetMaxPcieLinkGeneration"), ask("nvmlDeviceGetMaxPcieLinkWidth")
    pcie = Pcie(
        generation=ask("nvmlDeviceGetCurrPcieLinkGeneration") or None,
        width=ask("nvmlDeviceGetCurrPcieLinkWidth") or None,
        max_generation=generation or None,
        max_width=width or None,
        max_gbps=pcie_gbps(generation, width),
    )
    return Gpu(
        label=f"GPU{index}",
        name=_text(ask("nvmlDeviceGetName")),
        bus_id=_bus_id(ask("nvmlDeviceGetPciInfo")),
        memory_bytes=None if memory is None else int(memory.total),
        pcie=None if pcie == Pcie() else pcie,
        nvlinks=_summary(ends),
        cpu_affinity=None if near is None else format_ranges(set_bits(near)) or None,
        numa_affinity=None if nodes is None else format_ranges(set_bits(nodes)) or None,
        gpu_numa_id=node if node is not None and node >= 0 else None,
        mig_mode=None if mig is None else "enabled" if mig[0] == 1 else "disabled",
    )


def _links(nvml: Nvml, asked: _NvmlQueries, handle: object) -> tuple[LinkEnd, ...] | None:
    """The active links, or None where the driver says nothing of any."""
    found, said = [], False
    for link in range(_MAX_LINKS):
        state = asked(_named(nvml, "nvmlDeviceGetNvLinkState"), handle, link)
        if state is None:
            break  # a GPU without NVLink, or one past its last link
        said = True
        if state != 1:
            continue
        version = asked(_named(nvml, "nvmlDeviceGetNvLinkVersion"), handle, link)
        kind = asked(_named(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType"), handle, link)
        remote = asked(_named(nvml, "nvmlDeviceGetNvLinkRemotePciInfo"), handle, link)
        found.append(
            LinkEnd(
                version=None if version is None else _VERSIONS.get(version),
                to="GPU" if kind == _REMOTE_GPU else "switch" if kind == _REMOTE_SWITCH else None,
                bus_id=_bus_id(remote),
                line_gbps=_line_gbps(
                    asked(_named(nvml, "nvmlDeviceGetFieldValues"), handle, [(_FIELD_LINK_SPEED, link)])
                ),
            )
        )
    return tuple(found) if said else None


def _line_gbps(values: Sequence[Any] | None) -> float | None:
    """The driver counts in 1e6 bytes per second."""
    if not values or values[0].nvmlReturn != 0:
        return None
    value, kind = values[0].value, values[0].valueType
    by_type = {_TYPE_UNSIGNED: "uiVal", _TYPE_UNSIGNED_LONG: "ulVal", _TYPE_UNSIGNED_LONG_LONG: "ullVal"}
    megabytes = getattr(value, by_type[kind]) if kind in by_type else 0
    return megabytes / 1000 if megabytes else None


def _summary(ends: tuple[LinkEnd, ...] | None) -> NvLinks | None:
    if ends is None:
        return None
    version = _same([end.version for end in ends])
    return NvLinks(
        active=len(ends),
        version=version,
        link_gbps=NVLINK_GBPS.get(version) if version else None,
        line_gbps=_same([end.line_gbps for end in ends]),
    )


def _same(values: Sequence[T | None]) -> T | None:
    """What all links say, or None where they differ or one of them says nothing."""
    return values[0] if values and all(value == values[0] for value in values) else None


def _access(nvml: Nvml, asked: _NvmlQueries, one: object, other: object) -> PeerAccess:
    def ask(index: int) -> Access | None:
        status = asked(_named(nvml, "nvmlDeviceGetP2PStatus"), one, other, index)
        return None if status is None else _ACCESS.get(status)

    return PeerAccess(read=ask(_READ), write=ask(_WRITE), atomics=ask(_ATOMICS), nvlink=ask(_NVLINK))


def _bus_id(info: Any) -> str | None:
    """Of an answer; the driver writes zeros or all ones for a device that it does not name."""
    text = _text(info.busId) if info is not None else None
    found = bus_id_of(text) if text else None
    return None if found in {None, "0000:00:00.0"} or (found or "").startswith("ffffffff:") else found


def _text(value: str | bytes | None) -> str | None:
    """Versions of the package differ in which kind of string they give."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return plain(text) or None if text else None


def _cuda(number: int | None) -> str | None:
    """13000 is 13.0 (cuda.h: 1000 times the major and 10 times the minor version)."""
    return f"{number // 1000}.{number % 1000 // 10}" if number else None
