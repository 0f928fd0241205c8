"""What termination and hang-up do to a command."""

import signal
import threading

import pytest

from busbw.cli.ending import ended_like_interrupted
from busbw.cli.main import main
from busbw.errors import EndedError, code_of_interrupt


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_an_interrupt_with_a_code_of_its_own(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt) as ended, ended_like_interrupted():
        signal.raise_signal(number)
    assert code_of_interrupt(ended.value) == 128 + number
    assert signal.getsignal(number) is before


def test_a_command_that_lets_it_through_has_that_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(*_arguments: object) -> None:
        with ended_like_interrupted():
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("busbw.cli.runs.default_folder", measured)
    assert main(["runs"]) == 128 + signal.SIGTERM


def test_the_second_does_not_cut_off_what_the_first_brings_about() -> None:
    with ended_like_interrupted():
        with pytest.raises(EndedError):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)


def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_like_interrupted():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_ctrl_c_is_python_s() -> None:
    with ended_like_interrupted():
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert code_of_interrupt(KeyboardInterrupt()) == 130


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
