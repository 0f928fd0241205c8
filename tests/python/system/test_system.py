"""Descriptions of systems, and what can be seen of a machine."""

import json
from importlib import resources
from pathlib import Path

import jsonschema
import msgspec
import pytest

from busbw.errors import UsageError
from busbw.schema import schema_text
from busbw.system import find, find_in_text, nics_from_text, systems
from busbw.system.detect import detect_machine, system_of_machine

# Links of one GPU times what a collective gets through one, by hand: 6 x 20, 12 x 20, 8 x 20.6, 18 x 20.6, 18 x 40.1.
RING_GBPS = {"v100-sxm2": 120, "a100-sxm": 240, "h800": 164.8, "h100-sxm": 370.8, "h200-sxm": 370.8, "b200": 721.8}


@pytest.mark.parametrize("name", systems())
def test_every_constant_has_its_source(name: str) -> None:
    system = systems()[name]
    assert system.title
    for fabric in system.fabrics:
        assert fabric.link_gbps.source
        assert fabric.spec_gbps.source
        peers = fabric.most_ranks - 1 if fabric.layout == "mesh" else 1
        assert 0 < fabric.links * peers * fabric.link_gbps.value < fabric.spec_gbps.value
    assert [fabric.most_ranks for fabric in system.fabrics] == sorted(fabric.most_ranks for fabric in system.fabrics)


@pytest.mark.parametrize(("name", "gbps"), RING_GBPS.items())
def test_links_carry_what_the_library_plans_with(name: str, gbps: float) -> None:
    fabric = find(name).fabrics[0]
    assert fabric.links * fabric.link_gbps.value == pytest.approx(gbps)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl-pair"),
        ("NVIDIA H200 NVL", "h200-nvl"),
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA H20", "h20"),
        ("Tesla V100-PCIE-16GB", "v100-pcie"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm"),
        ("NVIDIA A100 80GB PCIe", "a100-nvl-pair"),
        ("NVIDIA GB200", "gb200-nvl72"),
        ("NVIDIA B200", "b200"),
        ("AMD Instinct MI300X", "mi300x"),
        ("2 x p4de.24xlarge", "a100-p4d"),
        ("32x H800 NVLink + 4x 400Gbps IB + all2all", "h800"),
    ],
)
def test_a_device_name_identifies_the_system(words: str, name: str) -> None:
    found = find_in_text(words)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("words", ["", "NVIDIA H1000", "GeForce RTX 4090", "XH100X"])
def test_other_text_has_no_system(words: str) -> None:
    assert find_in_text(words) is None


@pytest.mark.parametrize(
    ("text", "count", "gbit"),
    [("8x400", 8, 400), ("4x 400Gbps IB", 4, 400), ("32 x 100 Gb/s EFA", 32, 100), ("NVLink + 8x200G", 8, 200)],
)
def test_nics_as_people_write_them(text: str, count: int, gbit: float) -> None:
    found = nics_from_text(text, "a test")
    assert found is not None
    assert (found.count, found.gbit, found.source) == (count, gbit, "a test")


@pytest.mark.parametrize("text", ["", "8 NICs", "8 x H100", "2x 8", "0x400"])
def test_other_text_has_no_nics(text: str) -> None:
    assert nics_from_text(text, "a test") is None


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(UsageError, match=r'there is no system "h1000"; .*use a \.toml file or one of a100-'):
        find("h1000")
    with pytest.raises(UsageError, match="cannot read"):
        find("/nowhere/x.toml")


def test_a_user_file_is_read_and_a_broken_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('title = "mine"\ngeneration = "hopper"\ndevices = []\nranks_per_node = 2\n')
    assert find(str(path)).name == "mine"
    path.write_text('title = "mine"\nranks_per_node = 2\n')
    with pytest.raises(UsageError, match="is not a valid system"):
        find(str(path))


def machine(root: Path, *, gpus: list[str], rdma: list[tuple[str, str]], ethernet: list[tuple[str, str]]) -> Path:
    """A tree of files as Linux shows a machine."""

    def write(name: str, text: str) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("proc/cpuinfo", "processor\t: 0\nmodel name\t: A Processor\n\nprocessor\t: 1\nmodel name\t: A Processor\n")
    write("proc/meminfo", "MemTotal:       1048576 kB\n")
    write("sys/devices/system/node/node0/cpulist", "0-1\n")
    for number, name in enumerate(gpus):
        write(f"proc/driver/nvidia/gpus/0000:0{number}:00.0/information", f"Model: \t\t {name}\nIRQ: 1\n")
    for name, rate in rdma:
        write(f"sys/class/infiniband/{name}/ports/1/rate", f"{rate} Gb/sec (4X NDR)\n")
        write(f"sys/class/infiniband/{name}/ports/1/state", "4: ACTIVE\n")
        write(f"sys/class/infiniband/{name}/ports/1/link_layer", "InfiniBand\n")
    for name, speed in ethernet:
        write(f"sys/class/net/{name}/speed", f"{speed}\n")
        write(f"sys/class/net/{name}/device/vendor", "0x1\n")
    write("sys/class/net/lo/speed", "\n")
    return root


def test_a_node_is_detected(tmp_path: Path) -> None:
    rdma = [(f"mlx5_{number}", "400") for number in range(8)] + [("mlx5_8", "100")]
    seen = detect_machine(machine(tmp_path, gpus=["NVIDIA H200"] * 8, rdma=rdma, ethernet=[("eno1", "1000")]))
    assert seen.gpus == ("NVIDIA H200",) * 8
    assert seen.memory_bytes == 1 << 30
    assert (seen.processor_model, seen.processor_count, seen.numa_nodes) == ("A Processor", 2, 1)
    system, how = system_of_machine(seen)
    assert system.name == "h200-sxm"
    assert system.nics is not None
    assert (system.nics.count, system.nics.gbit) == (8, 400)
    assert "8 x NVIDIA H200" in how


def test_a_port_that_does_not_say_its_rate_is_not_slow(tmp_path: Path) -> None:
    seen = detect_machine(machine(tmp_path, gpus=[], rdma=[], ethernet=[("eth0", "-1"), ("eth1", "25000")]))
    assert [(port.name, port.gbit) for port in seen.ports] == [("eth0", None), ("eth1", 25.0)]


def test_a_node_without_nics_has_none(tmp_path: Path) -> None:
    system, how = system_of_machine(
        detect_machine(machine(tmp_path, gpus=["NVIDIA B200"] * 8, rdma=[], ethernet=[("eth0", "-1")]))
    )
    assert system.name == "b200"
    assert system.nics is None
    assert "no NIC" in how


def test_without_a_driver_gpus_are_unknown(tmp_path: Path) -> None:
    seen = detect_machine(machine(tmp_path, gpus=[], rdma=[], ethernet=[]))
    assert seen.gpus is None
    assert system_of_machine(seen)[0].name == "host"


def test_a_gpu_that_is_not_described_is_named(tmp_path: Path) -> None:
    system, how = system_of_machine(detect_machine(machine(tmp_path, gpus=["NVIDIA Z9"], rdma=[], ethernet=[])))
    assert system.name == "host"
    assert "NVIDIA Z9" in how


def test_an_empty_tree_is_all_unknown(tmp_path: Path) -> None:
    seen = detect_machine(tmp_path)
    assert (seen.gpus, seen.processor_model, seen.processor_count, seen.memory_bytes, seen.ports) == (
        None,
        None,
        None,
        None,
        (),
    )


def test_this_machine_is_detected_without_failing() -> None:
    system, how = system_of_machine(detect_machine())
    assert system.title
    assert how


SCHEMA = Path(__file__).resolve().parents[3] / "schema" / "system.schema.json"


def test_the_published_schema_is_that_of_the_types() -> None:
    assert SCHEMA.read_text() == schema_text("system"), "python -m busbw.schema system > schema/system.schema.json"


@pytest.mark.parametrize("name", systems())
def test_every_file_is_valid_by_the_published_schema(name: str) -> None:
    told = msgspec.toml.decode((resources.files("busbw.system") / f"{name}.toml").read_bytes())
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
