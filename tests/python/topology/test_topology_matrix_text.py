"""Saved matrices: whole ones, those that lost their layout, and text that is none."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from saved_matrices import H200_X4, V100_X2_WITHOUT_TABS, WITH_NICS

from busbw.errors import UsageError
from busbw.topology import Topology
from busbw.topology.sources.matrix_text import read
from busbw.topology.types import Gpu

# Made here from what is known of these machines: the connections, affinities and rates, and not the tool's words.

NOT_KNOWN = (
    "not known from the matrix: names, bus ids, memory, PCIe links and MIG of GPUs, {nics}, the driver, the host"
)


def connections(topology: Topology) -> dict[tuple[str, str], str | None]:
    return {(path.of, path.to): path.connection for path in topology.paths}


def test_a_matrix_with_its_tabs() -> None:
    (topology,) = read(H200_X4, "env.txt")
    assert len(topology.paths) == 6
    assert set(connections(topology).values()) == {"NV18"}
    assert {path.pcie for path in topology.paths} == {None}  # NVLink hides what PCIe there is
    gpus = topology.gpus or ()
    # Names and links of GPUs elsewhere in the text may be those of another machine.
    assert gpus == tuple(Gpu(label=f"GPU{number}", cpu_affinity="0-63", numa_affinity="0") for number in range(4))
    assert topology.nics is None
    assert topology.notes == (NOT_KNOWN.format(nics="NICs"),)


def test_a_matrix_inside_a_document_that_lost_its_tabs() -> None:
    (topology,) = read(V100_X2_WITHOUT_TABS, "page.txt")
    assert connections(topology) == {("GPU0", "GPU1"): "NODE"}
    assert [gpu.cpu_affinity for gpu in topology.gpus or ()] == ["0-11", "0-11"]
    assert topology.notes == (NOT_KNOWN.format(nics="NICs"),)


def test_a_matrix_without_its_layout_is_read() -> None:
    text = " \n".join(" ".join(line.split()) for line in WITH_NICS.splitlines())
    assert read(text, "x") == read(WITH_NICS, "x")


def test_nics_and_their_names() -> None:
    (topology,) = read(WITH_NICS, "topo.txt")
    assert [(nic.label, nic.name) for nic in topology.nics or ()] == [("NIC0", "mlx5_0"), ("NIC1", "mlx5_bond_1")]
    assert connections(topology) == {
        ("GPU0", "GPU1"): "NV4",
        ("GPU0", "NIC0"): "PXB",
        ("GPU0", "NIC1"): "SYS",
        ("GPU1", "NIC0"): "SYS",
        ("GPU1", "NIC1"): "PHB",
        ("NIC0", "NIC1"): "SYS",
    }
    assert topology.notes == (NOT_KNOWN.format(nics="rates and states of NICs"),)
    assert [(gpu.cpu_affinity, gpu.numa_affinity, gpu.gpu_numa_id) for gpu in topology.gpus or ()] == [
        ("0-15,32-47", "0-1", None),
        ("16-31", "1", 4),
    ]


def test_an_old_matrix_names_its_nics_in_the_header() -> None:
    text = "\tGPU0\tmlx5_0\tCPU Affinity\nGPU0\t X \tSOC\t0-7\nmlx5_0\tSOC\t X \t\n"
    (topology,) = read(text, "old.txt")
    assert connections(topology) == {("GPU0", "mlx5_0"): "SYS"}
    assert [(nic.label, nic.name) for nic in topology.nics or ()] == [("mlx5_0", "mlx5_0")]


def test_one_gpu() -> None:
    (topology,) = read("GPU0 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X 0-11 0 N/A\n", "one")
    assert (topology.labels, topology.paths) == (("GPU0",), ())
    assert (topology.gpus or ())[0].cpu_affinity == "0-11"


@pytest.mark.parametrize(
    ("old", "new", "note", "unknown"),
    [
        # A cell is missing: which one, nobody can tell. The other row still says it.
        ("GPU1    NV4      X      SYS     PHB", "GPU1    NV4      X      SYS", "the row of GPU1 is left out", set()),
        # X is not in the device's own column.
        ("NIC1    SYS     PHB     SYS      X", "NIC1    SYS     PHB     X      SYS", "the X is not in", set()),
        ("GPU0     X      NV4", "GPU0     X      NV4x", '"NV4x" is not a connection', set()),
        # The two rows of a pair disagree.
        ("GPU1    NV4", "GPU1    NV2", "NV4 in one row and by NV2", {("GPU0", "GPU1")}),
        ("GPU0     X      NV4     PXB     SYS", "GPU0     X      N/A     PXB     SYS", "", set()),
    ],
)
def test_uncertain_cells_are_left_out(old: str, new: str, note: str, unknown: set[tuple[str, str]]) -> None:
    assert old in WITH_NICS
    (whole,), (topology,) = read(WITH_NICS, "topo.txt"), read(WITH_NICS.replace(old, new), "topo.txt")
    assert any(note in said for said in topology.notes)
    found, real = connections(topology), connections(whole)
    assert {pair for pair, connection in found.items() if connection is None} == unknown
    assert all(connection in {real[pair], None} for pair, connection in found.items())


def test_a_header_that_lost_a_device_moves_no_cell() -> None:
    text = WITH_NICS.replace("GPU0    GPU1    NIC0", "GPU0    NIC0", 1)
    with pytest.raises(UsageError, match="the matrix in x cannot be read: the row of GPU0 has more cells"):
        read(text, "x")


def test_two_losses_that_cancel_each_other_move_no_cell() -> None:
    """The header lost NIC0 and the row of GPU0 its first cell: their numbers agree again, and everything is shifted."""
    text = WITH_NICS.replace("GPU0    GPU1    NIC0    NIC1", "GPU0    GPU1    NIC1", 1)
    text = text.replace("GPU0     X      NV4     PXB", "GPU0     X      PXB", 1)
    for damaged in (text, "\n".join(line for line in text.splitlines() if not line.startswith("GPU1"))):
        with pytest.raises(UsageError, match=r"cannot be read: (the row of GPU1 has more cells|the header lacks NIC0)"):
            read(damaged, "x")


def test_words_after_the_matrix_are_not_a_row() -> None:
    text = V100_X2_WITHOUT_TABS.replace("Legend:", "a NODE connection joins them\nrank0 X marks the spot")
    assert connections(read(text, "x")[0]) == {("GPU0", "GPU1"): "NODE"}


def test_nvlink_joins_no_nic() -> None:
    (topology,) = read("GPU0 NIC0\nGPU0 X NV4\nNIC0 PIX X\n", "x")
    assert connections(topology) == {("GPU0", "NIC0"): "PIX"}
    assert "the row of GPU0 is left out: it has NVLinks to a device that is not a GPU" in topology.notes


def test_both_rows_of_a_pair_gone_is_unknown() -> None:
    lines = [line for line in WITH_NICS.splitlines() if not line.startswith(("GPU1", "NIC1"))]
    (topology,) = read("\n".join(lines), "topo.txt")
    assert connections(topology)["GPU1", "NIC1"] is None
    assert connections(topology)["GPU0", "GPU1"] == "NV4"
    assert any("2 rows missing: GPU1, NIC1" in note for note in topology.notes)


def test_affinities_that_cannot_be_told_apart_are_unknown() -> None:
    (topology,) = read("GPU0 CPU Affinity NUMA Affinity\nGPU0 X 0\n", "t")
    assert (topology.gpus or ())[0].cpu_affinity is None
    assert any("1 values for 2 columns" in note for note in topology.notes)
    (topology,) = read("GPU0 CPU Affinity NUMA Affinity\nGPU0 X red 0\n", "t")
    assert any('"red" is not a CPU Affinity' in note for note in topology.notes)


def test_several_matrices_are_several_machines() -> None:
    found = read(H200_X4 + "\n" + V100_X2_WITHOUT_TABS, "both.txt")
    assert [len(topology.gpus or ()) for topology in found] == [4, 2]


@pytest.mark.parametrize("text", ["", "GPU0", "GPU0 GPU1\n", "nothing", "GPU0 GPU0\nGPU0 X X\n", "index, name\n0, A\n"])
def test_text_without_a_matrix_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="has no matrix"):
        read(text, "x")


def test_names_cannot_control_a_terminal() -> None:
    (topology,) = read(WITH_NICS.replace("mlx5_0", "mlx\x1b]0;x\x07_0"), "x")
    assert all(name is None or name.isprintable() for name in (nic.name for nic in topology.nics or ()))


CELLS = ["X", "NV18", "NV4", "PIX", "PXB", "PHB", "NODE", "SYS"]
WORDS = st.sampled_from(
    [
        *CELLS,
        "GPU0",
        "GPU1",
        "NIC0",
        "CPU",
        "Affinity",
        "NUMA",
        "GPU",
        "ID",
        "0-3",
        "0",
        "N/A",
        "\t",
        "\n",
        "\n",
        " ",
        "|",
        "Link",
    ]
)


def said(text: str) -> set[str]:
    return set(re.findall(r"NV\d+|PIX|PXB|PHB|NODE|SYS|SOC", text))


@settings(deadline=None)
@given(st.lists(WORDS, max_size=60).map(" ".join) | st.text(max_size=200))
def test_no_text_makes_a_link_that_it_does_not_hold(text: str) -> None:
    try:
        found = read(text, "fuzz")
    except UsageError:
        return
    for topology in found:
        assert {connection for connection in connections(topology).values() if connection} <= said(text) | {"SYS"}


@settings(deadline=None)
@given(st.data())
def test_a_damaged_matrix_yields_no_wrong_connection(data: st.DataObject) -> None:
    """Characters and lines go missing; what is still said is what the whole one says."""
    (whole,) = read(WITH_NICS, "whole")
    real = connections(whole)
    lines = WITH_NICS.splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        number = data.draw(st.integers(0, len(lines) - 1))
        words = lines[number].split()
        is_cut: bool = data.draw(st.booleans())
        if words and is_cut:
            words.pop(data.draw(st.integers(0, len(words) - 1)))
            lines[number] = " ".join(words)
        else:
            lines[number] = data.draw(st.sampled_from(["", "some other words", f"{lines[number]} {lines[number]}"]))
    try:
        found = read("\n".join(lines), "damaged")
    except UsageError:
        return
    for topology in found:
        for pair, connection in connections(topology).items():
            assert connection in {real.get(pair), None}


LABELS = st.integers(1, 6).flatmap(lambda gpus: st.integers(0, 4).map(lambda nics: (gpus, nics)))


@settings(deadline=None)
@given(st.data(), LABELS, st.sampled_from(["\t", "  ", " "]))
def test_what_is_written_as_a_matrix_is_read(data: st.DataObject, devices: tuple[int, int], gap: str) -> None:
    """An oracle of its own: a matrix made from a table of pairs."""
    labels = [*(f"GPU{number}" for number in range(devices[0])), *(f"NIC{number}" for number in range(devices[1]))]
    pairs = {
        (one, other): data.draw(st.sampled_from(CELLS[1:] if other.startswith("GPU") else CELLS[3:]))
        for place, one in enumerate(labels)
        for other in labels[place + 1 :]
    }
    lines = [gap.join([*labels, "CPU Affinity", "NUMA Affinity"])]
    for one in labels:
        cells = ["X" if one == other else pairs.get((one, other)) or pairs[other, one] for other in labels]
        lines.append(gap.join([one, *cells, *(["0-7", "0"] if one.startswith("GPU") else [])]))
    (topology,) = read("\n".join(lines), "made")
    assert connections(topology) == pairs
