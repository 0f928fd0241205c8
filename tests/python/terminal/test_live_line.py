"""Status lines of a command that has no terminal."""

import sys

import pytest

from busbw.terminal import live_line


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Returns a list with the current time as its only element."""
    now_s = [100.0]
    monkeypatch.setattr(sys.modules[live_line.__module__], "monotonic", lambda: now_s[0])
    return now_s


def test_without_a_terminal_a_text_is_printed_once_per_interval(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with live_line(plain_interval_s=10) as draw:
        for now_s in (100, 109, 110, 119, 131, 140):
            clock[0] = now_s
            draw(f"at {now_s}")
    assert capsys.readouterr().err == "busbw: at 110\nbusbw: at 131\n"


def test_without_an_interval_nothing_is_printed(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with live_line() as draw:
        draw("now")
        clock[0] += 1000
        draw("later")
    assert capsys.readouterr().err == ""
