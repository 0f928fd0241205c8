"""The SVG file: well-formed, nothing outside of it, everything in it, and no name that could do something."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import topology_machines as machines
from msgspec.structs import replace
from saved_matrices import H200_X4, WITH_NICS
from topology_machines import discover

from busbw.topology import Topology
from busbw.topology.sources.matrix_text import read
from busbw.topology.views.arrangement import arrange
from busbw.topology.views.picture import document

SVG = "{http://www.w3.org/2000/svg}"


def drawn(topology: Topology) -> tuple[ET.Element, float, float]:
    root = ET.fromstring(document(topology))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    return root, width, height


def texts(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("name", machines.MACHINES)
def test_every_device_is_drawn_once_and_inside(tmp_path: Path, name: str) -> None:
    topology = discover(machines.MACHINES[name](tmp_path), tmp_path)
    root, width, height = drawn(topology)
    labels = [text for text in texts(root) if text.startswith(("GPU", "NIC")) and ":" not in text]
    assert sorted(labels) == sorted(topology.labels)
    for box in root.iter(f"{SVG}rect"):
        x, y, wide, high = (float(box.attrib[key]) for key in ("x", "y", "width", "height"))
        assert 0 <= x <= x + wide <= width + 0.1
        assert 0 <= y <= y + high <= height + 0.1
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.attrib["x"]) <= width
        assert 0 < float(text.attrib["y"]) <= height


@pytest.mark.parametrize("name", machines.MACHINES)
def test_devices_do_not_cover_each_other(tmp_path: Path, name: str) -> None:
    root, _, _ = drawn(discover(machines.MACHINES[name](tmp_path), tmp_path))
    boxes = [
        tuple(float(box.attrib[key]) for key in ("x", "y", "width", "height"))
        for box in root.iter(f"{SVG}rect")
        if box.attrib["class"].split()[0] in {"device", "nic"}
    ]
    for number, (x, y, wide, high) in enumerate(boxes):
        for left, top, across, down in boxes[number + 1 :]:
            assert x + wide <= left or left + across <= x or y + high <= top or top + down <= y


def test_an_hgx_has_one_bar_and_a_mesh_has_arcs(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    root, _, _ = drawn(discover(machines.hgx_h100(tmp_path / "a"), tmp_path / "a"))
    assert "NVLink: NV18 between every pair" in texts(root)
    root, _, _ = drawn(discover(machines.volta_mesh(tmp_path / "b"), tmp_path / "b"))
    arcs = [path for path in root.iter(f"{SVG}path") if path.attrib["class"] == "arc"]
    assert len(arcs) == 16
    assert {path.attrib["stroke-width"] for path in arcs} == {"2.2", "3.5"}
    assert any("a thicker arc has more NVLinks: NV1, NV2" in text for text in texts(root))


def test_devices_of_a_switch_are_adjacent(tmp_path: Path) -> None:
    nodes = arrange(discover(machines.hgx_h100(tmp_path), tmp_path))
    assert [node.index for node in nodes] == [0, 1]
    together = [(island.gpus[0].label, island.nics[0].name) for node in nodes for island in node.islands]
    assert together == [(f"GPU{number}", f"mlx5_{number}") for number in range(8)]
    assert [nic.name for nic in nodes[0].other_nics] == ["ens0", "ens1"]
    assert nodes[1].other_nics == ()


def test_a_saved_matrix_is_drawn_too() -> None:
    root, _, _ = drawn(read(H200_X4, "env.txt")[0])
    assert "NV18, every pair" in texts(root)
    assert "NVLink of GPU0, each way: 18 x 26.562 GB/s line rate" in texts(root)
    assert "PCIe of each GPU, each way: gen 5 x16, 63 GB/s" in texts(root)
    assert "NICs: unknown" in texts(root)
    nodes = arrange(read(WITH_NICS, "topo.txt")[0])
    assert [(node.index, len(node.islands)) for node in nodes] == [(1, 1), (None, 1)]  # of GPU0 two nodes are said


def test_the_picture_says_in_words_what_it_shows(tmp_path: Path) -> None:
    root, _, _ = drawn(discover(machines.hgx_h100(tmp_path), tmp_path))
    words = root.attrib["aria-label"]
    assert root.find(f"{SVG}title") is not None
    for part in ("2 NUMA nodes", "8 x NVIDIA H100 80GB HBM3", "8 x InfiniBand 400 Gb/s", "NV18 (28)"):
        assert part in words


def test_names_are_escaped(tmp_path: Path) -> None:
    topology = discover(machines.one_gpu(tmp_path), tmp_path)
    evil = '"><script>alert(1)</script>\x1b]0;x\x07'
    topology = replace(
        topology,
        source=evil,
        notes=(evil,),
        gpus=tuple(replace(gpu, name=evil) for gpu in topology.gpus or ()),
        nics=tuple(replace(nic, name=evil, kind=None) for nic in topology.nics or ()),
    )
    text = document(topology)
    root = ET.fromstring(text)
    assert {element.tag for element in root.iter()} <= {
        f"{SVG}{tag}" for tag in ("svg", "g", "rect", "text", "title", "path", "style")
    }
    assert "\x1b" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_an_unknown_topology_has_a_picture(tmp_path: Path) -> None:
    root, _, _ = drawn(discover(None, tmp_path))
    assert "GPUs: unknown" in texts(root)
