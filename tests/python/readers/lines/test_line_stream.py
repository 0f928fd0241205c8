"""Lines can be put back, and a look ahead returns each line once."""

import pytest

from busbw.readers.lines.line_stream import LineStream


def test_lines_are_taken_again_after_they_are_put_back() -> None:
    stream = LineStream(f"{number}\n".encode() for number in range(1, 6))
    taken = [next(stream) for _ in range(3)]
    stream.put_back(taken[1:])
    assert list(stream) == [(number, f"{number}\n".encode()) for number in range(2, 6)]
    with pytest.raises(StopIteration):
        next(stream)


def test_a_look_ahead_returns_new_lines_only() -> None:
    stream = LineStream(f"{number}\n".encode() for number in range(1, 700))
    first = next(stream)
    assert stream.look_ahead() == [f"{number}\n" for number in range(2, 514)]
    taken = [next(stream) for _ in range(10)]
    stream.put_back([first, *taken][-4:])
    assert stream.look_ahead() == [f"{number}\n" for number in range(514, 520)]
    assert [next(stream)[0] for _ in range(4)] == [8, 9, 10, 11]
    assert stream.look_ahead() == [f"{number}\n" for number in range(520, 524)]
    assert [number for number, _ in stream] == list(range(12, 700))
