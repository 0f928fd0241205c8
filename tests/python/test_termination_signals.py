"""Tests of the signals that end a launch. Under nohup, SIGHUP is not one of them."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from busbw.launchers.kubernetes.signal_log import logged_signals
from busbw.launchers.slurm.follower import logged_signals as slurm_logged_signals
from busbw.termination_signals import handled_signals

SignalLogger = Callable[[], AbstractContextManager[list[int]]]
SIGNAL_LOGGERS = [logged_signals, slurm_logged_signals]
"""Context managers of the Kubernetes and the Slurm follower that list the received signals."""


@pytest.fixture(autouse=True)
def restore_hang_up() -> Iterator[None]:
    previous = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, previous)


def test_a_hang_up_is_handled_unless_it_is_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    assert handled_signals() == (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert handled_signals() == (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("log_signals", SIGNAL_LOGGERS)
def test_a_follower_under_nohup_ignores_hang_ups(log_signals: SignalLogger) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with log_signals() as received:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize("log_signals", SIGNAL_LOGGERS)
def test_a_follower_handles_other_signals(log_signals: SignalLogger) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with log_signals() as received:
        os.kill(os.getpid(), signal.SIGHUP)
        assert received == [signal.SIGHUP]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
