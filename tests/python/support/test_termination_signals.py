"""Tests of the signals that end a launch. Under nohup, SIGHUP is not one of them."""

import os
import signal
from collections.abc import Iterator

import pytest

from busbw.support.termination_signals import cleaned_up_by, collected_signals, deferred_signals, handled_signals


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


def test_a_follower_under_nohup_ignores_hang_ups() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with collected_signals() as received:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_follower_handles_other_signals() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with collected_signals() as received:
        os.kill(os.getpid(), signal.SIGHUP)
        assert received == [signal.SIGHUP]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_a_deferred_signal_takes_effect_at_the_end() -> None:
    with collected_signals() as received:
        with deferred_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            assert received == []
        assert received == [signal.SIGTERM]


def test_a_signal_cleans_up_before_it_takes_effect() -> None:
    events: list[object] = []
    with collected_signals() as received:
        with cleaned_up_by(lambda: events.append(list(received))):
            os.kill(os.getpid(), signal.SIGINT)
            assert received == [signal.SIGINT]
        assert events == [[]]
