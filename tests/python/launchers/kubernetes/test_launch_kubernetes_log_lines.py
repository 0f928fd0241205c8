"""A log that is read in pieces, again and again from where the connection was lost, is whole and has nothing twice."""

from hypothesis import given
from hypothesis import strategies as st

from busbw.launchers.kubernetes.log_lines import LogDeduplicator


def stamp(time_ns: int) -> str:
    """As container runtimes write it, without zeros at the end."""
    fraction = f".{time_ns % 10**9:09d}".rstrip("0").rstrip(".")
    return f"2026-11-21T10:00:{time_ns // 10**9:02d}{fraction}Z"


def served(log: list[tuple[int, bytes]], since: str) -> list[bytes]:
    """Answer of the API for a start time: all lines from that second on, with timestamps."""
    first = int(since[17:19]) if since else 0
    return [f"{stamp(time_ns)} ".encode() + line for time_ns, line in log if time_ns // 10**9 >= first]


@given(
    times=st.lists(st.integers(0, 5 * 10**9), max_size=30).map(sorted),
    cuts=st.lists(st.integers(0, 12), max_size=20),
)
def test_each_line_comes_once_and_in_order(times: list[int], cuts: list[int]) -> None:
    log = [(time_ns, b"line %d\n" % number) for number, time_ns in enumerate(times)]
    joiner = LogDeduplicator()
    found: list[bytes] = []
    for cut in [*cuts, len(log)]:
        joiner.on_reconnect()
        # Every connection is cut after some lines, but brings at least one more than it has to repeat.
        pieces = served(log, joiner.since)
        found += [line for piece in pieces[: cut or 1] if (line := joiner.deduplicate(piece)) is not None]
    joiner.on_reconnect()
    found += [line for piece in served(log, joiner.since) if (line := joiner.deduplicate(piece)) is not None]
    assert found == [line for _, line in log]


@given(st.integers(1, 8), st.integers(0, 8))
def test_lines_with_equal_timestamps_are_counted(count: int, taken: int) -> None:
    log = [(10**9, b"same\n")] * count
    joiner = LogDeduplicator()
    first = [joiner.deduplicate(piece) for piece in served(log, "")[:taken]]
    joiner.on_reconnect()
    second = [line for piece in served(log, joiner.since) if (line := joiner.deduplicate(piece)) is not None]
    assert len(first) + len(second) == count


def test_lines_keep_their_bytes() -> None:
    joiner = LogDeduplicator()
    assert joiner.deduplicate(b"2026-11-21T10:00:00.5Z  8  \xff {\n") == b" 8  \xff {\n"
    assert joiner.deduplicate(b"2026-11-21T10:00:01Z \n") == b"\n"
    assert joiner.since == "2026-11-21T10:00:01Z"


def test_zones_other_than_utc() -> None:
    joiner = LogDeduplicator()
    assert joiner.deduplicate(b"2026-11-21T18:00:00.123456789+08:00 a\n") == b"a\n"
    assert joiner.since == "2026-11-21T18:00:00.123456789+08:00"


def test_a_line_without_a_timestamp_is_the_servers() -> None:
    assert (
        LogDeduplicator().deduplicate(b"unable to retrieve container logs\n") == b"unable to retrieve container logs\n"
    )
