"""Results of several nodes: from captures, and from the records that the engine gathers."""

import io
import json
import shlex
from pathlib import Path

import msgspec
import pytest
from doctor_machines import TestMachine, load

from busbw.cli.doctor.several_nodes import gathered_records, records_of_captures
from busbw.cli.main import main
from busbw.doctor.catalog import MACHINE_AREAS, checks_of
from busbw.doctor.compared_values import NodeValues
from busbw.doctor.node_record import NodeRecord, examine_node, merge_records
from busbw.doctor.result import Result
from busbw.doctor.sources.capture import archive_bytes

CHECKS = checks_of(*MACHINE_AREAS, "nodes")
HEALTHY = load("dgx-h100").with_file("proc/sys/kernel/osrelease", "5.15.0-1046-nvidia")
ODD_KERNEL = HEALTHY.with_file("proc/sys/kernel/osrelease", "5.15.0-1042-nvidia")
SMALL_MEMLOCK = HEALTHY.with_fact("limits", memlock_bytes=65536)


def merged(**machines: TestMachine) -> Result:
    return merge_records([examine_node(name, machine.machine, CHECKS) for name, machine in machines.items()], CHECKS)


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    """Captures of four nodes, of which n3 differs."""
    folder = tmp_path / "captures"
    folder.mkdir()
    for name, machine in {"n1": HEALTHY, "n2": HEALTHY, "n3": ODD_KERNEL, "n4": HEALTHY}.items():
        (folder / f"{name}.tar.gz").write_bytes(archive_bytes(machine.tree))
    return folder


def test_findings_have_their_node() -> None:
    result = merged(n1=HEALTHY, n2=SMALL_MEMLOCK)
    assert [(each.check, each.node) for each in result.findings if each.check == "memlock"] == [("memlock", "n2")]
    assert result.nodes == ("n1", "n2")
    assert "memlock" not in result.passed
    assert "kernel-differs" in result.passed


def test_a_single_node_has_no_name() -> None:
    result = merged(n1=SMALL_MEMLOCK)
    assert (result.findings[0].node, result.nodes) == (msgspec.UNSET, msgspec.UNSET)


def test_a_node_without_a_record_does_not_hide_the_others() -> None:
    lost = NodeRecord(values=NodeValues(node="n3"), problem="the command is missing")
    result = merge_records([*(examine_node(f"n{index}", HEALTHY.machine, CHECKS) for index in (1, 2)), lost], CHECKS)
    assert not result.findings
    (missing,) = [each for each in result.could_not_check if each.node == "n3"]
    assert missing.missing == "the command is missing"


def test_a_record_of_a_node_is_short() -> None:
    record = examine_node("n1", SMALL_MEMLOCK.machine, CHECKS)
    assert len(msgspec.json.encode(record)) < 16 << 10


def test_several_roots_are_compared(captures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for name in ("n1", "n2", "n3", "n4") for word in ("--root", str(captures / f"{name}.tar.gz"))]
    main(["doctor", *words, "--json"])
    by_name = json.loads(capsys.readouterr().out)
    main(["doctor", "--root", str(captures), "--json"])
    assert json.loads(capsys.readouterr().out) == by_name
    (finding,) = [each for each in by_name["findings"] if each["check"] == "kernel-differs"]
    assert finding["node"] == "n3"
    assert finding["problem"] == "3 of 4 nodes have kernel 5.15.0-1046-nvidia; n3 has 5.15.0-1042-nvidia"


def test_equal_findings_of_several_nodes_are_one_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for index in range(1, 7):
        machine = HEALTHY if index == 6 else SMALL_MEMLOCK
        (tmp_path / f"n{index}.tgz").write_bytes(archive_bytes(machine.tree))
    main(["doctor", "--root", str(tmp_path)])
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("[memlock]") == 1
    assert "on 5 of 6 nodes (n1, n2, n3, n4 and 1 more): locked memory is limited" in printed


def test_a_capture_that_cannot_be_read_does_not_hide_the_others(captures: Path) -> None:
    (captures / "n2.tar.gz").write_text("no archive")
    records = records_of_captures(sorted(captures.iterdir()), CHECKS)
    assert [bool(record.problem) for record in records] == [False, True, False, False]


def test_nodes_of_one_name_stay_apart() -> None:
    line = json.dumps({"node": "n1", "problem": "the command is missing", "output": ""}).encode()
    records = gathered_records(io.BytesIO(line + b"\n" + line + b"\n"))
    assert [record.values.node for record in records] == ["n1", "n1 (2)"]


@pytest.mark.parametrize(
    "output", ["", "bash: \x1b[31mno", "{}", "[" * 3000, '{"values":{"node":"n1"},"result":{"format":"x"}}']
)
def test_an_output_that_is_no_record_is_a_node_that_could_not_be_checked(output: str) -> None:
    line = json.dumps({"node": "n7", "problem": "", "output": output}).encode()
    (record,) = gathered_records([line])
    assert record.values.node == "n7"
    assert "no record" in record.problem
    assert "\x1b" not in record.problem


def test_the_record_of_a_node_is_that_of_its_capture(
    captures: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "n3")
    assert main(["doctor", "--node-record", "--root", str(captures / "{node}.tar.gz")]) == 0
    record = msgspec.json.decode(capsys.readouterr().out, type=NodeRecord)
    assert record.values.values["kernel-differs"] == ("5.15.0-1042-nvidia",)
    monkeypatch.setenv("SLURMD_NODENAME", "n9")
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
