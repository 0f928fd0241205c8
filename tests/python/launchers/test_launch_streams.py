"""Output of the processes of a job, split into table, records and messages."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.cli.launch.error_lines import ErrorLineMerger, format_ranges
from busbw.cli.launch.output_splitter import OutputSplitter, RecordFile
from busbw.cli.launch.plain_progress import PlainProgress
from busbw.errors import BusbwError, UsageError


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


# ---- stderr ---------------------------------------------------------------------------------------------------------


def said(lines: list[tuple[bytes, int | str | None]]) -> list[str]:
    heard: list[str] = []
    errors = ErrorLineMerger(heard.append)
    for line, who in lines:
        errors.add_line(line, who)
    errors.flush(at_end=True)
    return heard


def test_a_line_names_its_process() -> None:
    assert said([(b"here\n", 3), (b"there\n", "node1"), (b"somewhere\n", None)]) == [
        "[3] here",
        "[node1] there",
        "somewhere",
    ]


def test_equal_lines_of_several_processes_are_shown_once() -> None:
    lost = b"busbw: rank 2 on node1 was lost\n"
    assert said([(lost, 5), (lost, 0), (lost, 1), (b"other\n", 0), (lost, 3), (lost, "node7")]) == [
        "[0-1,3,5,node7] busbw: rank 2 on node1 was lost",
        "[0] other",
    ]


def test_repeated_lines_of_one_process_are_counted() -> None:
    assert said([(b"again\n", 0)] * 3) == ["[0] again (3 times)"]
    assert said([(b"again\n", None)] * 2) == ["again (2 times)"]
    assert said([(b"once\n", None)]) == ["once"]


def test_rules_and_empty_lines_stay_where_they_are() -> None:
    lines = ["-----", "text", "", "more", "-----"]
    assert said([(f"{line}\n".encode(), None) for line in lines]) == lines


def test_empty_lines_are_not_merged_after_some_lines_were_printed() -> None:
    heard: list[str] = []
    clock = Clock()
    errors = ErrorLineMerger(heard.append, now_s=clock)
    errors.add_line(b"\n", None)
    clock.now_s = 0.1
    errors.add_line(b"text\n", None)
    clock.now_s = 0.3
    errors.add_line(b"\n", None)
    clock.now_s = 0.55
    errors.flush(at_end=False)
    errors.add_line(b"\n", None)
    errors.flush(at_end=True)
    assert heard == ["", "text", "", ""]


def test_nothing_in_a_line_controls_the_terminal() -> None:
    assert said([(b"\x1b[2Jclear\xff\tx\r\n", 0)]) == ["[0] ?[2Jclear�    x"]


def test_lines_are_held_for_a_moment_only_and_keep_their_order() -> None:
    heard: list[str] = []
    clock = Clock()
    errors = ErrorLineMerger(heard.append, now_s=clock)
    errors.add_line(b"first\n", 0)
    clock.now_s = 0.3
    errors.add_line(b"second\n", 0)
    errors.add_line(b"first\n", 1)
    errors.flush(at_end=False)
    assert heard == []
    clock.now_s = 0.6
    errors.flush(at_end=False)
    assert heard == ["[0-1] first"]
    clock.now_s = 1.0
    errors.flush(at_end=False)
    assert heard == ["[0-1] first", "[0] second"]


@given(st.sets(st.integers(0, 200)))
def test_ranges_name_each_number_once(numbers: set[int]) -> None:
    found: list[int] = []
    for part in filter(None, format_ranges(numbers).split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    assert found == sorted(numbers)


# ---- stdout ---------------------------------------------------------------------------------------------------------


def test_records_and_table_are_separated(tmp_path: Path) -> None:
    table: list[bytes] = []
    doubts: list[str] = []
    with RecordFile(tmp_path / "out.jsonl") as records:
        first = OutputSplitter(records, table.append, doubts.append)
        for line in [b"# head\n", b'{"kind":"run"}\n', b"  8 row\n", b"\n", b'{"kind":"end"}', b"\xff\n"]:
            first.add_line(line)
    assert table == [b"# head\n", b"  8 row\n", b"\n", b"\xff\n"]
    assert doubts == []
    assert (tmp_path / "out.jsonl").read_bytes() == b'{"kind":"run"}\n{"kind":"end"}\n'


def test_a_truncated_record_is_dropped_and_reported_once(tmp_path: Path) -> None:
    doubts: list[str] = []
    with RecordFile(tmp_path / "r.jsonl") as records:
        first = OutputSplitter(records, lambda _line: None, doubts.append)
        first.add_line(b'{"kind":"run"}\n')
        first.add_line(b'{"kind":"row","samples":[1,2\n')
        first.add_line(b'{"kind":"row","sam')
        first.add_line(b'{"kind":"end"}')
    assert (tmp_path / "r.jsonl").read_text() == '{"kind":"run"}\n{"kind":"end"}\n'
    (doubt,) = doubts
    assert doubt.startswith(f"busbw: an incomplete record of process 0 is not in {tmp_path / 'r.jsonl'}")


def test_a_record_is_on_disk_at_once(tmp_path: Path) -> None:
    with RecordFile(tmp_path / "out.jsonl") as records:
        records.write(b"{}\n")
        assert (tmp_path / "out.jsonl").read_bytes() == b"{}\n"


def test_a_file_without_records_is_not_kept(tmp_path: Path) -> None:
    with RecordFile(tmp_path / "out.jsonl"):
        assert (tmp_path / "out.jsonl").exists()
    assert not (tmp_path / "out.jsonl").exists()


def test_an_empty_file_of_a_killed_launch_is_taken(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").touch()
    with RecordFile(tmp_path / "out.jsonl") as records:
        with pytest.raises(UsageError, match="exists already"), RecordFile(tmp_path / "out.jsonl"):
            pass  # the other launch has not written yet
        records.write(b"{}\n")
    assert (tmp_path / "out.jsonl").read_bytes() == b"{}\n"


def test_a_full_disk_leaves_no_part_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part would look like a run that was killed."""
    capacity = 40

    def write(descriptor: int, data: memoryview) -> int:
        free = capacity - os.fstat(descriptor).st_size
        if free <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os_write(descriptor, data[:free])

    os_write = os.write
    monkeypatch.setattr(os, "write", write)
    with RecordFile(tmp_path / "out.jsonl") as records:
        records.write(b'{"kind":"run"}\n')
        with pytest.raises(BusbwError, match="No space left on device; its earlier lines are kept; free space"):
            records.write(b'{"kind":"row","a":"%s"}\n' % (b"b" * 100))
    assert (tmp_path / "out.jsonl").read_bytes() == b'{"kind":"run"}\n'


def test_an_existing_file_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("old")
    with pytest.raises(UsageError, match=r"out\.jsonl exists already"), RecordFile(tmp_path / "out.jsonl"):
        pass
    assert (tmp_path / "out.jsonl").read_text() == "old"
    with pytest.raises(UsageError, match="No such file"), RecordFile(tmp_path / "no" / "out.jsonl"):
        pass


# ---- waiting --------------------------------------------------------------------------------------------------------


def test_a_long_wait_is_shown() -> None:
    heard: list[str] = []
    clock = Clock()
    progress = PlainProgress(heard.append, now_s=clock)
    progress.set_status("waiting: 2 of 4 tasks pending (Resources)")
    clock.now_s = 1.9
    progress.refresh()
    assert heard == []
    clock.now_s = 2.0
    for _ in range(3):
        progress.refresh()
    assert heard == ["busbw: waiting: 2 of 4 tasks pending (Resources)"]
    progress.set_status("waiting: 1 of 4 tasks pending (Priority)")
    clock.now_s = 3.9
    progress.refresh()
    assert len(heard) == 1
    clock.now_s = 4.0
    progress.refresh()
    assert heard[1:] == ["busbw: waiting: 1 of 4 tasks pending (Priority)"]


def test_a_short_wait_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    clock = Clock()
    progress = PlainProgress(heard.append, now_s=clock)
    progress.set_status("starting")
    clock.now_s = 1.0
    with os.fdopen(os.dup(1), "wb"):
        progress.print_line(b"# the table\n")
    clock.now_s = 9.0
    progress.refresh()
    progress.set_status("ending")
    clock.now_s = 10.0
    progress.refresh()
    assert heard == []
    assert capfd.readouterr().out == "# the table\n"
