"""SIGTERM and SIGHUP in a command."""

import signal
import threading

import pytest

from busbw.cli.interrupts import termination_as_interrupt
from busbw.cli.main import main
from busbw.errors import TerminatedError, interrupt_exit_code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_an_interrupt_with_the_engine_s_code(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt) as ended, termination_as_interrupt():
        signal.raise_signal(number)
    assert interrupt_exit_code(ended.value) == 143
    assert signal.getsignal(number) is before


def test_an_unhandled_signal_gives_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(*_arguments: object) -> None:
        with termination_as_interrupt():
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("busbw.cli.open_store.default_folder", measured)
    assert main(["runs"]) == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_repeated_signal_does_not_interrupt_the_first(number: signal.Signals) -> None:
    with termination_as_interrupt():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        signal.raise_signal(number)


def test_a_repeat_of_a_signal_to_a_program_is_ignored() -> None:
    with termination_as_interrupt() as ending:
        ending.ignore_repeats()
        signal.raise_signal(signal.SIGINT)


def test_a_late_second_signal_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbw.cli.interrupts._REPEAT_S", 0.0)
    with termination_as_interrupt() as ending:
        ending.ignore_repeats()
        with pytest.raises(TerminatedError):
            signal.raise_signal(signal.SIGTERM)


def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with termination_as_interrupt():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_ctrl_c_stays_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt) as ended, termination_as_interrupt():
        signal.raise_signal(signal.SIGINT)
    assert interrupt_exit_code(ended.value) == 130
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_only_the_main_thread_has_handlers() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def act() -> None:
        with termination_as_interrupt():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    assert seen == [before]
