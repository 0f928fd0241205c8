"""A driver that takes its time, one that never answers, and one that breaks."""

from collections.abc import Iterator
from threading import Event

import pytest
from topology_machines import FakeGpu, FakeNvml

from busbw.topology.sources.driver_timeout import query_driver


class Waits(FakeNvml):
    """Answers when it is let go."""

    let_go: Event

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        assert self.let_go.wait(60)
        return super().nvmlDeviceGetCount()


@pytest.fixture
def waiting() -> Iterator[Waits]:
    """Let go at the end, so that no thread is left over."""
    driver = Waits([FakeGpu("0000:01:00.0")])
    driver.let_go = Event()
    yield driver
    driver.let_go.set()


def test_a_fast_driver_causes_no_message() -> None:
    messages: list[str] = []
    assert len(query_driver(FakeNvml([FakeGpu("0000:01:00.0")]), messages.append, notice_after_s=30).gpus or ()) == 1
    assert messages == []


def test_a_slow_driver_causes_a_message(waiting: Waits) -> None:
    messages: list[str] = []

    def on_wait(sentence: str) -> None:
        messages.append(sentence)
        waiting.let_go.set()

    assert len(query_driver(waiting, on_wait, notice_after_s=0.01, limit_s=60).gpus or ()) == 1
    assert messages == ["waiting for NVIDIA's driver, at most 60 s; idle GPUs need time to wake up"]


def test_a_driver_that_never_answers_times_out(waiting: Waits) -> None:
    seen = query_driver(waiting, lambda _sentence: None, notice_after_s=0.01, limit_s=0.02)
    assert seen.gpus is None
    assert "has not answered for 0.02 s" in seen.notes[0]


def test_an_error_of_ours_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        query_driver(FakeNvml([], broken={"nvmlInit": ZeroDivisionError()}), print, notice_after_s=30)
