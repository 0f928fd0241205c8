"""One change of a healthy log yields one finding, and known false alarms yield none."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT
from doctor_logs import HEALTHY, Job, changed, communicator_lines, examine, healthy_log, with_messages

from busbw.doctor.checks.libraries.harmful_variables import HARMFUL_VALUES
from busbw.doctor.checks.log.variables import TRAITS
from busbw.doctor.cost import Cost
from busbw.doctor.result import Result

IB = healthy_log(Job())
FOUR_NODES = healthy_log(Job(nodes=4))
ONE_NODE = healthy_log(Job(nodes=1))
A100 = healthy_log(HEALTHY["dgx-a100"])
GB200 = healthy_log(HEALTHY["gb200"])
EFA = healthy_log(HEALTHY["p5 with EFA"])
PCIE = Job(nodes=1, nvls=False, network="Socket", peers="SHM/direct/direct")
SOCKETS = healthy_log(Job(network="Socket"))


def found(result: Result) -> list[tuple[str, str]]:
    return [(finding.check, finding.severity) for finding in result.findings]


CHANGES: dict[str, tuple[Callable[[], list[str]], str, str]] = {
    "sockets by a variable": (
        lambda: [*SOCKETS, "node0:1000:3000 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1."],
        "log-network",
        "slow",
    ),
    "sockets without an adapter": (lambda: SOCKETS, "log-network", "risk"),
    "sockets on one host": (
        lambda: changed(IB, "Using network IB", "Using network Socket", host="node1"),
        "log-network",
        "broken",
    ),
    "a host with 7 adapters": (lambda: changed(IB, r" \[7\]mlx5_7:1/IB", "", host="node1"), "log-adapters", "slow"),
    "GPUDirect off for an adapter": (
        lambda: with_messages(IB, "NET/IB : GPU Direct RDMA Disabled for HCA 3 'mlx5_3'"),
        "log-gpudirect",
        "slow",
    ),
    "some connections without GPUDirect": (
        lambda: changed(IB, r"(receive\] via NET/IB/2)/GDRDMA", r"\1", host="node1"),
        "log-gpudirect",
        "slow",
    ),
    "no connection of one host with GPUDirect": (
        lambda: changed(IB, "/GDRDMA", "", host="node1"),
        "log-gpudirect",
        "slow",
    ),
    "GPUDirect off on a host without connections in the log": (
        lambda: with_messages(
            [line for line in IB if not ("node1:" in line and "via NET" in line)],
            "NET/IB : GPU Direct RDMA Disabled for HCA 3 'mlx5_3'",
        ),
        "log-gpudirect",
        "slow",
    ),
    "GPUDirect off by a variable": (
        lambda: with_messages(changed(IB, "/GDRDMA", "", host="node0"), "NCCL_NET_GDR_LEVEL set by environment to LOC"),
        "log-gpudirect",
        "slow",
    ),
    "shared memory instead of NVLink": (
        lambda: changed(IB, "P2P/CUMEM/read", "SHM/direct/direct", host="node0"),
        "log-peers",
        "slow",
    ),
    "no NVLink on one of two hosts": (
        lambda: [
            *changed(healthy_log(Job(nvls=False)), "P2P/CUMEM/read", "SHM/direct/direct", host="node1"),
            *(
                f"{header} NCCL INFO Pattern 4, crossNic 0, nChannels 12, bw 20.0/20.0, type {path}/PXN, sameChannels 1"
                for header, path in (("node0:1000:3000 [0]", "NVL"), ("node1:1008:3008 [0]", "SYS"))
            ),
        ],
        "log-peers",
        "slow",
    ),
    "the network instead of NVLink": (
        lambda: changed(ONE_NODE, "P2P/CUMEM/read", "NET/IB/0/GDRDMA"),
        "log-peers",
        "slow",
    ),
    "NVLS missing on a host": (
        lambda: changed(IB, "support is available", "support is not available", host="node1"),
        "log-nvls",
        "slow",
    ),
    "NVLink between nodes unused": (
        lambda: changed(changed(GB200, "MNNVL 1$", "MNNVL 0"), "nNodes 1 localRanks 16", "nNodes 4 localRanks 4"),
        "log-mnnvl",
        "slow",
    ),
    "fixed algorithm": (lambda: with_messages(IB, "NCCL_ALGO set by environment to Ring"), "log-variables", "risk"),
    "PXN off": (
        lambda: with_messages(FOUR_NODES, "NCCL_PXN_DISABLE set by environment to 1."),
        "log-variables",
        "risk",
    ),
    "a rank with fewer adapters": (
        lambda: with_messages(IB, "Rank 9 has 3 local Net devices (max 4)."),
        "log-nic-count",
        "slow",
    ),
    "rings that leave the rail": (
        lambda: changed(IB, r"(Channel (?:01|03)/.*receive\] via NET/IB/)\d", r"\g<1>7", host="node1"),
        "log-rails",
        "risk",
    ),
    "no good topology": (
        lambda: with_messages(
            IB,
            "=== System : maxBw 48.0 totalBw 480.0 ===",
            "Could not find a path for pattern 4, falling back to simple order",
        ),
        "log-topology-search",
        "slow",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_yields_one_finding(tmp_path: Path, name: str) -> None:
    lines, check, severity = CHANGES[name]
    assert found(examine(tmp_path, lines())) == [(check, severity)]


HARMLESS: dict[str, Callable[[], list[str]]] = {
    "sockets in a job of one node": lambda: healthy_log(Job(nodes=1, network="Socket")),
    "sockets in a job of one rack": lambda: healthy_log(Job(gpus=4, mnnvl=True, network="Socket")),
    "NVLS missing on all": lambda: A100,
    "an adapter without GPUDirect that carries no data": lambda: with_messages(
        IB, "NET/IB : GPU Direct RDMA Disabled for HCA 8 'mlx5_bond_0'"
    ),
    "GPUDirect of sockets": lambda: with_messages(
        SOCKETS[:0] + IB, "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'lo'"
    ),
    "no plug-in on InfiniBand": lambda: with_messages(
        IB, "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation"
    ),
    "send without GPUDirect reads": lambda: changed(IB, r"(send\] via NET/IB/\d)/GDRDMA", r"\1"),
    "PXN off on two nodes": lambda: with_messages(IB, "NCCL_PXN_DISABLE set by environment to 1."),
    "NVLS off as TCPXO requires": lambda: with_messages(
        healthy_log(Job(network="FasTrak")), "NCCL_NVLS_ENABLE set by environment to 0."
    ),
    "send and receive across the node": lambda: changed(
        IB, r"(Channel \d+)/0( : .*)P2P/CUMEM/read", r"\1/1\2SHM/direct/direct"
    ),
    "shared memory between pairs of GPUs with a bridge": lambda: with_messages(
        changed(healthy_log(Job(nodes=1, nvls=False)), "P2P/CUMEM/read", "SHM/direct/direct"),
        *(f"Pattern 4, crossNic 0, nChannels 4, bw 10/10, type {path}/PIX, sameChannels 1" for path in ("NVL", "SYS")),
    ),
    "one rack of two in a job": lambda: changed(GB200, r"(node[23]:.*UUID )3f1a4ab2c9d0e1f2", r"\g<1>77"),
    "partitions of a rack": lambda: [
        re.sub(
            "cliqueId 0x0", f"cliqueId 0x{line[4]}", re.sub("MNNVL 1$", "MNNVL 0", line).replace("nNodes 1", "nNodes 4")
        )
        for line in GB200
    ],
    "a storage adapter that is active on one host": lambda: changed(
        FOUR_NODES, "mlx5_7:1/IB", "mlx5_7:1/IB [8]mlx5_8:1/RoCE", host="node2"
    ),
    "communicators of equal ranks, each with the adapter of its GPU": lambda: [
        *healthy_log(Job()),
        *(
            re.sub(r"NET/IB/\d", f"NET/IB/{gpu}", line)
            for gpu in range(8)
            for line in communicator_lines(Job(), [gpu, 8 + gpu], f"0xe{gpu}00")
        ),
    ],
    "machines with the same name": lambda: [re.sub("^node[01]:", "worker:", line) for line in IB],
    "closed connections after the job": lambda: with_messages(IB, "[Service thread] Connection closed by localRank 1"),
    "retried connections": lambda: with_messages(
        IB, "socketPollConnect: connect returned Connection refused, retrying (1/34) after sleep for 100 msec"
    ),
    "a port that is up again": lambda: with_messages(
        IB, "transport/net_ib.cc:171 NCCL WARN NET/IB : mlx5_0:1 Got async error event: client reregistration"
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_known_false_alarm_is_silent(tmp_path: Path, name: str) -> None:
    assert found(examine(tmp_path, HARMLESS[name]())) == []


def test_shared_memory_needs_the_kind_of_gpu(tmp_path: Path) -> None:
    lines = healthy_log(PCIE)
    unknown = examine(tmp_path, lines)
    assert not unknown.findings
    assert [(each.check, "--system" in each.missing) for each in unknown.could_not_check] == [("log-peers", True)]
    assert found(examine(tmp_path, lines, system="h100-sxm")) == [("log-nvls", "slow"), ("log-peers", "slow")]


def test_the_cost_needs_the_system(tmp_path: Path) -> None:
    lines = changed(FOUR_NODES, r" \[7\]mlx5_7:1/IB", "", host="node1")
    assert not examine(tmp_path, lines).findings[0].cost
    (finding,) = examine(tmp_path, lines, system="h100-sxm").findings
    assert finding.subject == "node1"
    assert finding.problem == "node1 uses 7 adapters, other hosts use 8 (without mlx5_7)"
    assert isinstance(finding.cost, Cost)
    assert 0.8 < finding.cost.busbw_now_gbps / finding.cost.busbw_fixed_gbps < 0.95


@pytest.mark.parametrize("message", ["GPU Direct RDMA Disabled", "comm 0x"])
def test_a_host_behind_a_part_of_another_line_is_no_other_host(tmp_path: Path, message: str) -> None:
    lines = (ROOT / "tests/golden/nccl/no_gpudirect.log").read_text().splitlines()

    def words() -> list[list[str]]:
        """Words of each finding, because the order of the NICs may change."""
        return [sorted(finding.problem.replace(",", "").split()) for finding in examine(tmp_path, lines).findings]

    expected = words()
    glued = next(number for number, line in enumerate(lines) if line.startswith("node1:") and message in line)
    lines[glued] = f"17{lines[glued]}"
    assert words() == expected


def test_the_fix_names_the_version_of_nccl_that_finds_the_module(tmp_path: Path) -> None:
    lines = with_messages(A100, "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'")
    assert "2.23" in examine(tmp_path, lines).findings[0].fix


def test_a_log_that_mixes_unnamed_communicators_is_not_judged(tmp_path: Path) -> None:
    lines = [
        f"{host}:{pid}:{pid} [0] NCCL INFO {text}"
        for host, pid in (("a", 1), ("b", 2))
        for text in (
            "Using network IB",
            f"comm 0x1{pid} rank 0 nranks 2 cudaDev 0 busId 1c000 - Init COMPLETE",
            "Channel 00 : 0[1c000] -> 1[2c000] via direct shared memory",
        )
    ]
    assert found(examine(tmp_path, lines, system="h100-sxm")) == []


def test_consequences_come_last(tmp_path: Path) -> None:
    lines = [
        f"n1:1:2 [0] {text}"
        for text in (
            "misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n2<41109>",
            "transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129",
            "transport/net_ib.cc:1 NCCL WARN NET/IB : mlx5_0:1 Got non-fatal async event: port error(10)",
        )
    ]
    names = [check for check, _ in found(examine(tmp_path, lines))]
    assert names == ["log-link-down", "log-rdma-timeout", "log-peer-closed"]


def test_the_evidence_shows_the_first_messages_of_the_first_hosts(tmp_path: Path) -> None:
    hosts = ["node2", "node0", "node3", "node1", "node2"]
    warnings = [
        f"{host}:1000:3000 [0] misc/socket.cc:500 NCCL WARN Connect to 10.0.0.{index} failed"
        for index, host in enumerate(hosts)
    ]
    result = examine(tmp_path, [*FOUR_NODES, *warnings])
    (finding,) = [each for each in result.findings if each.check == "log-connect"]
    assert finding.subject == "node2"
    assert [each.value.partition(":")[0] for each in finding.evidence] == ["node2", "node0", "node3"]


def test_a_log_tells_the_traits_on_which_variables_depend() -> None:
    traits = {trait for row in HARMFUL_VALUES for trait in row.traits.split(", ") if trait}
    assert traits - set(TRAITS) <= {"virtual machine", "no nvidia_peermem"}


def test_too_few_ranks_do_not_reduce_in_the_switch(tmp_path: Path) -> None:
    # NCCL chooses a ring for fewer than five H100s, also with NVLS.
    message = "NCCL_NVLS_ENABLE set by environment to 0."
    two, eight = (with_messages(healthy_log(Job(nodes=1, gpus=gpus)), message) for gpus in (2, 8))
    assert found(examine(tmp_path, two, system="h100-sxm")) == []
    (finding,) = examine(tmp_path, eight, system="h100-sxm").findings
    assert (finding.check, finding.severity) == ("log-variables", "slow")
    assert isinstance(finding.cost, Cost)
    assert finding.cost.busbw_now_gbps < finding.cost.busbw_fixed_gbps


def test_shared_memory_matters_only_with_several_gpus_of_a_node(tmp_path: Path) -> None:
    job = Job(nodes=2, nvls=False, network="Socket", peers="SHM/direct/direct")
    message = "NCCL_SHM_DISABLE set by environment to 1."
    one, two = (
        [each for each in found(examine(tmp_path, lines, system="l40s")) if each[0] == "log-variables"]
        for lines in (with_messages(healthy_log(replace(job, gpus=gpus)), message) for gpus in (1, 2))
    )
    assert one == []
    assert two == [("log-variables", "slow")]


@pytest.mark.parametrize("values", [("Ring", "NVLS,NVLSTree"), ("NVLS,NVLSTree", "Ring")])
def test_hosts_with_different_values_of_a_variable(tmp_path: Path, values: tuple[str, str]) -> None:
    lines = [*IB, *_setting_lines("NCCL_PROTO", ("^LL128", "LL")), *_setting_lines("NCCL_ALGO", values)]
    findings = examine(tmp_path, lines, system="h100-sxm").findings
    assert sorted((each.problem.partition(":")[0], each.severity) for each in findings) == [
        ("NCCL_ALGO=NVLS,NVLSTree", "risk"),
        ("NCCL_ALGO=Ring", "slow"),
        ("NCCL_PROTO=LL", "slow"),
    ]


def _setting_lines(name: str, values: tuple[str, str]) -> list[str]:
    """Returns the messages of two hosts about a variable with different values."""
    hosts = ("node0:1000:3000", "node1:1009:3009")
    return [
        f"{host} [0] NCCL INFO {name} set by environment to {value}" for host, value in zip(hosts, values, strict=True)
    ]


@pytest.mark.parametrize(("hosts", "text"), [(1, "on node0"), (2, "on 2 of 2 hosts, such as node0")])
def test_hosts_with_sockets_are_named(tmp_path: Path, hosts: int, text: str) -> None:
    lines = [line for line in SOCKETS if hosts == 2 or "node0:" in line or "Using network" not in line]
    (finding,) = examine(tmp_path, lines).findings
    assert finding.problem == f"NCCL uses TCP sockets {text}"
