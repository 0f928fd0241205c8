"""Calls of kubectl: those that never end with what they have started, and the error of a failed one."""

import os
import sys
import time
from pathlib import Path

import pytest

from busbw.launchers.kubernetes import KubernetesTarget, kubectl

TARGET = KubernetesTarget(image="busbw:1")
LEFT_S = 100
KUBECTL = f"""#!{sys.executable}
import os, subprocess, sys, time
from pathlib import Path
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep({LEFT_S})"], start_new_session=LEAVES)
Path(os.environ["FAKE_CHILD"] + ".new").write_text(str(child.pid))
os.rename(os.environ["FAKE_CHILD"] + ".new", os.environ["FAKE_CHILD"])
ENDS or time.sleep({LEFT_S})
"""


def lives(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("leaves", [False, True])
def test_the_limit_holds_with_inherited_pipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: bool, ends: bool
) -> None:
    program = tmp_path / "kubectl"
    program.write_text(KUBECTL.replace("LEAVES", str(leaves)).replace("ENDS", str(ends)))
    program.chmod(0o755)
    pid_path = tmp_path / "child"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("FAKE_CHILD", str(pid_path))
    monkeypatch.setattr(kubectl, "_CALL_LIMIT_S", 1.5)
    child = 0

    def wait_for_child(_verb: str, _elapsed_s: float) -> None:
        nonlocal child
        while not child:
            child = int(pid_path.read_text()) if pid_path.exists() else 0
            time.sleep(0.01)

    try:
        with pytest.raises(kubectl.RefusedError, match="kubectl did not answer within"):
            kubectl.KubectlClient(TARGET, wait_for_child, []).run("get", "pods")
        for _ in range(0 if leaves else 1000):  # one that was killed is gone soon
            if not lives(child):
                break
            time.sleep(0.01)
        assert lives(child) == leaves  # what has left kubectl's group is left alone, and not waited for
    finally:
        if child and lives(child):
            os.kill(child, 9)


@pytest.mark.parametrize("day", ["0131", "1121"])
def test_the_error_is_no_line_of_kubectls_log(day: str) -> None:
    log = f'E{day} 12:00:00.000000  4711 memcache.go:265] "Unhandled Error" err="no route"'
    result = kubectl.KubectlResult(1, b"", f"Error from server: no such namespace\nWarning: old API\n{log}\n")
    assert result.error_line == "no such namespace"
