"""The fact about GPUs, with a driver that works, one that fails in parts, and none."""

# ruff: noqa: N802, N815 (the names of the fake driver's functions are NVML's)

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from doctor_machines import load

from busbw.doctor.facts import facts_of_this_machine, gpus, nvml
from busbw.doctor.facts.gpus import Fabric, Gpu, Gpus, NvLinks, read_gpus
from busbw.doctor.model import Machine, Unreadable
from busbw.doctor.sources.commands import Commands

NOT_SUPPORTED, NO_PERMISSION, INVALID_ARGUMENT, LOST, UNKNOWN = 3, 4, 2, 15, 999
UUID = bytes(range(16))


@dataclass
class FakeNvml:
    """Answers like nvidia-ml-py for two H100. A handle is the index of a GPU."""

    broken: dict[str, int] = field(default_factory=dict)
    """Error codes by the name of the function."""
    broken_gpus: dict[int, int] = field(default_factory=dict)
    """Error codes of nvmlDeviceGetHandleByIndex."""
    inactive: tuple[int, ...] = ()
    """Links of GPU 1."""
    fields_read: int = 0
    NVMLError: type[Exception] = pynvml.NVMLError
    nvmlMemory_v2: int = pynvml.nvmlMemory_v2
    c_nvmlGpuFabricInfo_v2_t: Any = pynvml.c_nvmlGpuFabricInfo_v2_t
    c_nvmlNvlinkGetBwMode_v1_t: Any = pynvml.c_nvmlNvlinkGetBwMode_v1_t

    def __getattribute__(self, name: str) -> Any:
        """Returns a function that fails if it is broken, and otherwise answers for both GPUs."""
        broken = object.__getattribute__(self, "broken")

        def fail(*_arguments: Any) -> Any:
            raise pynvml.NVMLError(broken[name])

        if name in broken:
            return fail
        return (lambda *_arguments: ANSWERS[name]) if name in ANSWERS else object.__getattribute__(self, name)

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index in self.broken_gpus:
            raise pynvml.NVMLError(self.broken_gpus[index])
        return index

    def nvmlDeviceGetPciInfo(self, gpu: int) -> Any:
        return SimpleNamespace(busId=f"00000000:{gpu + 1}B:00.0")

    def nvmlDeviceGetNvLinkState(self, gpu: int, link: int) -> int:
        if link >= 18:
            raise pynvml.NVMLError(INVALID_ARGUMENT)
        return 0 if gpu == 1 and link in self.inactive else 1

    def nvmlDeviceGetFieldValues(self, gpu: int, fields: list[tuple[int, int]]) -> list[Any]:
        self.fields_read += 1
        return [self.field_value(gpu, *each) for each in fields]

    def field_value(self, gpu: int, number: int, scope: int) -> Any:
        """The recovery counter of link 7 of GPU 0 grows with each reading."""
        values = {230: 0, 164: 26562, 162: self.fields_read if (gpu, scope) == (0, 7) else 0}
        is_known = number in values and scope < 18
        return SimpleNamespace(
            nvmlReturn=0 if is_known else NOT_SUPPORTED,
            valueType=1,
            value=SimpleNamespace(uiVal=values.get(number, 0)),
        )

    def nvmlDeviceGetGpuFabricInfoV(self, _gpu: int, pointer: Any) -> None:
        info = pointer._obj
        info.state, info.status, info.healthMask, info.cliqueId = 3, 0, 0xAA, 7
        info.clusterUuid[:] = UUID

    def nvmlDeviceGetNvlinkBwMode(self, _gpu: int, pointer: Any) -> None:
        pointer._obj.bIsBest = 1


ANSWERS: dict[str, Any] = {
    "nvmlSystemGetCudaDriverVersion": 13000,
    "nvmlDeviceGetCount": 2,
    "nvmlDeviceGetName": b"NVIDIA H100 80GB HBM3",
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=85520809984, used=4194304),
    "nvmlDeviceGetTotalEccErrors": 0,
    "nvmlDeviceGetRemappedRows": (0, 3, 1, 0),
    "nvmlDeviceGetClockInfo": 345,
    "nvmlDeviceGetMaxClockInfo": 1980,
    "nvmlDeviceGetApplicationsClock": 1980,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 1,
    "nvmlDeviceGetEnforcedPowerLimit": 700000,
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetComputeMode": 0,
    "nvmlDeviceGetComputeRunningProcesses": [],
}
"""Answers of the functions that are the same for each GPU."""

FAILING = sorted(
    {
        *ANSWERS,
        "nvmlDeviceGetPciInfo",
        "nvmlDeviceGetNvLinkState",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetNvlinkBwMode",
    }
    - {"nvmlDeviceGetCount"}
)
"""Functions that may fail without effect on others."""


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_GROWTH_PERIOD_S", 0.0)


def read(monkeypatch: pytest.MonkeyPatch, fake: FakeNvml | None) -> Gpus:
    monkeypatch.setattr(nvml, "library", lambda: fake)
    return read_gpus()


def test_a_driver_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    fact = read(monkeypatch, FakeNvml(inactive=(4,)))
    first, second = fact.gpus
    assert (first.bus_id, first.name, first.power_limit_w) == ("0000:1b:00.0", "NVIDIA H100 80GB HBM3", 700.0)
    assert (first.remap_pending, first.remap_failure) == (True, False)
    assert second.nvlinks == NvLinks(count=18, inactive=(4,), speeds_mbps=(26562,), recoveries=0)
    assert first.nvlinks is not None
    assert (first.nvlinks.recoveries or 0) > 0
    assert first.failures == {}
    assert all(getattr(first, name) is not None for name in Gpu.__struct_fields__)


def test_the_uuid_of_the_domain_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = read(monkeypatch, FakeNvml()).gpus[0].fabric
    assert fabric == Fabric(state=3, health_mask=0xAA, joins_nodes=True)


@pytest.mark.parametrize("function", FAILING)
@pytest.mark.parametrize("code", [NOT_SUPPORTED, UNKNOWN])
def test_each_function_may_fail_by_itself(monkeypatch: pytest.MonkeyPatch, function: str, code: int) -> None:
    whole, fact = read(monkeypatch, FakeNvml()), read(monkeypatch, FakeNvml(broken={function: code}))
    for gpu, healthy in zip(fact.gpus, whole.gpus, strict=True):
        for name in Gpu.__struct_fields__:
            if name not in {"failures", "nvlinks"}:
                assert getattr(gpu, name) in (getattr(healthy, name), None)
        unknown = [name for name in gpus._VALUES if getattr(gpu, name) is None]
        assert list(gpu.failures) == ([] if code == NOT_SUPPORTED else unknown)


def test_gpus_that_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = read(monkeypatch, FakeNvml(broken_gpus={1: LOST})).gpus[1]
    assert (lost.lost, lost.name, lost.failures) == (True, None, {})
    assert read(monkeypatch, FakeNvml(broken={"nvmlDeviceGetClockInfo": LOST})).gpus[0].lost
    unknown = read(monkeypatch, FakeNvml(broken_gpus={1: UNKNOWN})).gpus[1]
    assert (unknown.lost, unknown.failures["mig"]) == (False, "Unknown Error")
    hidden = read(monkeypatch, FakeNvml(broken_gpus={0: NO_PERMISSION}))
    assert ([gpu.index for gpu in hidden.gpus], hidden.hidden) == ([1], 1)


@pytest.mark.parametrize(
    ("fake", "missing"),
    [
        (None, "nvidia-ml-py"),
        (FakeNvml(broken={"nvmlInit": 12}), "NVIDIA's driver: NVML Shared Library Not Found"),
        (FakeNvml(broken={"nvmlInit": 9}), "NVIDIA's driver: Driver Not Loaded"),
        (FakeNvml(broken={"nvmlInit": 18}), "mismatch"),
    ],
)
def test_without_nvml_the_checks_cannot_decide(
    monkeypatch: pytest.MonkeyPatch, fake: FakeNvml | None, missing: str
) -> None:
    monkeypatch.setattr(nvml, "library", lambda: fake)
    with pytest.raises(Unreadable, match=missing):
        facts_of_this_machine(Commands().output)["facts/gpus.json"]()
    result = load("dgx-h100").without("facts/gpus").examine("gpu-throttle-now")
    assert [each.check for each in result.could_not_check] == ["gpu-throttle-now"]


def test_the_fact_is_read_again_from_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "library", FakeNvml)
    content = facts_of_this_machine(Commands().output)["facts/gpus.json"]()

    class Tree:
        def read(self, _key: str) -> bytes:
            return content

    fact = Machine(Tree()).fact(Gpus)  # type: ignore[arg-type]
    assert fact.gpus[0].fabric == Fabric(state=3, health_mask=0xAA, joins_nodes=True)


def test_the_package_has_all_functions() -> None:
    functions = {*FAILING, "nvmlDeviceGetHandleByIndex", "nvmlMemory_v2"}
    assert [name for name in sorted(functions) if not hasattr(pynvml, name)] == []
    assert pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION == 230
    assert pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY == 162
    assert pynvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS == 215
    assert (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC) == (1, 0)
    assert (pynvml.NVML_CLOCK_GRAPHICS, pynvml.NVML_CLOCK_SM) == (0, 1)
