"""Text of `busbw doctor` for a person."""

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from rich.text import Text

from busbw.cli.doctor.text import check_list_lines, result_lines
from busbw.doctor.catalog import all_checks
from busbw.doctor.cost import Cost
from busbw.doctor.model import Evidence, Severity
from busbw.doctor.result import Missing, ReportedFinding, Result


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the width that parallel workers of pytest set, because output is wrapped to it."""
    monkeypatch.delenv("COLUMNS", raising=False)


def finding(
    subject: str, problem: str, severity: Severity = "slow", *, node: str | UnsetType = UNSET
) -> ReportedFinding:
    return ReportedFinding(
        check="nic-width",
        severity=severity,
        subject=subject,
        problem=problem,
        evidence=(Evidence(f"/sys/class/infiniband/{subject}/device/current_link_width", "8"),),
        cost=Cost(busbw_now_gbps=196.04, busbw_fixed_gbps=388.0, nodes=4),
        cost_text="A ring runs at its slowest NIC.",
        fix="reseat the adapter, then compare cat /sys/class/infiniband/*/device/current_link_width",
        source="NVIDIA/nccl#1",
        node=node,
    )


def text_of(result: Result) -> str:
    return "\n".join(line.plain for line in result_lines(result))


EIGHT = Result(
    findings=tuple(finding(f"mlx5_{index}", f"mlx5_{index} runs at x8 instead of x16") for index in range(8)),
    passed=tuple(f"check-{index}" for index in range(55)),
    not_applicable=("efa-present",),
    could_not_check=(Missing(check="gpu-xid", missing="dmesg"), Missing(check="nvswitch-sxid", missing="dmesg")),
)


def test_commands_for_single_gpus_are_one_block() -> None:
    gpus = [finding(f"GPU{index}", f"GPU{index} has MIG on") for index in range(2)]
    findings = tuple(replace(each, fix=f"nvidia-smi -i {index} -mig 0") for index, each in enumerate(gpus))
    text = text_of(Result(findings=findings))
    assert text.count("fix") == 1
    assert "fix       nvidia-smi -i 0 -mig 0\n" in text
    assert "the same: GPU1\n" in text


def test_many_checks_that_are_not_applicable_are_counted_by_area() -> None:
    few = text_of(Result(not_applicable=("gpu-xid", "gpu-mig", "nic-rate")))
    assert "not applicable: gpu-xid, gpu-mig, nic-rate\n" in few
    many = text_of(Result(not_applicable=("gpu-xid", "gpu-mig", "nic-rate", "nic-mtu", "memlock")))
    assert "not applicable: 2 gpu, 2 nic, 1 host (--json lists them)\n" in many


def test_equal_findings_are_one_block() -> None:
    text = text_of(EIGHT)
    assert text.startswith("8 findings: 8 slow; 55 passed, 1 not applicable, 2 could not check\n")
    assert text.count("SLOW") == text.count("evidence") == text.count("fix") == 1
    assert "SLOW    mlx5_0 runs at x8 instead of x16  [nic-width]\n" in text
    assert "the same: mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7\n" in text
    assert "an all_reduce on 4 nodes would reach 196 of 388 GB/s (expected). A ring" in text
    assert "could not check: gpu-xid, nvswitch-sxid: dmesg" in text
    assert "next:" not in text


def test_different_values_of_one_problem_are_lines_of_one_block() -> None:
    findings = (
        finding("mlx5_0", "mlx5_0 lost 3 packets", node="n1"),
        finding("mlx5_1", "mlx5_1 lost 7 packets", node="n1"),
        finding("mlx5_1", "mlx5_1 lost 3 packets", node="n2"),
    )
    lines = text_of(Result(findings=findings)).splitlines()
    assert lines[2:5] == [
        "SLOW    n1: mlx5_0 lost 3 packets  [nic-width]",
        "        the same: n2: mlx5_1",
        "        n1: mlx5_1 lost 7 packets",
    ]


@pytest.mark.parametrize("findings", [(), (finding("x", "x is a risk", "risk"),)])
def test_without_a_cause_it_names_the_measurement(findings: tuple[ReportedFinding, ...]) -> None:
    text = text_of(Result(findings=findings))
    assert "busbw run all_reduce" in text
    assert "busbw find" in text


@pytest.mark.parametrize("columns", [80, 120])
def test_lines_fit_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = [line.plain for line in result_lines(EIGHT)]
    assert all(len(line) <= columns or " " not in line.strip()[12:] for line in lines)
    start = next(index for index, line in enumerate(lines) if line.startswith("passed: "))
    assert lines[start + 1].startswith("        check-")
    for line in check_list_lines(all_checks()):
        assert len(line.plain) <= columns or " " not in line.plain.strip()[12:]


def test_lines_of_a_pipe_are_whole() -> None:
    lines = [line.plain for line in result_lines(EIGHT)]
    assert any(line.startswith("passed: check-0") and line.endswith("check-54") for line in lines)


def test_severities_have_colors() -> None:
    lines = [*result_lines(EIGHT)]
    styled = next(line for line in lines if line.plain.startswith("SLOW"))
    assert any("yellow" in str(span.style) for span in styled.spans)


def test_characters_that_control_a_terminal_are_replaced() -> None:
    hostile = finding("\x1b[2J", "\x1b[2J runs\x9b at \u202ex8", node="\x1b]0;x\x07")
    result = Result(findings=(hostile,), could_not_check=(Missing(check="x", missing="\x1b[31m", node="\x1b"),))
    for line in result_lines(result):
        assert isinstance(line, Text)
        assert line.plain.isprintable()
