"""The fact about GPUs, with a driver that works, one that fails in parts, and none."""

# ruff: noqa: N802, N815 (the names of the fake driver's functions are NVML's)

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from doctor_machines import load

from busbw.doctor.facts import facts_of_this_machine, gpus, nvml
from busbw.doctor.facts.gpus import Fabric, Gpu, Gpus, NvLinks, PeerFault, read_gpus
from busbw.doctor.model.check import Unreadable
from busbw.doctor.model.machine import Machine

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
    p2p: int = 0
    fields_read: int = 0
    NVMLError: type[Exception] = pynvml.NVMLError
    nvmlMemory_v2: int = pynvml.nvmlMemory_v2
    c_nvmlGpuFabricInfo_v2_t: Any = pynvml.c_nvmlGpuFabricInfo_v2_t
    c_nvmlNvlinkGetBwMode_v1_t: Any = pynvml.c_nvmlNvlinkGetBwMode_v1_t
    c_nvmlSystemConfComputeSettings_v1_t: Any = pynvml.c_nvmlSystemConfComputeSettings_v1_t

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

    def nvmlDeviceGetP2PStatus(self, *_arguments: int) -> int:
        return self.p2p

    def nvmlDeviceGetFieldValues(self, gpu: int, fields: list[tuple[int, int]]) -> list[Any]:
        self.fields_read += 1
        return [self.field_value(gpu, *each) for each in fields]

    def field_value(self, gpu: int, number: int, scope: int) -> Any:
        """The replay counter of link 7 of GPU 0 grows with each reading."""
        values = {230: 0, 164: 26562, 161: self.fields_read if (gpu, scope) == (0, 7) else 0, 162: 0, 163: 0}
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

    def nvmlSystemGetConfComputeSettings(self, pointer: Any) -> int:
        pointer._obj.multiGpuMode = 1
        return 0


ANSWERS: dict[str, Any] = {
    "nvmlSystemGetDriverVersion": "580.95.05",
    "nvmlSystemGetCudaDriverVersion": 13000,
    "nvmlSystemGetConfComputeState": SimpleNamespace(ccFeature=0),
    "nvmlDeviceGetCount": 2,
    "nvmlDeviceGetName": b"NVIDIA H100 80GB HBM3",
    "nvmlDeviceGetVbiosVersion": "96.00.74.00.01",
    "nvmlDeviceGetInforomImageVersion": "G520.0200.00.05",
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=85520809984, used=4194304),
    "nvmlDeviceGetBAR1MemoryInfo": SimpleNamespace(bar1Total=137438953472),
    "nvmlDeviceGetEccMode": [1, 1],
    "nvmlDeviceGetTotalEccErrors": 0,
    "nvmlDeviceGetRemappedRows": (0, 3, 1, 0),
    "nvmlDeviceGetClockInfo": 345,
    "nvmlDeviceGetMaxClockInfo": 1980,
    "nvmlDeviceGetApplicationsClock": 1980,
    "nvmlDeviceGetDefaultApplicationsClock": 1980,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 1,
    "nvmlDeviceGetEnforcedPowerLimit": 700000,
    "nvmlDeviceGetTemperature": 29,
    "nvmlDeviceGetMarginTemperature": 57,
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetComputeMode": 0,
    "nvmlDeviceGetPowerManagementDefaultLimit": 700000,
    "nvmlDeviceGetPerformanceState": 0,
    "nvmlDeviceGetCurrPcieLinkGeneration": 1,
    "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=0),
    "nvmlDeviceGetComputeRunningProcesses": [],
    "nvmlDeviceGetNvLinkRemoteDeviceType": 2,
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
        "nvmlSystemGetConfComputeSettings",
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
    fact = read(monkeypatch, FakeNvml(inactive=(4,), p2p=3))
    first, second = fact.gpus
    assert (fact.driver_version, fact.cuda_version) == ("580.95.05", 13000)
    assert (fact.conf_compute, fact.multi_gpu_mode) == (False, 1)
    assert (fact.peer_pairs, fact.peer_faults) == (1, (PeerFault(first=0, second=1, nvlink=3, read=3),))
    assert (first.bus_id, first.name, first.power_limit_w) == ("0000:1b:00.0", "NVIDIA H100 80GB HBM3", 700.0)
    assert (first.rows_uncorrected, first.remap_pending, first.remap_failure) == (3, True, False)
    assert second.nvlinks == NvLinks(
        count=18, inactive=(4,), to_switch=True, speeds_mbps=(26562,), recoveries=0, retries=0
    )
    assert first.nvlinks is not None
    assert (first.nvlinks.recoveries, (first.nvlinks.retries or 0) > 0) == (0, True)
    assert first.failures == fact.failures == {}
    assert all(getattr(first, name) is not None for name in Gpu.__struct_fields__)


def test_the_uuid_of_the_domain_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = read(monkeypatch, FakeNvml()).gpus[0].fabric
    assert fabric == Fabric(state=3, health_mask=0xAA, clique=7, domain="be45cb26")
    assert UUID.hex() not in repr(fabric)


@pytest.mark.parametrize("function", FAILING)
@pytest.mark.parametrize("code", [NOT_SUPPORTED, UNKNOWN])
def test_each_function_may_fail_by_itself(monkeypatch: pytest.MonkeyPatch, function: str, code: int) -> None:
    whole, fact = read(monkeypatch, FakeNvml()), read(monkeypatch, FakeNvml(broken={function: code}))
    for gpu, healthy in zip(fact.gpus, whole.gpus, strict=True):
        for name in Gpu.__struct_fields__:
            if name not in {"failures", "nvlinks"}:
                assert getattr(gpu, name) in (getattr(healthy, name), None)
        unknown = [name for name in gpus._GPU_VALUES if getattr(gpu, name) is None]
        assert list(gpu.failures) == ([] if code == NOT_SUPPORTED else unknown)
    if function.startswith("nvmlSystem") and code == UNKNOWN:
        assert fact.failures or function == "nvmlSystemGetConfComputeSettings"


def test_gpus_that_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = read(monkeypatch, FakeNvml(broken_gpus={1: LOST})).gpus[1]
    assert (lost.lost, lost.name, lost.failures) == (True, None, {})
    assert read(monkeypatch, FakeNvml(broken={"nvmlDeviceGetTemperature": LOST})).gpus[0].lost
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
        facts_of_this_machine()["facts/gpus.json"]()
    result = load("dgx-h100").without("facts/gpus").examine("gpu-temperature")
    assert [each.check for each in result.could_not_check] == ["gpu-temperature"]


def test_the_fact_is_read_again_from_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "library", FakeNvml)
    content = facts_of_this_machine()["facts/gpus.json"]()

    class Tree:
        def read(self, _key: str) -> bytes:
            return content

    fact = Machine(Tree()).fact(Gpus)  # type: ignore[arg-type]
    assert fact.gpus[0].fabric == Fabric(state=3, health_mask=0xAA, clique=7, domain="be45cb26")


def test_the_package_has_all_functions() -> None:
    functions = {*FAILING, "nvmlDeviceGetP2PStatus", "nvmlDeviceGetHandleByIndex", "nvmlMemory_v2"}
    assert [name for name in sorted(functions) if not hasattr(pynvml, name)] == []
    assert pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION == 230
    names = [
        "NVLINK_ERROR_DL_RECOVERY",
        "NVLINK_COUNT_LINK_RECOVERY_EVENTS",
        "NVLINK_ERROR_DL_REPLAY",
        "NVLINK_ERROR_DL_CRC",
    ]
    assert [getattr(pynvml, f"NVML_FI_DEV_{name}") for name in names] == [162, 215, 161, 163]
    assert pynvml.NVML_P2P_CAPS_INDEX_NVLINK == 2
    assert (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC) == (1, 0)
    assert (pynvml.NVML_CLOCK_GRAPHICS, pynvml.NVML_CLOCK_SM) == (0, 1)
