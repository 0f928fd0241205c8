"""Captures of the nodes of a job have the result of the job."""

import io
import json
from functools import partial
from pathlib import Path

import pytest
from doctor_machines import load

from busbw.cli.main import main
from busbw.doctor import node_record
from busbw.doctor.examination import examine
from busbw.doctor.sources.capture import archive_bytes

LONG_S = 60.0
NAMES = ("n1", "n2", "n3", "n4")
KERNEL = "proc/sys/kernel/osrelease"


def test_the_captures_give_the_result_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Limits of time are raised. On a busy machine, a check that does not end in time would change the result."""
    monkeypatch.setattr(node_record, "LIMIT_S", LONG_S)
    monkeypatch.setattr(node_record, "examine", partial(examine, limit_s=LONG_S))
    healthy = load("dgx-h100")
    for name in NAMES:
        machine = healthy.with_file(KERNEL, "6.8.0-31") if name == "n3" else healthy
        (tmp_path / f"{name}.tar.gz").write_bytes(archive_bytes(machine.tree))
    outputs = []
    for name in NAMES:  # the commands of each node, and then of process 0, as the engine runs them
        monkeypatch.setenv("SLURMD_NODENAME", name)
        assert main(["doctor", "--node-record", "--root", str(tmp_path / "{node}.tar.gz")]) == 0
        outputs.append({"node": name, "problem": "", "output": capsys.readouterr().out})
    text = "".join(f"{json.dumps(each)}\n" for each in outputs)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    main(["doctor", "--merge", "--json"])
    merged = json.loads(capsys.readouterr().out)
    main(["doctor", "--json", "--root", str(tmp_path)])
    assert json.loads(capsys.readouterr().out) == merged
    assert any(each.get("node") == "n3" and each["check"] == "kernel-differs" for each in merged["findings"])


def test_a_detached_job_writes_no_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "slurm", "--detach", "--junit", "new"]) == 2
    assert "--detach ends before there are files to write" in capsys.readouterr().err


def test_a_node_without_a_record_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    line = json.dumps({"node": "n2", "problem": "the command is missing", "output": ""})
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
    assert main(["doctor", "--merge"]) == 3
    assert "could not check: n2: the command is missing" in capsys.readouterr().out
