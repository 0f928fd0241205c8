"""Saved matrices: whole ones, those that lost their layout, and text that is none."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from saved_matrices import H200_X4, V100_X2_WITHOUT_TABS, WITH_NICS

from busbw.errors import UsageError
from busbw.topology import Topology
from busbw.topology.sources.matrix_text import read
from busbw.topology.types import Driver, Host

# Made here from what is known of these machines: the connections, affinities and rates, and not the tool's words.


def connections(topology: Topology) -> dict[tuple[str, str], str | None]:
    return {(path.of, path.to): path.connection for path in topology.paths}


def test_a_matrix_with_its_tabs() -> None:
    (topology,) = read(H200_X4, "env.txt")
    assert len(topology.paths) == 6
    assert set(connections(topology).values()) == {"NV18"}
    assert {path.pcie for path in topology.paths} == {None}  # NVLink hides what PCIe there is
    gpus = topology.gpus or ()
    assert [(gpu.label, gpu.name, gpu.cpu_affinity, gpu.numa_affinity) for gpu in gpus] == [
        (f"GPU{number}", "NVIDIA H200", "0-63", "0") for number in range(4)
    ]
    assert all(gpu.gpu_numa_id is None and gpu.pcie and gpu.pcie.max_gbps == 63.02 for gpu in gpus)
    assert gpus[0].nvlinks is not None
    assert (gpus[0].nvlinks.active, gpus[0].nvlinks.line_gbps) == (18, 26.562)
    assert gpus[0].nvlinks.link_gbps is None  # the version is not said
    assert gpus[1].nvlinks is None
    assert topology.nics is None
    assert topology.notes == (
        "not known from the text: bus ids of GPUs, memory of GPUs, NVLinks of each GPU, NICs, MIG, driver version, "
        "CUDA version, the host",
    )


def test_a_matrix_inside_a_document_that_lost_its_tabs() -> None:
    (topology,) = read(V100_X2_WITHOUT_TABS, "page.txt")
    assert connections(topology) == {("GPU0", "GPU1"): "NODE"}
    assert [(gpu.name, gpu.bus_id, gpu.cpu_affinity) for gpu in topology.gpus or ()] == [
        ("Tesla V100-PCIE-16GB", "0001:00:00.0", "0-11"),
        ("Tesla V100-PCIE-16GB", "0002:00:00.0", "0-11"),
    ]
    assert topology.driver == Driver(version="570.133.20", cuda_version="12.8")
    assert [gpu.memory_bytes for gpu in topology.gpus or ()] == [16 * 2**30, 16 * 2**30]
    assert [gpu.mig_mode for gpu in topology.gpus or ()] == [None, None]  # they cannot be divided
    assert topology.host == Host(name="node7")
    assert topology.notes == (
        "the matrix lost its layout: its cells are identified by their order; 1 of 1 connection could be read",
        "not known from the text: PCIe links, NICs, the host's processor, the host's NUMA nodes and memory",
    )


def test_a_lost_layout_is_noted_with_the_unreadable_connections() -> None:
    said = "the matrix lost its layout: its cells are identified by their order; "
    text = " \n".join(" ".join(line.split()) for line in WITH_NICS.splitlines())
    assert read(text, "x")[0].notes[0] == said + "6 of 6 connections could be read"
    damaged = text.replace("GPU1 NV4 X SYS PHB", "GPU1 NV4 X").replace("NIC1 SYS PHB SYS X", "NIC1")
    assert said + "5 of 6 connections could be read" in read(damaged, "x")[0].notes
    for kept in (H200_X4, WITH_NICS):
        assert "layout" not in " ".join(read(kept, "x")[0].notes)


@pytest.mark.parametrize(
    ("word", "mode"), [("Enabled", "enabled"), ("Disabled", "disabled"), ("Disabled*", "disabled"), ("N/A", None)]
)
def test_mig_of_the_summary(word: str, mode: str | None) -> None:
    (topology,) = read(V100_X2_WITHOUT_TABS.replace("| | | N/A |", f"|      |      |   {word} |"), "x")
    assert [gpu.mig_mode for gpu in topology.gpus or ()] == [mode, mode]
    assert "MIG" not in topology.notes[-1]


def test_mig_that_not_every_gpu_says_is_not_known() -> None:
    (topology,) = read(V100_X2_WITHOUT_TABS.replace("| | | N/A |", "", 1), "x")
    assert "MIG" in topology.notes[-1]


def test_mig_of_gpus_outside_the_matrix_is_ignored() -> None:
    summary, matrix = V100_X2_WITHOUT_TABS.split("GPU0 GPU1 CPU", 1)
    text = summary + f"GPU0 GPU1 CPU{matrix}".replace("GPU0", "GPU2").replace("GPU1", "GPU3")
    (topology,) = read(text, "x")
    assert [gpu.label for gpu in topology.gpus or ()] == ["GPU2", "GPU3"]
    assert ", MIG" in topology.notes[-1]


def test_mig_that_the_text_gives_twice_is_not_known() -> None:
    summary, matrix = V100_X2_WITHOUT_TABS.split("GPU0 GPU1 CPU", 1)
    other = summary.replace("| | | N/A |", "| | | Enabled |")
    (topology,) = read(f"{summary}{other}GPU0 GPU1 CPU{matrix}", "x")
    assert [gpu.mig_mode for gpu in topology.gpus or ()] == [None, None]
    assert ", MIG" in topology.notes[-1]


def test_memory_driver_and_mig_of_a_query() -> None:
    text = H200_X4.replace("pcie.link.gen.max,", "memory.total [MiB], driver_version, mig.mode.current,")
    text = text.replace("NVIDIA H200, 5, 16", "NVIDIA H200, 143771 MiB, 580.95.05, Disabled, 16")
    (topology,) = read(text, "x")
    assert {(gpu.memory_bytes, gpu.mig_mode) for gpu in topology.gpus or ()} == {(143771 * 2**20, "disabled")}
    assert topology.driver == Driver(version="580.95.05")
    assert not re.search("memory of GPUs|MIG|driver", topology.notes[-1])


def test_two_memories_and_two_drivers_are_none() -> None:
    text = V100_X2_WITHOUT_TABS + "index, driver_version, memory.total [MiB]\n0, 550.54.14, 32768 MiB\n"
    (topology,) = read(text, "x")
    assert [gpu.memory_bytes for gpu in topology.gpus or ()] == [None, 16 * 2**30]
    assert topology.driver == Driver(cuda_version="12.8")
    assert {"the text gives GPU0 more than one memory", "the text gives more than one driver version"} <= {
        *topology.notes
    }


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("Rank 1 Group 0 Pid 55353 on node7", "Rank 1 Group 0 Pid 55353 on node8", "node7, node8"),
        # A test on another machine: its GPUs are others.
        ("1 [0x00] Tesla V100-PCIE-16GB", "1 [0x00] NVIDIA A100", "node7"),
        # Nothing says which GPUs the matrix has.
        ("00:00.0 Off", "", "node7"),
    ],
)
def test_a_host_is_used_only_if_it_is_certain(old: str, new: str, named: str) -> None:
    assert old in V100_X2_WITHOUT_TABS
    (topology,) = read(V100_X2_WITHOUT_TABS.replace(old, new), "x")
    assert topology.host is None
    assert f"the host of the matrix is uncertain; the text names {named}" in topology.notes


def test_the_processor_that_lscpu_names() -> None:
    (topology,) = read(H200_X4 + "\nModel name:                 A(R) Processor\n", "x")
    assert topology.host == Host(processor="A(R) Processor")
    assert topology.notes[-1].endswith("CUDA version, the host's name, the host's NUMA nodes and memory")
    (topology,) = read(H200_X4 + "\nModel name: llama\n", "x")
    assert topology.host is None


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


def test_two_names_for_one_gpu_are_none() -> None:
    (topology,) = read(H200_X4.replace("GPU 0: NVIDIA H200 (", "GPU 0: NVIDIA H100 ("), "env.txt")
    assert [gpu.name for gpu in topology.gpus or ()] == [None, "NVIDIA H200", "NVIDIA H200", "NVIDIA H200"]
    assert "the text gives GPU0 more than one name" in topology.notes


def test_links_that_are_down() -> None:
    (topology,) = read(H200_X4.replace("Link 3: 26.562 GB/s", "Link 3: <inactive>"), "env.txt")
    assert (topology.gpus or ())[0].nvlinks is not None
    assert (topology.gpus or ())[0].nvlinks.active == 17


@pytest.mark.parametrize("second_state", ["<inactive>", "25.781 GB/s"])
def test_two_states_of_one_link_are_none(second_state: str) -> None:
    text = f"{H200_X4}\nGPU 0: NVIDIA H200 (UUID: GPU-0)\n\t Link 3: {second_state}\n"
    (topology,) = read(text, "env.txt")
    assert (topology.gpus or ())[0].nvlinks is None
    assert "the text gives GPU0 more than one state of an NVLink" in topology.notes
    assert "NVLinks of each GPU" in topology.notes[-1]


def test_a_repeated_state_of_a_link_is_no_contradiction() -> None:
    text = f"{H200_X4}\nGPU 0: NVIDIA H200 (UUID: GPU-0)\n\t Link 3: 26.562 GB/s\n"
    (topology,) = read(text, "env.txt")
    assert topology == read(H200_X4, "env.txt")[0]


def test_several_matrices_are_several_machines() -> None:
    found = read(H200_X4 + "\n" + V100_X2_WITHOUT_TABS, "both.txt")
    assert [len(topology.gpus or ()) for topology in found] == [4, 2]
    # Nobody can tell which of them the names beside belong to.
    assert {gpu.name for topology in found for gpu in topology.gpus or ()} == {None}
    assert {(topology.driver, topology.host) for topology in found} == {(None, None)}
    assert all("because details outside its 2 matrices may describe any" in topology.notes[-1] for topology in found)


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
