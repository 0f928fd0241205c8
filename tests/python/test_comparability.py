"""The one definition of like systems, which check, compare, ab and history share."""

import msgspec
import pytest
from sample_logs import row, table

from busbw.comparability import (
    find_differences,
    find_system_difference,
    find_traffic_differences,
    gpu_of,
    method_text,
    system_facts,
    transport_of,
    without_run_identity,
)
from busbw.logs.log import Rank, Table
from busbw.system import find


def on(device: str, hosts: int = 1, **changes: object) -> Table:
    ranks = tuple(Rank(rank=number, host=f"n{number * hosts // 4}", device_name=device) for number in range(4))
    return table(rank_list=ranks, **changes)


def blocked(run: Table, other: Table) -> list[str]:
    facts, other_facts = (system_facts(one, one.rows[0]).by_name() for one in (run, other))
    return [difference.text for difference in find_differences(facts, other_facts)[0]]


@pytest.mark.parametrize(
    ("run", "other", "texts"),
    [
        (on("NVIDIA H200"), on("NVIDIA H200"), []),
        (on("NVIDIA H100 80GB HBM3"), table(rank_list=(), title="8x H100 NVLink"), []),
        (on("NVIDIA H100 80GB HBM3"), on("NVIDIA H100 PCIe"), ["GPU NVIDIA H100 SXM5 against NVIDIA H100 PCIe"]),
        (on("Tesla V100-PCIE-16GB"), on("Tesla V100-SXM2-16GB"), ["GPU Tesla V100 against Tesla V100 SXM2"]),
        (on("NVIDIA H200"), on("NVIDIA H200", 2), ["hosts 1 against 2"]),
        (on("NVIDIA Z9"), on("NVIDIA H200"), ["GPU NVIDIA Z9 against NVIDIA H200 SXM5"]),
        (on("NVIDIA L4"), on("NVIDIA L40S"), ["GPU NVIDIA L4 against NVIDIA L40S"]),
        (on("NVIDIA A10"), on("NVIDIA A100-SXM4-80GB"), ["GPU NVIDIA A10 against NVIDIA A100 SXM4"]),
        (on("NVIDIA Z9"), on("NVIDIA Z9 80GB"), []),
    ],
)
def test_gpus_and_hosts_make_systems_unlike(run: Table, other: Table, texts: list[str]) -> None:
    assert blocked(run, other) == texts


def test_a_machine_with_two_gpu_types_is_unlike_one_with_the_first_of_them() -> None:
    mixed_ranks = (
        Rank(rank=0, host="n0", device_name="NVIDIA H100 80GB HBM3"),
        Rank(rank=1, device_name="NVIDIA H200"),
    )
    mixed = table(rank_list=mixed_ranks)
    assert gpu_of(mixed) == "NVIDIA H100 SXM5, NVIDIA H200 SXM5"
    assert blocked(mixed, on("NVIDIA H100")) == ["GPU NVIDIA H100 SXM5, NVIDIA H200 SXM5 against NVIDIA H100 SXM5"]
    assert blocked(mixed, mixed) == []


def test_transports_of_the_host_backend_are_unlike() -> None:
    memory = on("AMD EPYC", settings={"backend": "host"})
    sockets = on("AMD EPYC", settings={"backend": "host", "machine.transport": "tcp sockets"})
    assert transport_of(memory) == "shared memory"
    assert transport_of(on("NVIDIA H200")) is None
    assert blocked(memory, sockets) == ["transport shared memory against tcp sockets"]


def test_facts_that_one_side_does_not_state_are_no_blockers() -> None:
    stated, silent = on("NVIDIA H200"), table(rank_list=())
    assert gpu_of(silent) is None
    blockers, others = find_differences(
        system_facts(stated, row()).by_name(), system_facts(silent, row()).by_name(), run_name="A", other_name="B"
    )
    assert blockers == []
    assert [(one.fact, one.is_stated, one.text) for one in others] == [
        ("GPU", False, "GPU not stated by B"),
        ("hosts", False, "hosts not stated by B"),
    ]


CPU_RANKS = (Rank(rank=0, bus_id="cpu", device_name="AMD EPYC"),)


@pytest.mark.parametrize(
    ("run", "system", "is_like"),
    [
        (table(rank_list=CPU_RANKS), "h100-sxm", False),
        (table(rank_list=CPU_RANKS), "host", True),
        (on("NVIDIA H100 80GB HBM3"), "host", False),
        (on("NVIDIA H100 80GB HBM3"), "h200-sxm", False),
        (on("NVIDIA H100 80GB HBM3"), "h100-p5", True),  # the same GPU in another machine
        (on("NVIDIA Z9"), "h100-sxm", True),  # no description: the user knows better
        (table(rank_list=()), "h100-sxm", True),
    ],
)
def test_a_stated_system_must_have_the_device_of_the_log(run: Table, system: str, is_like: bool) -> None:
    difference = find_system_difference(run, find(system))
    assert (difference is None) == is_like
    assert difference is None or difference.fact == "GPU"


def test_own_descriptions_of_a_system_may_name_the_device() -> None:
    own = msgspec.structs.replace(find("h200-sxm"), title="our cluster", devices=["H100"])
    assert find_system_difference(on("NVIDIA H100 80GB HBM3"), own) is None


def test_settings_that_change_the_meaning_of_a_time_have_one_spelling() -> None:
    assert method_text(table(settings={"graph": "5", "agg iters": "1"})) == "graph_launches 5"
    assert method_text(table(settings={"graph_launches": "5", "iterations": "20"})) == "graph_launches 5"
    assert method_text(table(settings={"one_sided": "True", "average": "3"})) == "average 3, one_sided True"
    assert method_text(table(settings={"one_sided": "False"})) == ""


def load_differences(*settings: dict[str, str]) -> list[str]:
    run, other = (table(settings=side) for side in settings)
    return [difference.text for difference in find_traffic_differences(run, other, run_name="A", other_name="B")]


@pytest.mark.parametrize(
    ("neighbor", "other"),
    [
        ("alltoall -b 1M -e 1M", "alltoall -b 1024K -e 1M"),
        ("alltoall -b 1M -e 1M", "alltoall --maxbytes=1048576 -b1M"),
        ("alltoall -b 1M -e 1M", "alltoall -b 1M -e 1M -o max -r 3"),  # alltoall has no operator and no root
        ("broadcast", "broadcast -b 32M -e 32M -d float -r 0"),
        ("all_reduce -o sum", "all_reduce"),
        ("compute:MATMUL", "compute:matmul"),
    ],
)
def test_spellings_of_a_neighbor_are_equal(neighbor: str, other: str) -> None:
    assert not load_differences({"neighbor": neighbor}, {"neighbor": other})


@pytest.mark.parametrize(
    ("neighbor", "other"),
    [
        ("alltoall -b 1M -e 1M", "alltoall -b 2M -e 2M"),
        ("alltoall -b 1M -e 1M", "all_gather -b 1M -e 1M"),
        ("all_reduce -o max", "all_reduce"),
        ("broadcast -r 1", "broadcast"),
        ("alltoall -d half", "alltoall"),
        ("memory:copy", "compute:matmul"),
    ],
)
def test_other_neighbors_are_other_traffic(neighbor: str, other: str) -> None:
    assert load_differences({"neighbor": neighbor}, {"neighbor": other}) == [f"neighbor {neighbor} against {other}"]


def test_puts_are_other_traffic_in_any_number_of_contexts() -> None:
    puts = {"one_sided": "True", "rma_contexts": "1"}
    assert load_differences({}, puts) == ["transfers two-sided against one-sided"]
    assert load_differences({"one_sided": "False"}, puts) == ["transfers two-sided against one-sided"]
    assert not load_differences({"one_sided": "False"}, {})
    assert not load_differences(puts, puts | {"rma_contexts": "2"})  # a comparison may show the effect of contexts


def test_what_identifies_one_run_is_no_circumstance() -> None:
    facts = {
        "BUSBW_RENDEZVOUS": "tcp://127.0.0.1:41287",
        "SLURM_JOB_ID": "1234",
        "OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.0.0.1:44211",
        "machine.transport_addresses": "10.0.0.1:39117 (eth0), [fe80::1]:40022 (eth1)",
        "NCCL_IB_HCA": "mlx5_0:1,mlx5_1:1",
        "NCCL_ALGO": "Ring",
    }
    assert without_run_identity(facts) == {
        "machine.transport_addresses": "10.0.0.1 (eth0), [fe80::1] (eth1)",
        "NCCL_IB_HCA": "mlx5_0:1,mlx5_1:1",
        "NCCL_ALGO": "Ring",
    }
