"""A log that ends before its program is asked for less and less often, until it brings something."""

import sys
from pathlib import Path

import pytest

from busbw.launchers.kubernetes import KubernetesTarget, log_reader

STEP_S = 0.25


class Clock:
    """A time that passes when the test says so."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize("code", [0, 1])
def test_pauses_grow_until_a_line_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    kubectl = tmp_path / "kubectl"
    log = tmp_path / "log"
    log.touch()
    kubectl.write_text(f"#!{sys.executable} -S\nprint(open({str(log)!r}).read(), end='')\nraise SystemExit({code})\n")
    kubectl.chmod(0o755)
    clock = Clock()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(log_reader, "monotonic", clock)

    def connections(for_s: int) -> list[float]:
        """When, in seconds from now."""
        start_s, found = clock.now_s, []
        while clock.now_s < start_s + for_s:
            if log_reading.is_reconnect_due():
                found.append(clock.now_s - start_s)
                log_reading.connect(follow=True)
                while log_reading.is_connected:
                    log_reading.read_lines(STEP_S)
            clock.now_s += STEP_S
        return found

    log_reading = log_reader.LogReader(KubernetesTarget(image="busbw:1"), "pod")
    try:
        assert connections(60) == [0, 1, 3, 7, 15, 31, 47]
        assert log_reading.failures == (7 if code else 0)
        log.write_text("2026-11-21T10:00:00.1Z a line\n")
        assert connections(10) == [3, 4, 6]
        assert log_reading.failures == (3 if code else 0)
    finally:
        log_reading.disconnect()
