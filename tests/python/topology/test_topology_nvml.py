"""Tests of NVML queries with a working driver, a partly failing one, and none."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pynvml
import pytest
import topology_machines as machines
from hypothesis import given
from hypothesis import strategies as st
from topology_machines import TO_GPU, TO_SWITCH, FakeGpu, FakeNvml, Link, connection_of, discover

from busbw.topology import Topology
from busbw.topology.sources import nvml
from busbw.topology.sources.gpu_paths import LinkEnd, nvlinks_between
from busbw.topology.types import Access, Gpu

FUNCTIONS = sorted(name for name in vars(FakeNvml) if name.startswith("nvml"))


@pytest.fixture(scope="module")
def hgx(tmp_path_factory: pytest.TempPathFactory) -> tuple[FakeNvml, Path, Topology]:
    """A machine that no test changes, and what a whole driver says of it."""
    root = tmp_path_factory.mktemp("hgx")
    fake = machines.hgx_h100(root)
    return fake, root, discover(fake, root)


def test_the_package_has_every_function_that_is_asked() -> None:
    package = nvml.library()
    assert package is not None
    assert [name for name in FUNCTIONS if not callable(getattr(package, name, None))] == []
    assert issubclass(package.NVMLError, Exception)


def test_every_function_is_asked(tmp_path: Path) -> None:
    fake = machines.hgx_h100(tmp_path)
    discover(fake, tmp_path)
    assert sorted(set(fake.asked)) == FUNCTIONS


def test_a_gpu(tmp_path: Path) -> None:
    seen = nvml.snapshot(machines.hgx_h100(tmp_path))
    assert seen.driver is not None
    assert (seen.driver.version, seen.driver.cuda_version) == ("580.95.05", "13.0")
    assert seen.gpus is not None
    last = seen.gpus[7]
    assert (last.label, last.name, last.bus_id) == ("GPU7", "NVIDIA H100 80GB HBM3", "0000:83:00.0")
    assert (last.memory_bytes, last.cpu_affinity, last.numa_affinity) == (80 * 2**30, "4-7", "1")
    assert last.gpu_numa_id is None  # not supported there
    assert last.mig_mode == "disabled"
    assert last.nvlinks is not None
    assert (last.nvlinks.active, last.nvlinks.version, last.nvlinks.link_gbps) == (18, "4.0", 25.0)
    assert last.nvlinks.line_gbps == 26.562
    assert last.pcie is not None
    assert (last.pcie.generation, last.pcie.max_generation, last.pcie.max_gbps) == (1, 5, 63.02)
    assert seen.notes == ()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (pynvml.NVMLError(machines.LIBRARY_NOT_FOUND), "no NVIDIA driver found"),
        (pynvml.NVMLError(9), "not loaded"),
        (pynvml.NVMLError(18), "mismatch"),
        (OSError("cannot open shared object"), "cannot open shared object"),
    ],
)
def test_a_driver_that_does_not_start_is_one_note(error: Exception, words: str) -> None:
    seen = nvml.snapshot(FakeNvml([], broken={"nvmlInit": error}))
    assert seen.gpus is None
    (note,) = seen.notes
    assert words in note
    assert "GPUs are unknown" in note


def test_without_the_package_the_note_says_what_to_install() -> None:
    assert nvml.snapshot(None).gpus is None
    assert "pip install nvidia-ml-py" in nvml.snapshot(None).notes[0]


def test_a_driver_without_gpus_differs_from_no_driver() -> None:
    assert nvml.snapshot(FakeNvml([])).gpus == ()


# Value that is lost if one function fails. All other values must not change.
LOST = {
    "nvmlDeviceGetName": lambda t: t.gpus[0].name,
    "nvmlDeviceGetMemoryInfo": lambda t: t.gpus[0].memory_bytes,
    "nvmlDeviceGetCpuAffinity": lambda t: t.gpus[0].cpu_affinity,
    "nvmlDeviceGetMemoryAffinity": lambda t: t.gpus[0].numa_affinity,
    "nvmlDeviceGetMigMode": lambda t: t.gpus[0].mig_mode,
    "nvmlDeviceGetNvLinkState": lambda t: t.gpus[0].nvlinks,
    "nvmlDeviceGetNvLinkVersion": lambda t: t.gpus[0].nvlinks.link_gbps,
    "nvmlDeviceGetFieldValues": lambda t: t.gpus[0].nvlinks.line_gbps,
    "nvmlDeviceGetNvLinkRemoteDeviceType": lambda t: t.gpus[0].nvlinks.to_switch,
    "nvmlDeviceGetP2PStatus": lambda t: t.paths[0].peer_access.read,
    "nvmlSystemGetDriverVersion": lambda t: t.driver.version,
    "nvmlSystemGetCudaDriverVersion": lambda t: t.driver.cuda_version,
    "nvmlDeviceGetMaxPcieLinkGeneration": lambda t: t.gpus[0].pcie.max_gbps,
    "nvmlDeviceGetMaxPcieLinkWidth": lambda t: t.gpus[0].pcie.max_width,
    "nvmlDeviceGetCurrPcieLinkGeneration": lambda t: t.gpus[0].pcie.generation,
    "nvmlDeviceGetCurrPcieLinkWidth": lambda t: t.gpus[0].pcie.width,
    "nvmlDeviceGetCount": lambda t: t.driver and t.gpus[0].name,
}


@pytest.mark.parametrize("code", [machines.NOT_SUPPORTED, machines.LIBRARY_NOT_FOUND])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_function_may_fail_by_itself(hgx: tuple[FakeNvml, Path, Topology], function: str, code: int) -> None:
    fake, root, whole = hgx
    topology = discover(replace(fake, broken={function: pynvml.NVMLError(code)}), root)
    assert len(topology.gpus or ()) == 8  # without the driver's word, the bus shows them
    assert_nothing_made_up(topology, whole)
    if function in LOST:
        assert LOST[function](whole) is not None
        assert LOST[function](topology) is None
    # One that does not start says so in its own words, and at the end there is nothing left to lose.
    if code != machines.NOT_SUPPORTED and function not in {"nvmlInit", "nvmlShutdown"}:
        assert any(note.startswith(function) for note in topology.notes)


def assert_nothing_made_up(topology: Topology, whole: Topology) -> None:
    """Whatever is said is what the whole driver says, or what PCIe says where the driver's links are not known."""
    for path, true in zip(topology.paths, whole.paths, strict=True):
        assert path.connection in {true.connection, true.pcie, None}
        assert path.pcie in {true.pcie, None}
    for gpu, real in zip(topology.gpus or (), whole.gpus or (), strict=True):
        for name in ("name", "bus_id", "memory_bytes", "cpu_affinity", "numa_affinity", "mig_mode"):
            assert getattr(gpu, name) in {getattr(real, name), None}
        assert gpu.nvlinks is None or gpu.nvlinks.active == 18


def test_a_lost_gpu_does_not_hide_the_others(tmp_path: Path) -> None:
    fake = machines.hgx_h100(tmp_path)

    class LosesOne(FakeNvml):
        def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
            if index == 3:
                raise pynvml.NVMLError(machines.LOST)
            return index

    topology = discover(LosesOne(fake.gpus, level=fake.level), tmp_path)
    assert [gpu.name is None for gpu in topology.gpus or ()] == [False] * 3 + [True] + [False] * 4
    assert connection_of(topology, "GPU3", "GPU4") is None
    assert connection_of(topology, "GPU2", "GPU4") == "NV18"
    assert topology.notes == ("nvmlDeviceGetHandleByIndex failed: GPU is lost",)


def test_a_function_that_the_package_lacks_is_like_one_that_the_driver_lacks(tmp_path: Path) -> None:
    class Old(FakeNvml):
        nvmlDeviceGetMigMode = None  # type: ignore[assignment]  # noqa: N815

    seen = nvml.snapshot(Old(machines.one_gpu(tmp_path).gpus))
    assert seen.gpus is not None
    assert seen.gpus[0].mig_mode is None
    assert seen.gpus[0].name == "NVIDIA L4"


def test_mig_is_named(tmp_path: Path) -> None:
    fake = machines.hgx_h100(tmp_path)
    fake.gpus[2].mig = 1
    assert [gpu.mig_mode for gpu in discover(fake, tmp_path).gpus or ()][1:4] == ["disabled", "enabled", "disabled"]


def test_links_that_are_down_do_not_count(tmp_path: Path) -> None:
    fake = machines.hgx_h100(tmp_path)
    for number in (0, 5):
        fake.gpus[1].links[number].active = False
    topology = discover(fake, tmp_path)
    assert connection_of(topology, "GPU0", "GPU1") == "NV16"
    assert connection_of(topology, "GPU0", "GPU2") == "NV18"
    for one in fake.gpus:
        for link in one.links:
            link.active = False
    dark = discover(fake, tmp_path)
    assert (dark.gpus or ())[0].nvlinks is not None
    assert (dark.gpus or ())[0].nvlinks.active == 0
    assert connection_of(dark, "GPU0", "GPU1") == "NODE"


def test_switches_that_a_virtual_machine_hides(tmp_path: Path) -> None:
    fake = machines.hgx_h100(tmp_path)
    for one in fake.gpus:
        for link in one.links:
            link.remote = ""
    assert connection_of(discover(fake, tmp_path), "GPU0", "GPU7") == "NV18"  # the driver grants access over NVLink
    fake.access = lambda _one, _other, index: 5 if index == 2 else 0
    assert connection_of(discover(fake, tmp_path), "GPU0", "GPU7") == "SYS"
    fake.broken = {"nvmlDeviceGetP2PStatus": pynvml.NVMLError(machines.NOT_SUPPORTED)}
    unknown = discover(fake, tmp_path)
    assert connection_of(unknown, "GPU0", "GPU7") is None
    assert any("28 pairs" in note for note in unknown.notes)


def ends(*names: str) -> list[LinkEnd]:
    """s1: switch 1; g1: GPU 1; ?1: something that the driver does not describe; s and ?: without a bus id."""
    kinds = {"s": "switch", "g": "GPU", "?": None}
    return [
        LinkEnd(to=kinds[name[0]], bus_id=(f"000{'ab'[name[0] == 's']}:0{name[1]}:00.0" if name[1:] else None))
        for name in names
    ]


GPUS = [Gpu(label=f"GPU{number}", bus_id=f"000a:0{number}:00.0") for number in range(4)]


@pytest.mark.parametrize(
    ("one", "other", "access", "expected"),
    [
        ([], [], "ok", 0),
        (["g1", "g1"], ["g0", "g0"], "ok", 2),
        (["g1"], [], None, 1),  # one end says it: a wire has two
        (["?1", "?1"], [], None, 2),  # what kind of thing it is is not said, but its bus id is GPU1's
        (["g2", "g2"], ["g2", "g2"], "ok", 0),  # both lead to a third one
        (["?2"], ["?2"], "ok", 0),
        (["s1", "s2"], ["s1", "s2"], None, 2),
        (["s1", "s2"], ["s2"], None, 1),
        (["s1"], ["s2"], None, 0),
        (["s", "s"], ["s"], "ok", 1),
        (["s", "s"], ["s"], "not supported", 0),
        (["s", "s"], ["s"], None, None),
        (["?"], ["?"], None, None),
        (["?7"], ["?7"], None, None),  # a switch, or a GPU that is not ours
        (["?7"], ["?7"], "ok", 1),
        (["s1"], [], "ok", 0),
    ],
)
def test_links_between_two_gpus(one: list[str], other: list[str], access: Access | None, expected: int | None) -> None:
    assert nvlinks_between(GPUS[0], ends(*one), GPUS[1], ends(*other), access, GPUS) == expected
    # Seen from the other side, with the two names changed, it is the same.
    turned = [
        [name.translate(str.maketrans("01", "10")) if name[0] != "s" else name for name in side]
        for side in (other, one)
    ]
    assert nvlinks_between(GPUS[0], ends(*turned[0]), GPUS[1], ends(*turned[1]), access, GPUS) == expected


NAMES = st.lists(st.sampled_from(["s1", "s2", "s", "?", "?7", "g2", "g3"]), max_size=6)


@given(NAMES, NAMES, st.sampled_from(["ok", "not supported", None]))
def test_links_are_never_more_than_either_end_has(one: list[str], other: list[str], access: Access | None) -> None:
    found = nvlinks_between(GPUS[0], ends(*one), GPUS[1], ends(*other), access, GPUS)
    to_others = [name for name in one if not name.startswith("g")], [name for name in other if not name.startswith("g")]
    assert found is None or found <= min(map(len, to_others))
    for again in permutations(one[:4]):
        assert nvlinks_between(GPUS[0], ends(*again, *one[4:]), GPUS[1], ends(*other), access, GPUS) == found


def test_constants_are_those_of_the_package() -> None:
    assert (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT) == (3, 2)
    assert pynvml.NVML_FI_DEV_NVLINK_GET_SPEED == 164
    assert (pynvml.NVML_NVLINK_DEVICE_TYPE_GPU, pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH) == (TO_GPU, TO_SWITCH)
    levels = ["INTERNAL", "SINGLE", "MULTIPLE", "HOSTBRIDGE", "NODE", "SYSTEM"]
    assert [getattr(pynvml, f"NVML_TOPOLOGY_{name}") for name in levels] == [0, 10, 20, 30, 40, 50]


def test_too_many_links_end() -> None:
    many = [Link("00000000:07:00.0") for _ in range(100)]
    seen = nvml.snapshot(FakeNvml([FakeGpu("0000:01:00.0", links=many)]))
    assert seen.gpus is not None
    assert seen.gpus[0].nvlinks is not None
    assert seen.gpus[0].nvlinks.active == 36
