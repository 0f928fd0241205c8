"""Captures of all nodes of a job: from the output of each node to the files, and back to the same result."""

import io
import json
from functools import partial
from pathlib import Path

import pytest
from doctor_machines import load

from busbw.cli.doctor import several_nodes
from busbw.cli.doctor.several_nodes import write_capture
from busbw.cli.main import main
from busbw.doctor import node_record
from busbw.doctor.examination import examine
from busbw.doctor.sources.capture import archive_bytes

LONG_S = 60.0
NAMES = ("n1", "n2", "n3", "n4")
KERNEL = "proc/sys/kernel/osrelease"


class Job:
    """Runs the commands of each node and of process 0, as the engine does."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.capsys = capsys
        healthy = load("dgx-h100")
        for name in NAMES:
            machine = healthy.with_file(KERNEL, "6.8.0-31") if name == "n3" else healthy
            (folder / f"{name}.tar.gz").write_bytes(archive_bytes(machine.tree))

    def run(self) -> tuple[list[bytes], str]:
        """Returns the lines of process 0 with --json, and its standard error."""
        outputs = []
        for name in NAMES:
            self.monkeypatch.setenv("SLURMD_NODENAME", name)
            root = str(self.folder / "{node}.tar.gz")
            assert main(["doctor", "--node-record", "--with-capture", "--root", root]) == 0
            outputs.append({"node": name, "problem": "", "output": self.capsys.readouterr().out})
        text = "".join(f"{json.dumps(each)}\n" for each in outputs)
        self.monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        main(["doctor", "--merge", "--with-capture", "--json"])
        out, errors = self.capsys.readouterr()
        return out.encode().splitlines(keepends=True), errors


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Job:
    """Limits of time are raised. On a busy machine, a check that does not end in time would change the result."""
    monkeypatch.setattr(node_record, "LIMIT_S", LONG_S)
    monkeypatch.setattr(node_record, "examine", partial(examine, limit_s=LONG_S))
    folder = tmp_path / "nodes"
    folder.mkdir()
    return Job(folder, monkeypatch, capsys)


def test_the_captures_give_the_result_of_the_job(job: Job, tmp_path: Path) -> None:
    lines, errors = job.run()
    folder = tmp_path / "captures"
    assert [write_capture(folder, line) for line in lines] == [*[True] * 4, False]
    assert errors == ""
    assert sorted(path.name for path in folder.iterdir()) == [f"{name}.tar.gz" for name in NAMES]
    main(["doctor", "--json", "--root", str(folder)])
    result = json.loads(job.capsys.readouterr().out)
    assert result == json.loads(lines[-1])
    assert any(each.get("node") == "n3" and each["check"] == "kernel-differs" for each in result["findings"])


def test_a_job_that_ends_early_leaves_the_complete_captures(job: Job, tmp_path: Path) -> None:
    lines, _ = job.run()
    folder = tmp_path / "captures"
    assert write_capture(folder, lines[0])
    assert not write_capture(folder, lines[1][:1000])
    assert [path.name for path in folder.iterdir()] == ["n1.tar.gz"]


def test_a_node_with_a_long_capture_is_named(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several_nodes, "_MAX_CAPTURE_BYTES", 2 << 10)
    lines, errors = job.run()
    assert len(lines) == 1
    assert errors.count("\n") == len(NAMES)
    assert "n2 has no capture: it is longer than 2 KiB; run busbw doctor --capture FILE on the node" in errors


def test_a_node_without_a_record_has_no_capture(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = json.dumps({"node": "n2", "problem": "the command is missing", "output": ""})
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
    assert main(["doctor", "--merge", "--with-capture"]) == 3
    out, errors = capsys.readouterr()
    assert "could not check: n2: the command is missing" in out
    assert errors == ""


@pytest.mark.parametrize("node", ["../up", "/etc/up", "a/b"])
def test_the_name_of_a_node_leads_to_no_other_folder(node: str, tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    assert write_capture(folder, json.dumps({"node": node, "capture": "YQ=="}).encode())
    assert [path.name for path in folder.iterdir()] == [f"{node.replace('/', '_')}.tar.gz"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["slurm", "--detach", "--capture", "new"], "--detach ends before there are files to write"),
        (["slurm", "--detach", "--junit", "new"], "--detach ends before there are files to write"),
        (["local", "--capture", "no-folder/x"], "cannot write no-folder/x"),
        (["local", "--capture", "full"], "--capture full has captures already; name a new folder"),
    ],
)
def test_a_folder_that_cannot_be_used(
    words: list[str], message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "full").mkdir()
    (here / "full" / "n1.tar.gz").touch()
    assert main(["doctor", *words]) in (2, 3)
    assert message in capsys.readouterr().err


def test_both_commands_of_the_engine_know_of_captures(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "local", "--dry-run", "--capture", "new"]) == 0
    out = capsys.readouterr().out
    assert "'busbw doctor --node-record --with-capture' 'busbw doctor --merge --with-capture'" in out
    assert list(here.iterdir()) == []
