"""A network that reduces (InfiniBand SHARP), declared by an option or in a system file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw import system
from busbw.cli.main import main
from busbw.expect import Scenario, expect, with_sharp
from busbw.system import find

# Published with SHARP for 64 x H100 on 8 nodes: coreweave/nccl-tests README.md, MPI Operator.
PUBLISHED_GBPS = {1 << 29: 356.01, 1 << 30: 365.90, 1 << 31: 380.73, 1 << 32: 383.23, 1 << 33: 386.56}
ABOVE_GBPS = dict.fromkeys(PUBLISHED_GBPS, 450.0)
"""Above every limit without SHARP: 384 GB/s of the NICs, 371 GB/s of the NVLinks."""
FACTORS = {"all_reduce": 2 * 63 / 64, "all_gather": 63 / 64, "broadcast": 1.0}


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., str]:
    """Writes a log of nccl-tests with 64 ranks on 8 nodes, and returns its path."""

    def write(busbw_gbps: dict[int, float], collective: str = "all_reduce") -> str:
        lines = [f"# Collective test starting: {collective}_perf", "# Using devices"]
        lines += [
            f"#  Rank {rank:2} Group  0 Pid {1000 + rank} on node{rank // 8} device {rank % 8} [0x1b] "
            "NVIDIA H100 80GB HBM3"
            for rank in range(64)
        ]
        lines.append("#       size   count  type  redop  root   time  algbw  busbw #wrong   time  algbw  busbw #wrong")
        for size, busbw in busbw_gbps.items():
            algbw = busbw / FACTORS[collective]
            half = f"{size / algbw / 1e3:.1f} {algbw:.2f} {busbw:.2f} 0"
            lines.append(f" {size} {size // 4} float sum -1 {half} {half}")
        lines.append("# Out of bounds values : 0 OK")
        path = tmp_path / "run.txt"
        path.write_text("\n".join([*lines, f"# Collective test concluded: {collective}_perf", ""]))
        return str(path)

    return write


def verdict(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The only verdict of `busbw check`. NICs are stated, because assumed ones are another reason for UNSURE."""
    main(["check", *words, "--json"])
    (found,) = json.loads(capsys.readouterr().out)["verdicts"]
    return dict(found)


def test_a_busbw_above_the_limit_names_the_option(log: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    found = verdict(capsys, log(ABOVE_GBPS), "--nics", "8x400")
    assert (found["grade"], found["reason_kind"]) == ("UNSURE", "impossible_busbw")
    (advice,) = found["advice"]
    assert advice.startswith("add --sharp if the network reduces (InfiniBand SHARP); otherwise state the system")


@pytest.mark.parametrize("busbw_gbps", [ABOVE_GBPS, PUBLISHED_GBPS])
def test_the_option_makes_it_good(
    log: Callable[..., str], capsys: pytest.CaptureFixture[str], busbw_gbps: dict[int, float]
) -> None:
    found = verdict(capsys, log(busbw_gbps), "--nics", "8x400", "--sharp")
    assert found["grade"] == "GOOD"
    assert str(found["yardstick"]).endswith("over 8 x 400 Gb/s per node with SHARP")


def test_a_run_without_the_network_is_slow_on_a_network_that_reduces(
    log: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = log(dict.fromkeys(PUBLISHED_GBPS, 330.0))
    assert verdict(capsys, path, "--nics", "8x400")["grade"] == "GOOD"
    found = verdict(capsys, path, "--nics", "8x400", "--sharp")
    assert found["grade"] == "SLOW"
    assert "It needs a network that reduces (NCCL_COLLNET_ENABLE=1" in " ".join(found["causes"])


def test_a_collective_that_it_does_not_accelerate_stays_unsure(
    log: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = log(ABOVE_GBPS, "broadcast")
    for words in ([], ["--sharp"]):
        found = verdict(capsys, path, "--nics", "8x400", *words)
        assert found["reason_kind"] == "impossible_busbw"
        assert not any("--sharp" in advice for advice in found["advice"])


def test_a_system_file_declares_it(log: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = (Path(system.__file__).parent / "h100-sxm.toml").read_text()
    file = tmp_path / "our-cluster.toml"
    file.write_text(f"{text}sharp = true\n")  # [nics] is the last table of the file
    assert find(str(file)).nics is not None
    assert verdict(capsys, log(ABOVE_GBPS), "--system", str(file))["grade"] == "GOOD"
    # Other NICs on the same network still reduce.
    assert verdict(capsys, log(ABOVE_GBPS), "--system", str(file), "--nics", "8x400")["grade"] == "GOOD"


def test_the_report_takes_the_option(
    log: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = str(tmp_path / "page.html")
    for words, headline in (([], "1 cannot be judged"), (["--sharp"], "1 is as fast as expected")):
        assert main(["report", log(ABOVE_GBPS), "--system", "h100-sxm", "-o", page, *words]) == 0
        assert headline in capsys.readouterr().out


# ---- the limits, computed by hand -----------------------------------------------------------------------------------


def limits(collective: str, ranks: int, *, sharp: bool = True) -> dict[str, dict[str, float]]:
    h100 = find("h100-sxm")
    scenario = Scenario(collective=collective, ranks=ranks, ranks_per_node=8)
    found = expect(scenario, with_sharp(h100) if sharp else h100, [1 << 33])
    return {route.name: {limit.wire: limit.busbw_gbps for limit in route.limits} for route in found.routes}


def test_an_all_reduce_crosses_the_nics_once_each_way() -> None:
    found = limits("all_reduce", 64)
    # 8 x 400 Gb/s carry 8 x 48 GB/s; busbw counts 2 x 63/64 for each byte that a node sends.
    assert found["CollNet"]["NIC"] == pytest.approx(384 * 126 / 64)
    assert found["NVLS"]["NIC"] == pytest.approx(384 * 126 / 64)
    # A GPU sends 7/8 of the data to the 7 others, and again for the result, over 18 x 20.6 GB/s.
    assert found["CollNet"]["NVLink"] == pytest.approx(18 * 20.6 * (63 / 64) / (7 / 8))


def test_an_all_gather_gets_the_parts_of_other_nodes_once() -> None:
    # 56 of 64 parts come from other nodes; busbw counts 63.
    assert limits("all_gather", 64)["CollNet"]["NIC"] == pytest.approx(384 * 63 / 56)
    assert limits("reduce_scatter", 64)["CollNet"]["NIC"] == pytest.approx(384 * 63 / 56)


@pytest.mark.parametrize(
    ("collective", "ranks", "sharp"),
    [
        ("broadcast", 64, True),
        ("reduce", 64, True),
        ("alltoall", 64, True),
        ("all_reduce", 8, True),
        ("all_reduce", 64, False),
    ],
)
def test_no_other_case_uses_the_network(collective: str, ranks: int, sharp: bool) -> None:
    found = limits(collective, ranks, sharp=sharp)
    assert "CollNet" not in found
    assert "NIC" not in found.get("NVLS", {})


def test_the_option_needs_nics(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["expect", "all_reduce", "--system", "h100-pcie", "--sharp"]) == 2
    assert capsys.readouterr().err == "busbw: --sharp: h100-pcie describes no NICs; state them with --nics 8x400\n"
    assert main(["expect", "all_reduce", "--system", "h100-sxm", "--ranks", "64", "--sharp", "--sizes", "8G"]) == 0
    assert "the network reduces (SHARP)" in " ".join(capsys.readouterr().out.split())
