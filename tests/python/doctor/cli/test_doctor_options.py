"""Options of `busbw doctor`: selection of checks, exit codes, and files for other programs."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from doctor_machines import TestMachine, load
from msgspec import UNSET, UnsetType
from prometheus_client.parser import text_string_to_metric_families

from busbw.cli.doctor.exports import junit_document, prometheus_text
from busbw.cli.doctor.selection import condition_of, exit_code_of
from busbw.cli.main import main
from busbw.doctor.catalog import all_checks
from busbw.doctor.cost import Cost
from busbw.doctor.model import Evidence, Severity
from busbw.doctor.result import Missing, ReportedFinding, Result
from busbw.doctor.sources.capture import archive_bytes


def finding(
    check: str = "memlock",
    severity: Severity = "slow",
    lost: float = 0.0,
    *,
    problem: str = "a problem",
    node: str | UnsetType = UNSET,
    subject: str | UnsetType = UNSET,
) -> ReportedFinding:
    cost = Cost(busbw_now_gbps=100 * (1 - lost), busbw_fixed_gbps=100.0, nodes=4) if lost else UNSET
    return ReportedFinding(
        check=check,
        severity=severity,
        problem=problem,
        node=node,
        subject=subject,
        cost=cost,
        evidence=(Evidence("/proc/x", "1"),),
        cost_text="it costs",
        fix="mend it",
        source="NVIDIA/nccl#1",
    )


@pytest.mark.parametrize(
    ("words", "result", "code"),
    [
        ([], Result(), 0),
        ([], Result(findings=(finding(severity="risk"),)), 0),
        ([], Result(findings=(finding(severity="slow"),)), 5),
        ([], Result(findings=(finding(severity="slow"), finding(severity="broken"))), 1),
        ([], Result(could_not_check=(Missing(check="memlock", missing="x"),)), 3),
        ([], Result(findings=(finding(),), could_not_check=(Missing(check="memlock", missing="x"),)), 5),
        (["risk"], Result(findings=(finding(severity="risk"),)), 5),
        (["broken"], Result(findings=(finding(severity="slow"),)), 0),
        (["memlock"], Result(findings=(finding(severity="risk"),)), 5),
        (["memlock"], Result(findings=(finding(severity="broken"),)), 1),
        (["nofile"], Result(findings=(finding(severity="broken"),)), 0),
        (["nofile"], Result(could_not_check=(Missing(check="memlock", missing="x"),)), 0),
        (["memlock"], Result(could_not_check=(Missing(check="memlock", missing="x"),)), 3),
        (["broken"], Result(could_not_check=(Missing(check="memlock", missing="x"),)), 3),
        (["cost:10%"], Result(findings=(finding(lost=0.11),)), 5),
        (["cost:10%"], Result(findings=(finding(lost=0.09),)), 0),
        (["cost:10%", "broken"], Result(findings=(finding(severity="broken"),)), 1),
    ],
)
def test_exit_codes(words: list[str], result: Result, code: int) -> None:
    assert exit_code_of(result, condition_of(words)) == code


def test_a_check_that_needs_root_and_cannot_decide_is_no_failure() -> None:
    with_root = [check.name for check in all_checks() if check.needs_root]
    assert with_root
    assert exit_code_of(Result(could_not_check=(Missing(check=with_root[0], missing="x"),))) == 0


@pytest.fixture
def small_memlock(tmp_path: Path) -> str:
    """Capture of a machine on which the check memlock finds something."""
    return write_capture(tmp_path, load("dgx-h100").with_fact("limits", memlock_bytes=65536))


def write_capture(folder: Path, machine: TestMachine) -> str:
    path = folder / "capture.tar.gz"
    path.write_bytes(archive_bytes(machine.tree))
    return str(path)


@pytest.mark.parametrize(
    ("words", "code", "count"),
    [
        (["--check", "memlock"], 1, 1),
        (["--check", "memlock,nofile"], 1, 1),
        (["--check", "memlock", "--check", "nofile", "--ignore", "memlock"], 0, 0),
        (["--check", "nofile"], 0, 0),
        (["--check", "memlock", "--fail-on", "nofile"], 0, 1),
        (["--check", "memlock", "--fail-on", "broken,cost:5%"], 1, 1),
    ],
)
def test_selection(
    small_memlock: str, capsys: pytest.CaptureFixture[str], words: list[str], code: int, count: int
) -> None:
    assert main(["doctor", "--root", small_memlock, "--json", *words]) == code
    assert len(json.loads(capsys.readouterr().out)["findings"]) == count


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--check", "memlok"], "did you mean memlock?"),
        (["--ignore", "memlock,memlok"], '--ignore: no check is named "memlok"'),
        (["--fail-on", "brokn"], "did you mean broken?"),
        (["--fail-on", "cost:100"], '--fail-on "100" is not a fraction'),
        (["--check", "memlock", "--ignore", "memlock"], "no check is left"),
        (["--log", "-", "--check", "memlock"], "no check is left"),
        (["--junit", "no-folder/x"], "cannot write no-folder/x"),
        (["--capture", "no-folder/x"], "cannot write no-folder/x"),
        (["--log", "-", "--capture", "x"], "--capture concerns one machine"),
        (["--log", "-", "--root", "."], "--log and --root exclude each other"),
        (["--system", "h100-sxm"], "--system concerns the nodes of --log"),
    ],
)
def test_usage_errors(here: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["doctor", *words]) in (2, 3)
    assert message in capsys.readouterr().err


def test_the_list_has_the_selected_checks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--list", "--json", "--check", "memlock"]) == 0
    (check,) = json.loads(capsys.readouterr().out)["checks"]
    assert check["check"] == "memlock"
    assert check["source"]
    assert check["cost"]
    assert check["fix"]
    main(["doctor", "--list"])
    assert f"{len(all_checks())} checks" in capsys.readouterr().out


HOSTILE = 'a"b\\c\nd\x1b[31m<&>'
RESULT = Result(
    findings=(
        finding("gpu-count", "broken", problem=HOSTILE, node="n3", subject=HOSTILE),
        finding("nic-rate", "slow", lost=0.5, subject="mlx5_3"),
        finding("nic-rate", "slow", lost=0.5, subject="mlx5_4"),
    ),
    passed=("memlock", "nofile"),
    not_applicable=("efa-present",),
    not_applicable_reasons={"efa-present": "no instance of AWS with several EFA devices"},
    could_not_check=(Missing(check="gpu-xid", missing="permission", node="n1"), Missing(check="smt", missing="a file")),
)


def test_junit_has_a_case_for_each_check() -> None:
    root = ElementTree.fromstring(junit_document(RESULT))
    counts = {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "7", "failures": "2", "errors": "2", "skipped": "1"}
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert set(cases) == {"gpu-count (n3)", "nic-rate", "gpu-xid (n1)", "smt", "memlock", "nofile", "efa-present"}
    assert [failure.get("type") for failure in cases["nic-rate"]] == ["slow"]
    assert str(cases["nic-rate"][0].text).count("mend it") == 2
    assert cases["efa-present"][0].get("message") == "no instance of AWS with several EFA devices"


def test_metrics() -> None:
    families = {
        each.name: each.samples for each in text_string_to_metric_families(prometheus_text(RESULT, 7.0).decode())
    }
    found = [sample.labels for sample in families["busbw_doctor_finding"]]
    assert found[0] == {"check": "gpu-count", "severity": "broken", "node": "n3", "subject": HOSTILE}
    assert found[1] == {"check": "nic-rate", "severity": "slow", "subject": "mlx5_3"}
    assert [sample.value for sample in families["busbw_doctor_cost_ratio"]] == [0.5, 0.5]
    counts = {sample.labels["result"]: sample.value for sample in families["busbw_doctor_checks"]}
    assert counts == {"finding": 2, "passed": 2, "not_applicable": 1, "could_not_check": 2}
    assert families["busbw_doctor_end_time_seconds"][0].value == 7.0


def test_findings_with_the_same_labels_are_counted() -> None:
    finding = RESULT.findings[1]
    text = prometheus_text(Result(findings=(finding, finding)), 7.0).decode()
    assert 'busbw_doctor_finding{check="nic-rate",severity="slow",subject="mlx5_3"} 2' in text


def test_metrics_without_findings() -> None:
    text = prometheus_text(Result(passed=("memlock",)), 7.0).decode()
    assert "busbw_doctor_finding" not in text
    assert 'busbw_doctor_checks{result="finding"} 0' in text


def test_the_files_are_written(small_memlock: str, tmp_path: Path) -> None:
    junit, metrics = tmp_path / "doctor.xml", tmp_path / "doctor.prom"
    words = ["--check", "memlock", "--junit", str(junit), "--prometheus", str(metrics)]
    assert main(["doctor", "--root", small_memlock, *words]) == 1
    assert ElementTree.parse(junit).getroot().get("failures") == "1"
    assert 'busbw_doctor_finding{check="memlock",severity="broken"}' in metrics.read_text()
