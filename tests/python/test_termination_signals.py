"""Which signals ask a launch to end: under nohup a hang-up is none of them."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from busbw.launchers.kubernetes.signal_log import logged_signals
from busbw.launchers.slurm.follower import signals
from busbw.termination_signals import handled_signals

Remembering = Callable[[], AbstractContextManager[list[int]]]
FOLLOWING = [logged_signals, signals]


@pytest.fixture(autouse=True)
def dispositions() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_hang_up_is_handled_unless_it_is_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    assert handled_signals() == (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert handled_signals() == (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("remembering", FOLLOWING)
def test_a_follower_under_nohup_ignores_hang_ups(remembering: Remembering) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with remembering() as received:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize("remembering", FOLLOWING)
def test_a_follower_handles_other_signals(remembering: Remembering) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with remembering() as received:
        os.kill(os.getpid(), signal.SIGHUP)
        assert received == [signal.SIGHUP]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
