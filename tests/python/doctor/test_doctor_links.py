"""Other commands name the findings of `busbw doctor` that may explain their result."""

import json
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from busbw.cli.main import main

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
