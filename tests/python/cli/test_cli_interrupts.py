"""SIGTERM and SIGHUP in a command."""

import signal
import threading

import pytest

from busbw.cli.interrupts import checked_interrupts
from busbw.cli.main import main
from busbw.errors import TerminatedError, interrupt_exit_code


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_raises_at_the_next_check(number: signal.Signals, code: int) -> None:
    before = signal.getsignal(number)
    with checked_interrupts() as check:
        check()
        signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt) as ended:
            check()
    assert interrupt_exit_code(ended.value) == code
    assert signal.getsignal(number) is before


def test_an_unhandled_interrupt_gives_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(*_arguments: object) -> None:
        with checked_interrupts() as check:
            signal.raise_signal(signal.SIGTERM)
            check()

    monkeypatch.setattr("busbw.cli.open_store.default_folder", measured)
    assert main(["runs"]) == 128 + signal.SIGTERM


def test_an_interrupt_after_the_last_check_is_raised_once_at_the_end() -> None:
    with pytest.raises(TerminatedError), checked_interrupts():
        signal.raise_signal(signal.SIGTERM)
    with checked_interrupts() as check:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(TerminatedError):
            check()


def test_repeated_signals_count_as_one() -> None:
    with checked_interrupts() as check:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(TerminatedError):
            check()


def test_a_late_second_signal_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbw.cli.interrupts._REPEAT_S", 0.0)
    codes: list[int] = []
    monkeypatch.setattr("os._exit", codes.append)
    with checked_interrupts() as check:
        signal.raise_signal(signal.SIGTERM)
        assert not codes
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(TerminatedError):
            check()
    assert codes == [143]


def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with checked_interrupts() as check:
            signal.raise_signal(signal.SIGHUP)
            check()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_only_the_main_thread_has_handlers() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def act() -> None:
        with checked_interrupts():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    assert seen == [before]
