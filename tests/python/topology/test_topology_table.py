"""Tests of the terminal output: golden texts of whole machines. BUSBW_UPDATE_GOLDEN=1 rewrites them."""

import os
from pathlib import Path

import pytest
import topology_machines as machines
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from saved_matrices import H200_X4, V100_X2_WITHOUT_TABS, WITH_NICS
from test_topology_matrix_text import connections
from topology_machines import discover

from busbw.topology import Topology
from busbw.topology.sources.matrix_text import read
from busbw.topology.types import NvLinks, Pcie
from busbw.topology.views.device_text import nvlink_text, pcie_text
from busbw.topology.views.table import lines

GOLDEN = ROOT / "tests" / "golden" / "topology"
TEXTS = {"h200_x4_saved": H200_X4, "v100_x2_saved": V100_X2_WITHOUT_TABS, "with_nics_saved": WITH_NICS}


def made(name: str, root: Path) -> Topology:
    if name in TEXTS:
        return read(TEXTS[name], "topo.txt")[0]
    return discover(machines.MACHINES[name](root), root)


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("name", [*machines.MACHINES, *TEXTS])
def test_golden_texts(tmp_path: Path, name: str, width: int) -> None:
    text = "".join(f"{line.plain}\n" for line in lines(made(name, tmp_path), width))
    path = GOLDEN / f"{name}_{width}.txt"
    if os.environ.get("BUSBW_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("name", [name for name in machines.MACHINES if name != "no_gpu"])
def test_the_matrix_that_is_shown_can_be_read_again(tmp_path: Path, name: str) -> None:
    """Ours is nvidia-smi's layout, so the reader of the one reads the other."""
    topology = made(name, tmp_path)
    shown = "\n".join(line.plain for line in lines(topology, 200))
    (again,) = read(shown, "shown")
    assert connections(again) == connections(topology)


def test_columns_without_room_are_named(tmp_path: Path) -> None:
    topology = made("hgx_h100", tmp_path)
    wide, narrow = ("\n".join(line.plain for line in lines(topology, width)) for width in (200, 80))
    assert "no room" not in wide
    assert "no room for: bus id, memory, PCIe, CPUs, MIG (" in narrow


def test_an_unknown_connection_is_a_question_mark(tmp_path: Path) -> None:
    topology = made("a100_pcie", tmp_path)
    paths = tuple(replace(path, connection=None) if path.to == "GPU3" else path for path in topology.paths)
    text = "\n".join(line.plain for line in lines(replace(topology, paths=paths), 140))
    assert "GPU3  ?     ?     ?     X     SYS" in text
    assert "\n  NV#  = Connection traversing a bonded set of # NVLinks\n  ?    = unknown\n" in text


def test_the_legend_is_that_of_nvidia_smi_whatever_words_occur(tmp_path: Path) -> None:
    legend = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks

"""
    for name in ("hgx_h100", "v100_x2_saved"):
        assert legend in "\n".join(line.plain for line in lines(made(name, tmp_path / name), 140))


@given(st.integers(60, 200))
def test_no_width_is_exceeded(width: int) -> None:
    for text in TEXTS.values():
        for topology in read(text, "topo.txt"):
            assert all(len(line.plain) <= width for line in lines(topology, width))


@pytest.mark.parametrize(
    ("links", "text"),
    [
        (None, ""),
        (NvLinks(active=0), "none up"),
        (NvLinks(active=12), "12 links"),
        (NvLinks(active=18, version="4.0", link_gbps=25.0, line_gbps=26.562), "18 x 25 GB/s = 450 GB/s (4.0)"),
        (NvLinks(active=18, line_gbps=26.562), "18 x 26.562 GB/s line rate"),
        (NvLinks(active=18, version="6.0", line_gbps=106.25), "18 x 106.25 GB/s line rate (6.0)"),
    ],
)
def test_links_in_words(links: NvLinks | None, text: str) -> None:
    assert nvlink_text(links) == text


@pytest.mark.parametrize(
    ("pcie", "sleeps", "text"),
    [
        (None, True, ""),
        (Pcie(max_generation=5, max_width=16, max_gbps=63.02, generation=5, width=16), True, "gen 5 x16, 63 GB/s"),
        # An idle GPU lowers its generation, and that is no fault; a NIC that does has a bad slot.
        (Pcie(max_generation=5, max_width=16, max_gbps=63.02, generation=1, width=16), True, "gen 5 x16, 63 GB/s"),
        (
            Pcie(max_generation=5, max_width=16, max_gbps=63.02, generation=3, width=16),
            False,
            "gen 5 x16, 63 GB/s; now gen 3 x16",
        ),
        (
            Pcie(max_generation=5, max_width=16, max_gbps=63.02, generation=1, width=8),
            True,
            "gen 5 x16, 63 GB/s; now x8",
        ),
        (Pcie(generation=4, width=16), False, "now gen 4 x16"),
        (Pcie(max_width=16), True, "x16"),
    ],
)
def test_pcie_in_words(pcie: Pcie | None, sleeps: bool, text: str) -> None:
    assert pcie_text(pcie, idles_slower=sleeps) == text
