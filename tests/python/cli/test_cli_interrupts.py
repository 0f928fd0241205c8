"""What termination and hang-up do to a command."""

import signal
import threading

import pytest

from busbw.cli.interrupts import ended_like_interrupted
from busbw.cli.main import main
from busbw.errors import EndedError, code_of_interrupt


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_an_interrupt_with_the_engine_s_code(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt) as ended, ended_like_interrupted():
        signal.raise_signal(number)
    assert code_of_interrupt(ended.value) == 143
    assert signal.getsignal(number) is before


def test_a_command_that_lets_it_through_has_that_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(*_arguments: object) -> None:
        with ended_like_interrupted():
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("busbw.cli.open_store.default_folder", measured)
    assert main(["runs"]) == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_repeat_does_not_cut_off_what_the_first_one_brings_about(number: signal.Signals) -> None:
    with ended_like_interrupted():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        signal.raise_signal(number)


def test_a_repeat_of_what_a_program_took_does_not_either() -> None:
    with ended_like_interrupted() as ending:
        ending.has_begun()
        signal.raise_signal(signal.SIGINT)


def test_a_late_one_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbw.cli.interrupts._REPEAT_S", 0.0)
    with ended_like_interrupted() as ending:
        ending.has_begun()
        with pytest.raises(EndedError):
            signal.raise_signal(signal.SIGTERM)


def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_like_interrupted():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_ctrl_c_stays_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt) as ended, ended_like_interrupted():
        signal.raise_signal(signal.SIGINT)
    assert code_of_interrupt(ended.value) == 130
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_than_the_first_have_no_handlers() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def act() -> None:
        with ended_like_interrupted():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    assert seen == [before]
