"""Other commands name the findings of `busbw doctor` that may explain their result."""

import json
import os
import re
import subprocess
import sys
from errno import ENOSPC
from pathlib import Path

import pytest
from conftest import BUSBW, ROOT
from doctor_machines import TestMachine, load
from polling import HANG_GUARD_S

from busbw.cli.main import main
from busbw.doctor.sources.capture import archive_bytes, read_capture

sys.path.append(str(Path(__file__).parent / "log"))  # its helper module, which pytest adds only for tests there

from doctor_logs import HEALTHY, healthy_log

GOOD_TABLE = next((ROOT / "tests").rglob("nccl_tests_2_19_6_nccl.txt")).read_text()
SLOW_TABLE = (ROOT / "tests/golden/seeds/000_4bd6902a841c76ab.txt").read_text()
JOB = healthy_log(HEALTHY["dgx-h100"])
WITHOUT_GPUDIRECT = [line.replace("/GDRDMA", "") for line in JOB]


@pytest.fixture
def slow_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Log of a slow run without GPUDirect."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    path = Path("slow.log")
    path.write_text("\n".join(WITHOUT_GPUDIRECT) + "\n" + SLOW_TABLE)
    return path


def test_check_names_the_findings_in_a_slow_log(slow_log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(slow_log)]) == 5
    printed = " ".join(capsys.readouterr().out.split())
    assert "cause?" in printed
    assert "[log-gpudirect]" in printed
    assert "busbw doctor --log slow.log shows evidence, cost and fix" in printed
    main(["check", "--json", str(slow_log)])
    causes = json.loads(capsys.readouterr().out)["causes"]["slow.log"]
    assert {cause["check"] for cause in causes} == {"log-gpudirect"}


def test_a_good_log_needs_no_cause(slow_log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("good.log").write_text("\n".join(WITHOUT_GPUDIRECT) + "\n" + GOOD_TABLE)
    assert main(["check", "good.log", str(slow_log), "--json"]) == 5
    assert set(json.loads(capsys.readouterr().out)["causes"]) == {"slow.log"}
    main(["report", "good.log", "-o", "good.html"])
    assert "log-gpudirect" not in Path("good.html").read_text()


def test_check_names_no_cause_without_messages_of_nccl(slow_log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow_log.write_text(SLOW_TABLE)
    assert main(["check", str(slow_log)]) == 5
    assert "cause?" not in capsys.readouterr().out


def test_a_report_names_the_findings_unless_it_is_redacted(slow_log: Path) -> None:
    main(["report", str(slow_log), "-o", "whole.html"])
    assert "[log-gpudirect]" in Path("whole.html").read_text()
    main(["report", str(slow_log), "--redact", "-o", "redacted.html"])
    assert "log-gpudirect" not in Path("redacted.html").read_text()


def test_find_leads_to_the_checks_of_the_node(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "--simulate", "4x8", "--fault", "nic:1/5:2"]) == 5
    assert "busbw doctor looks for the cause on a node" in capsys.readouterr().out
    assert main(["find", "--simulate", "4x8"]) == 0
    assert "busbw doctor" not in capsys.readouterr().out


def write_run(path: Path, **variables: str) -> None:
    """Writes the record of a run on four H200 with a late rank, and with these variables."""
    header, *rows = (ROOT / "tests/golden/late_rank_h200_x4.jsonl").read_text().splitlines()
    changed = json.loads(header)
    changed["environment"] |= variables
    path.write_text("\n".join([json.dumps(changed), *rows]) + "\n")


def test_a_report_names_the_harmful_variables_of_a_run(tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    run = tmp_path / "run.jsonl"
    write_run(run, NCCL_P2P_DISABLE="1", NCCL_ALGO="")
    main(["report", str(run), "-o", str(page)])
    text = page.read_text()
    assert (
        "NCCL_P2P_DISABLE=1: the GPUs of a node exchange data through host memory, not NVLink [log-variables]" in text
    )
    assert "unset NCCL_P2P_DISABLE" in text
    main(["report", str(run), "--redact", "-o", str(page)])
    assert "log-variables" not in page.read_text()


@pytest.mark.parametrize("variables", [{}, {"NCCL_P2P_LEVEL": "NVL"}, {"NCCL_IB_DISABLE": "1"}, {"NCCL_DEBUG": "WARN"}])
def test_harmless_variables_of_a_run_are_no_cause(tmp_path: Path, variables: dict[str, str]) -> None:
    run = tmp_path / "run.jsonl"
    write_run(run, **variables)
    main(["report", str(run), "-o", str(tmp_path / "run.html")])
    assert "log-variables" not in (tmp_path / "run.html").read_text()


def test_a_run_without_nccl_has_no_harmful_variables(tmp_path: Path) -> None:
    run = tmp_path / "run.jsonl"
    write_run(run, NCCL_P2P_DISABLE="1")
    run.write_text(run.read_text().replace('"nccl_version"', '"other_version"').replace('"nccl"', '"host"'))
    main(["report", str(run), "-o", str(tmp_path / "run.html")])
    assert "log-variables" not in (tmp_path / "run.html").read_text()


def write_run_folder(folder: Path, **captures: TestMachine) -> Path:
    """Writes a run of the store with a capture of each node."""
    folder.mkdir()
    write_run(folder / "records.jsonl")
    for node, machine in captures.items():
        (folder / f"{node}.tar.gz").write_bytes(archive_bytes(machine.tree))
    return folder


DGX = load("dgx-h100")
SLOW_DGX = DGX.with_file("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN").with_file(
    "sys/class/infiniband/mlx5_0/ports/1/phys_state", "2: Polling"
)


def test_a_report_names_the_findings_in_the_captures_of_a_run(tmp_path: Path) -> None:
    run, page = write_run_folder(tmp_path / "run", n1=DGX, n2=SLOW_DGX), tmp_path / "run.html"
    main(["report", str(run), "-o", str(page)])
    text = page.read_text()
    assert "n2: mlx5_0 is DOWN (Polling); 7 of 8 equal NICs are ACTIVE [nic-state]" in text
    assert f"busbw doctor --root {run} shows evidence, cost and fix" in text
    assert "n1: " not in text
    main(["report", str(run), "--redact", "-o", str(page)])
    assert "nic-state" not in page.read_text()


def test_a_report_of_a_run_with_healthy_nodes_names_no_cause(tmp_path: Path) -> None:
    run, page = write_run_folder(tmp_path / "run", n1=DGX), tmp_path / "run.html"
    main(["report", str(run), "-o", str(page)])
    assert "busbw doctor --root" not in page.read_text()


def test_another_archive_in_the_folder_of_a_run_is_ignored(tmp_path: Path) -> None:
    run, page = write_run_folder(tmp_path / "run"), tmp_path / "run.html"
    (run / "n1.tar.gz").write_bytes(b"no capture")
    main(["report", str(run), "-o", str(page)])
    assert "busbw doctor --root" not in page.read_text()


def test_a_run_keeps_a_capture_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = [*BUSBW, "run", "all_reduce", "-t", "2", "-e", "1K", "-n", "1", "--capture", "--store", "store"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=HANG_GUARD_S, check=False)
    assert result.returncode == 0, result.stderr
    (capture,) = Path("store").glob("*/*.tar.gz")
    assert f"Capture: {capture}" in result.stderr
    assert (capture.parent / "records.jsonl").exists()
    assert "proc/loadavg" in read_capture(capture).files
    assert main(["doctor", "--root", str(capture.parent)]) in (0, 1, 3, 5)


def test_a_capture_that_cannot_be_written_keeps_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill_disk(path: Path, content: bytes) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("busbw.cli.options.output_file.replace_file", fill_disk)
    words = ["all_reduce", "-t", "2", "-e", "1K", "-n", "1", "--capture", "--store", "store"]
    assert main(["run", *words]) == 0
    printed = capsys.readouterr().err
    assert re.search(
        r"busbw: cannot write \S+\.tar\.gz: No space left on device; set another path with --store", printed
    )
    assert "Capture:" not in printed


def test_a_record_in_a_file_has_no_folder_for_a_capture(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "all_reduce", "--capture", "--records", "out.jsonl"]) == 2
    assert "--store FOLDER" in capsys.readouterr().err
