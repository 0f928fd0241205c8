"""Results of several nodes: from captures, and from the records that the engine gathers."""

import io
import json
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from doctor_machines import load

from busbw.cli.doctor.selection import exit_code_of
from busbw.cli.doctor.several_nodes import gathered_records
from busbw.cli.doctor.text import result_lines
from busbw.cli.main import main
from busbw.doctor.captured_nodes import records_of_captures
from busbw.doctor.catalog import all_checks
from busbw.doctor.model import Evidence, Severity
from busbw.doctor.node_record import NodeRecord, examine_node, merge_records
from busbw.doctor.result import ReportedFinding, Result
from busbw.doctor.sources.capture import Capture, Manifest, archive_bytes

KERNEL = "proc/sys/kernel/osrelease"


def record(node: str, *severities: Severity, kernel: str = "5.15.0-1046", **categories: Any) -> NodeRecord:
    """Returns the record of a node with findings of the check memlock."""
    findings = tuple(
        ReportedFinding(
            check="memlock",
            severity=severity,
            problem="locked memory is limited",
            evidence=(Evidence("ulimit -l", node),),
            fix="raise it",
            source="https://example.org",
        )
        for severity in severities
    )
    return NodeRecord(node=node, values={"kernel-differs": (kernel,)}, result=Result(findings=findings, **categories))


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the width that parallel workers of pytest set, because output is wrapped to it."""
    monkeypatch.delenv("COLUMNS", raising=False)


def merged(*records: NodeRecord) -> Result:
    return merge_records(records, all_checks())


def text_lines(result: Result) -> list[str]:
    return [line.plain for line in result_lines(result)]


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    """Captures of four nodes, of which n3 differs."""
    for name in ("n1", "n2", "n3", "n4"):
        files = {KERNEL: b"5.15.0-1042-nvidia" if name == "n3" else b"5.15.0-1046-nvidia"}
        (tmp_path / f"{name}.tar.gz").write_bytes(archive_bytes(Capture(files, Manifest())))
    return tmp_path


def test_findings_have_their_node() -> None:
    result = merged(record("n1", passed=("memlock", "open-files")), record("n2", "risk"), record("n3", "broken"))
    assert [(each.check, each.node) for each in result.findings] == [("memlock", "n3"), ("memlock", "n2")]
    assert result.nodes == ("n1", "n2", "n3")
    assert "memlock" not in result.passed
    assert "kernel-differs" in result.passed


def test_a_check_that_does_not_apply_on_some_nodes_passed_on_the_others() -> None:
    name = "memlock"
    result = merged(record("n1", passed=(name,)), record("n2", not_applicable=(name,)))
    assert name in result.passed
    assert name not in result.not_applicable


def test_a_check_that_applies_nowhere_has_a_reason() -> None:
    absent: dict[str, Any] = {"not_applicable": ("gpu-mig",), "not_applicable_reasons": {"gpu-mig": "no NVIDIA GPU"}}
    assert merged(record("n1", **absent), record("n2", **absent)).not_applicable_reasons["gpu-mig"] == "no NVIDIA GPU"
    mixed = merged(record("n1", passed=("gpu-mig",)), record("n2", **absent))
    assert "gpu-mig" not in mixed.not_applicable_reasons


def test_a_single_node_has_no_name() -> None:
    result = merged(record("n1", "broken"))
    assert (result.findings[0].node, result.nodes) == (msgspec.UNSET, msgspec.UNSET)


def test_a_node_without_a_record_does_not_hide_the_others() -> None:
    lost = NodeRecord(node="n3", problem="the command is missing")
    result = merged(record("n1"), record("n2", kernel="6.8"), lost)
    assert [each.check for each in result.findings] == ["kernel-differs"]
    assert [(each.node, each.missing) for each in result.could_not_check] == [("n3", "the command is missing")]
    assert "could not check: n3: the command is missing" in text_lines(result)
    assert exit_code_of(result) == 3


def test_a_record_of_a_node_is_short() -> None:
    assert len(msgspec.json.encode(examine_node("n1", load("dgx-h100").machine, all_checks()))) < 16 << 10


def test_several_roots_are_compared(captures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for name in ("n1", "n2", "n3", "n4") for word in ("--root", str(captures / f"{name}.tar.gz"))]
    main(["doctor", *words, "--json"])
    by_name = json.loads(capsys.readouterr().out)
    main(["doctor", "--root", str(captures), "--json"])
    assert json.loads(capsys.readouterr().out) == by_name
    (finding,) = [each for each in by_name["findings"] if each["check"] == "kernel-differs"]
    assert finding["node"] == "n3"
    assert finding["problem"] == "3 of 4 nodes have kernel 5.15.0-1046-nvidia; n3 has 5.15.0-1042-nvidia"


def test_equal_findings_of_several_nodes_are_one_block() -> None:
    records = [record(f"n{index}", "risk") for index in range(1, 6)] + [record("n6", kernel="6.8")]
    lines = text_lines(merged(*records))
    assert [line for line in lines if line.startswith("RISK")] == [
        "RISK    5 of 6 nodes have kernel 5.15.0-1046; n6 has 6.8  [kernel-differs]",
        "RISK    on 5 of 6 nodes (n1, n2, n3, n4 and 1 more): locked memory is limited  [memlock]",
    ]


def test_findings_of_all_nodes_name_none() -> None:
    lines = text_lines(merged(record("n1", "slow"), record("n2", "slow")))
    assert "SLOW    on all 2 nodes: locked memory is limited  [memlock]" in lines


def test_a_capture_that_cannot_be_read_does_not_hide_the_others(captures: Path) -> None:
    (captures / "n2.tar.gz").write_text("no archive")
    records = records_of_captures(sorted(captures.iterdir()), all_checks())
    assert [bool(each.problem) for each in records] == [False, True, False, False]


def test_nodes_of_one_name_stay_apart() -> None:
    line = json.dumps({"node": "n1", "problem": "the command is missing", "output": ""}).encode()
    records = gathered_records(io.BytesIO(line + b"\n" + line + b"\n"))
    assert [each.node for each in records] == ["n1", "n1 (2)"]


@pytest.mark.parametrize("output", ["", "bash: \x1b[31mno", "{}", "[" * 3000, '{"node":"n1","result":{"format":"x"}}'])
def test_an_output_that_is_no_record_is_a_node_that_could_not_be_checked(output: str) -> None:
    line = json.dumps({"node": "n7", "problem": "", "output": output}).encode()
    (gathered,) = gathered_records([line])
    assert gathered.node == "n7"
    assert "no record" in gathered.problem
    assert "\x1b" not in gathered.problem


def test_a_line_that_ends_early_is_a_node_that_could_not_be_checked() -> None:
    (gathered,) = gathered_records([b'{"node":"n1","prob'])
    assert "n1" in gathered.problem


def test_no_record_is_no_healthy_job() -> None:
    assert exit_code_of(merge_records((), all_checks())) == 3


def test_the_record_of_a_node_is_that_of_its_capture(
    captures: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "n3")
    assert main(["doctor", "--node-record", "--root", str(captures / "{node}.tar.gz")]) == 0
    own = msgspec.json.decode(capsys.readouterr().out, type=NodeRecord)
    assert own.values["kernel-differs"] == ("5.15.0-1042-nvidia",)
    monkeypatch.delenv("SLURMD_NODENAME")
    monkeypatch.setenv("BUSBW_NODENAME", "n9")
    assert main(["doctor", "--node-record", "--root", str(captures / "{node}.tar.gz")]) == 0
    assert "n9.tar.gz does not exist" in msgspec.json.decode(capsys.readouterr().out, type=NodeRecord).problem


def test_a_launcher_runs_the_checks_on_each_node(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "local", "--dry-run", "--root", "/captures/{node}.tgz", "--json"]) == 0
    _, engine_words = capsys.readouterr().out.split("busbw-engine each-node ")
    assert shlex.split(engine_words) == [
        "busbw doctor --node-record --root '/captures/{node}.tgz'",
        "busbw doctor --merge --json",
    ]


def test_an_option_before_the_launcher_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "local"]) == 2
    assert "put it after" in capsys.readouterr().err
