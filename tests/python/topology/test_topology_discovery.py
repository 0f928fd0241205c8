"""Driver and kernel put together: whole machines."""

from pathlib import Path

import jsonschema
import msgspec
import pytest
import topology_machines as machines
from conftest import ROOT
from topology_machines import discover

from busbw.schema import schema_text
from busbw.topology import Topology
from busbw.topology.views.nearest import labels_text, nearest, pcie_nics


def test_each_gpu_of_an_hgx_has_its_own_nic(tmp_path: Path) -> None:
    topology = discover(machines.hgx_h100(tmp_path), tmp_path)
    assert [nic.name for nic in topology.nics or ()] == [*(f"mlx5_{number}" for number in range(8)), "ens0", "ens1"]
    for number in range(8):
        assert nearest(topology, f"GPU{number}", pcie_nics(topology)) == ("PIX", (f"NIC{number}",))
        assert nearest(topology, f"NIC{number}", ["GPU0", "GPU4", f"GPU{number}"]) == ("PIX", (f"GPU{number}",))
    assert {topology.connection("GPU0", f"GPU{number}") for number in range(1, 8)} == {"NV18"}
    assert [topology.path("GPU0", f"GPU{n}").pcie for n in (3, 4)] == ["NODE", "SYS"]  # type: ignore[union-attr]
    assert topology.connection("NIC8", "NIC9") == "PIX"
    assert topology.connection("NIC0", "NIC7") == "SYS"
    assert (topology.gpus or ())[0].nvlinks is not None
    assert (topology.gpus or ())[0].nvlinks.to_switch == 18


def test_bridges_of_a100s_join_pairs(tmp_path: Path) -> None:
    topology = discover(machines.a100_pcie(tmp_path), tmp_path)
    joined = {(path.of, path.to): path.connection for path in topology.paths if path.to.startswith("GPU")}
    assert joined == {
        ("GPU0", "GPU1"): "NV12",
        ("GPU0", "GPU2"): "SYS",
        ("GPU0", "GPU3"): "SYS",
        ("GPU1", "GPU2"): "SYS",
        ("GPU1", "GPU3"): "SYS",
        ("GPU2", "GPU3"): "NV12",
    }
    assert (topology.gpus or ())[3].nvlinks.to_gpus == {"GPU2": 12}  # type: ignore[union-attr]
    far = topology.path("GPU1", "GPU2")
    assert far is not None
    assert far.peer_access is not None
    assert (far.peer_access.read, far.peer_access.nvlink) == ("chipset not supported", "topology not supported")


def test_a_machine_without_bridges(tmp_path: Path) -> None:
    topology = discover(machines.one_gpu(tmp_path), tmp_path)
    assert topology.connection("GPU0", "NIC0") == "PHB"
    (nic,) = topology.nics or ()
    assert (nic.name, nic.ports[0].rate_gbit, nic.pcie) == ("ens5", None, None)


def test_without_a_driver_the_host_is_shown_with_a_note(tmp_path: Path) -> None:
    topology = discover(machines.no_gpu(tmp_path), tmp_path)
    assert topology.gpus is None
    assert [nic.name for nic in topology.nics or ()] == ["mlx5_0"]
    assert topology.host is not None
    assert topology.host.sockets == 2
    assert topology.notes == ("no NVIDIA driver found (libnvidia-ml.so.1 cannot be loaded), so GPUs are unknown",)


def test_without_a_driver_the_bus_still_shows_gpus(tmp_path: Path) -> None:
    fake = machines.a100_pcie(tmp_path)
    topology = discover(None, tmp_path)
    assert [(gpu.label, gpu.bus_id, gpu.name) for gpu in topology.gpus or ()] == [
        (f"GPU{number}", one.bus_id, None) for number, one in enumerate(fake.gpus)
    ]
    assert topology.connection("GPU0", "GPU1") == "PIX"
    assert topology.connection("GPU0", "NIC0") == "PIX"
    assert (topology.gpus or ())[0].nvlinks is None
    assert any("4 NVIDIA GPUs on the bus" in note for note in topology.notes)


def test_gpus_hidden_from_a_container_are_noted(tmp_path: Path) -> None:
    fake = machines.hgx_h100(tmp_path)
    fake.gpus = fake.gpus[:2]
    topology = discover(fake, tmp_path)
    assert len(topology.gpus or ()) == 2
    assert topology.notes == ("the bus has 6 NVIDIA GPUs more, which the driver does not show to this process",)


def test_a_nic_that_is_on_no_bus_does_not_hide_the_nearest(tmp_path: Path) -> None:
    fake = machines.hgx_h100(tmp_path)
    topology = discover(fake, tmp_path, virtual_too=True)
    assert [nic.name for nic in topology.nics or () if nic.kind == "virtual"] == ["docker0"]
    assert topology.connection("GPU0", "NIC8") is None
    assert nearest(topology, "GPU0", pcie_nics(topology)) == ("PIX", ("NIC0",))
    assert nearest(topology, "GPU0", ["NIC0", "NIC8"]) is None


def test_an_empty_machine(tmp_path: Path) -> None:
    topology = discover(machines.FakeNvml([]), tmp_path)
    assert (topology.gpus, topology.nics, topology.paths, topology.notes) == ((), (), (), ())


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (["GPU0"], "GPU0"),
        (["GPU0", "GPU1", "GPU2", "GPU5"], "GPU0-2,5"),
        (["mlx5_0", "NIC1"], "mlx5_0, NIC1"),
        (["GPU1", "NIC1"], "GPU1, NIC1"),
    ],
)
def test_labels_in_short(labels: list[str], text: str) -> None:
    assert labels_text(labels) == text


def test_the_schema_is_the_one_that_is_kept() -> None:
    assert (ROOT / "schema" / "topology.schema.json").read_text() == schema_text("topology")


@pytest.mark.parametrize("name", machines.MACHINES)
def test_every_machine_keeps_the_schema(tmp_path: Path, name: str) -> None:
    topology = discover(machines.MACHINES[name](tmp_path), tmp_path, virtual_too=True)
    written = msgspec.json.encode(topology)
    jsonschema.validate(msgspec.json.decode(written), msgspec.json.decode(schema_text("topology").encode()))
    assert msgspec.json.decode(written, type=Topology) == topology
