"""The store: folders, names, and an index that follows them whatever happens to it."""

import fcntl
import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest
from conftest import GOLDEN_RECORD

from busbw import records
from busbw.errors import UsageError
from busbw.store import (
    RECORDS,
    Filter,
    Index,
    RunFile,
    count_points,
    count_runs,
    entries,
    find,
    list_points,
    list_runs,
    new_run,
    run_name,
    write_run_file,
)
from busbw.store.index import INDEX, LOCK
from busbw.store.rows import parse_time_s

GOLDEN_TEXT = GOLDEN_RECORD.parent / "nccl_tests_2_19_6_single.txt"
MOMENT = datetime(2026, 10, 1, 12, 0, 5, tzinfo=timezone.utc)


def add_run(store: Path, name: str, **header: object) -> Path:
    """A run like the golden one, with another header."""
    first, *rest = GOLDEN_RECORD.read_text().splitlines()
    folder = store / name
    folder.mkdir(parents=True)
    changed = {**json.loads(first), **header}
    (folder / RECORDS).write_text("\n".join([json.dumps(changed), *rest, ""]))
    return folder / RECORDS


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "kept"
    for day in (1, 2, 3):
        name = f"2026100{day}T120000Z-all_reduce"
        add_run(folder, name, start_time=f"2026-10-0{day}T12:00:00+00:00", backend_version=f"0.{day}")
    return folder


def names(store: Path, **wanted: object) -> list[str]:
    with Index(store) as index:
        assert index.messages == []
        found = index.query(lambda connection: list_runs(connection, Filter(**wanted)))  # type: ignore[arg-type]
        count = index.query(lambda connection: count_runs(connection, Filter(**wanted)))  # type: ignore[arg-type]
        assert count == len(found)
    return [run.name for run in found]


# ---- folders ---------------------------------------------------------------------------------------------------------


def test_a_name_sorts_by_time() -> None:
    assert run_name(MOMENT, "all_reduce") == "20261001T120005Z-all_reduce"


def test_runs_that_begin_at_once_get_a_folder_each(tmp_path: Path) -> None:
    made: list[Path] = []
    begin = threading.Barrier(16)

    def make() -> None:
        begin.wait()
        made.append(new_run(tmp_path / "kept", "same"))

    threads = [threading.Thread(target=make) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 16
    assert all(path.is_dir() for path in made)


def test_a_store_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file/kept.*--records FILE"):
        new_run(tmp_path / "file" / "kept", "x")


def test_what_was_typed_is_written_whole(tmp_path: Path) -> None:
    write_run_file(tmp_path, RunFile(command=["run"], started="2026-10-01T12:00:00+00:00"))
    write_run_file(tmp_path, RunFile(command=["run"], started="2026-10-01T12:00:00+00:00", exit_code=137))
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    assert json.loads((tmp_path / "run.json").read_text())["exit_code"] == 137


def test_entries_are_run_folders_and_logs(store: Path) -> None:
    (store / "empty").mkdir()
    (store / ".hidden.txt").write_text("")
    (store / "picture.png").write_bytes(b"")
    shutil.copy(GOLDEN_TEXT, store / "theirs.txt")
    assert sorted(entry.name for entry in entries(store))[3:] == ["theirs.txt"]
    assert {entry.log.name for entry in entries(store)} == {RECORDS, "theirs.txt"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("20261002T120000Z-all_reduce", "20261002T120000Z-all_reduce"),
        ("20261002", "20261002T120000Z-all_reduce"),
        ("last", "20261003T120000Z-all_reduce"),
        ("last~0", "20261003T120000Z-all_reduce"),
        ("last~2", "20261001T120000Z-all_reduce"),
    ],
)
def test_a_run_is_found_by_its_name(store: Path, text: str, name: str) -> None:
    shutil.copy(GOLDEN_TEXT, store / "theirs.txt")
    assert find(text, store) == store / name / RECORDS


def test_a_path_is_found_as_it_is(store: Path, tmp_path: Path) -> None:
    folder = store / "20261002T120000Z-all_reduce"
    assert find(str(folder), tmp_path) == folder / RECORDS
    assert find(str(GOLDEN_TEXT), store) == GOLDEN_TEXT
    assert find("-", store) == Path("-")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("2026", ["3 runs", "20261001T120000Z-all_reduce", "more of the name"]),
        ("nothing", ["neither a file nor a run", "busbw runs"]),
        ("last~3", ["has 3"]),
    ],
)
def test_an_ambiguous_name_is_refused(store: Path, text: str, pieces: list[str]) -> None:
    with pytest.raises(UsageError) as error:
        find(text, store)
    assert all(piece in str(error.value) for piece in pieces), error.value


def test_last_of_an_empty_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has none"):
        find("last", tmp_path / "not there")


# ---- the index -------------------------------------------------------------------------------------------------------


def test_it_holds_what_the_records_hold(store: Path) -> None:
    """Against a plain reading of the same file."""
    expected = {
        (
            row.dtype,
            row.size_bytes,
            "unstated" if row.lifecycle else row.placement,
            row.time_us,
            row.busbw_gbps,
            row.check.wrong_elements,
        )
        for row in records.read(GOLDEN_RECORD).rows
    }
    with Index(store) as index:
        points = index.query(lambda connection: list(list_points(connection, Filter())))
        assert index.query(lambda connection: count_points(connection, Filter())) == len(points)
    for name in {point.name for point in points}:
        found = {
            (point.dtype, point.size_bytes, point.placement, point.time_us, point.busbw_gbps, point.wrong_elements)
            for point in points
            if point.name == name
        }
        assert found == expected


@pytest.mark.parametrize(
    ("wanted", "days"),
    [
        ({}, [3, 2, 1]),
        ({"collective": "all_reduce"}, [3, 2, 1]),
        ({"collective": "all_gather"}, []),
        ({"backend": "host"}, [3, 2, 1]),
        ({"backend": "hos"}, []),
        ({"library": "HOST 0.2"}, [2]),
        ({"host": "vm"}, [3, 2, 1]),
        ({"host": "v"}, []),
        ({"device": "epyc"}, [3, 2, 1]),
        ({"device": "H100"}, []),
        ({"device": "vm"}, []),
        ({"host_or_device": "epyc"}, [3, 2, 1]),
        ({"host_or_device": "vm"}, [3, 2, 1]),
        ({"ranks": 4}, [3, 2, 1]),
        ({"ranks": 5}, []),
        ({"dtype": "double"}, []),
        ({"since_s": datetime(2026, 10, 2, 12, tzinfo=timezone.utc).timestamp()}, [3, 2]),
        ({"until_s": datetime(2026, 10, 2, 12, tzinfo=timezone.utc).timestamp()}, [1]),
        ({"min_bytes": 1 << 40}, []),
    ],
)
def test_filters(store: Path, wanted: dict[str, object], days: list[int]) -> None:
    assert names(store, **wanted) == [f"2026100{day}T120000Z-all_reduce" for day in days]


def test_points_are_filtered_by_size_and_placement(store: Path) -> None:
    wanted = Filter(placement="in_place", max_bytes=8, min_bytes=8)
    with Index(store) as index:
        points = index.query(lambda connection: list(list_points(connection, wanted)))
    assert {(point.placement, point.size_bytes) for point in points} == {("in_place", 8)}


def test_it_follows_the_folders(store: Path) -> None:
    assert len(names(store)) == 3
    add_run(store, "20261004T120000Z-all_reduce", start_time="2026-10-04T12:00:00+00:00")
    shutil.rmtree(store / "20261001T120000Z-all_reduce")
    assert [name[:8] for name in names(store)] == ["20261004", "20261003", "20261002"]


def test_a_run_that_goes_on_is_read_again(store: Path) -> None:
    path = store / "20261003T120000Z-all_reduce" / RECORDS
    whole = path.read_text().splitlines(keepends=True)
    path.write_text("".join(whole[:-1]))
    with Index(store) as index:
        assert index.query(lambda connection: list_runs(connection, Filter()))[0].complete is False
    path.write_text("".join(whole))
    with Index(store) as index:
        assert index.query(lambda connection: list_runs(connection, Filter()))[0].complete is True


def test_what_did_not_change_is_not_read_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names(store)
    monkeypatch.setattr("busbw.readers.read", lambda path: pytest.fail(f"{path} was read again"))
    assert len(names(store)) == 3


def test_files_that_cannot_be_read_are_named_and_hide_nothing(store: Path) -> None:
    (store / "notes.txt").write_text("buy milk\n")
    (store / "broken").mkdir()
    (store / "broken" / RECORDS).write_text('{"kind":"run"}\n')
    with Index(store) as index:
        assert [name for name, _ in index.problems()] == ["broken", "notes.txt"]
    assert len(names(store)) == 3


def test_a_log_without_a_time_has_that_of_its_file(store: Path) -> None:
    shutil.copy(GOLDEN_TEXT, store / "theirs.txt")
    os.utime(store / "theirs.txt", (1e9, 1e9))
    with Index(store) as index:
        run = index.query(lambda connection: list_runs(connection, Filter()))[-1]
    assert (run.name, run.time_s, run.time_source) == ("theirs.txt", 1e9, "file")


def test_no_store_has_no_runs_and_is_not_made(tmp_path: Path) -> None:
    assert names(tmp_path / "none") == []
    assert list(tmp_path.iterdir()) == []


DAMAGES: dict[str, Callable[[Path], object]] = {
    "text": lambda path: path.write_text("this is no database, " * 1000),
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "zeros in the middle": lambda path: path.write_bytes(
        path.read_bytes()[:4096] + bytes(path.stat().st_size - 8192) + path.read_bytes()[-4096:]
    ),
    "another version": lambda path: _set_version(path, 99),
}


def _set_version(path: Path, version: int) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_rebuilt_with_a_message(store: Path, damage: str) -> None:
    assert len(names(store)) == 3
    DAMAGES[damage](store / INDEX)
    with Index(store) as index:
        found = index.query(lambda connection: list_runs(connection, Filter()))
        messages = index.messages
    assert len(found) == 3
    if damage in ("text", "half", "zeros in the middle"):
        assert len(messages) == 1
        assert "damaged" in messages[0]
        assert "rebuilt" in messages[0]
    assert len(names(store)) == 3


def test_a_read_only_store_is_indexed_in_memory(store: Path) -> None:
    (store / ".index.lock").mkdir()  # stands for a folder without the right to write: root has every right
    with Index(store) as index:
        assert len(index.query(lambda connection: list_runs(connection, Filter()))) == 3
        assert "cannot be stored" in index.messages[0]
    assert not (store / INDEX).exists()


def _open_and_count(store: str) -> int:
    with Index(Path(store)) as index:
        return index.query(lambda connection: count_runs(connection, Filter()))


def test_many_processes_at_once(store: Path) -> None:
    for number in range(60):
        add_run(store, f"20261101T1200{number:02}Z-all_reduce")
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert pool.map(_open_and_count, [str(store)] * 8) == [63] * 8


@pytest.mark.parametrize("wait_s", [0.0, 0.1, 0.3])
def test_a_kill_in_the_middle_leaves_a_good_index(store: Path, wait_s: float) -> None:
    for number in range(300):
        add_run(store, f"2026{1 + number // 60:02}01T12{number % 60:02}00Z-all_reduce-{number}")
    code = (
        f"from pathlib import Path\nfrom busbw.store import Index\nprint('up', flush=True)\nIndex(Path({str(store)!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(wait_s)
        process.send_signal(signal.SIGKILL)
    assert len(names(store)) == 303


def test_rebuilding_gives_the_same(store: Path) -> None:
    before = names(store)
    with Index(store, rebuild=True) as index:
        assert [run.name for run in index.query(lambda connection: list_runs(connection, Filter()))] == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-10-01T12:00:00+02:00", 1790848800),
        ("2026-10-01T10:00:00Z", 1790848800),
        ("2026-10-01 10:00:00", 1790848800),
        ("Thu Oct  1 10:00:00 2026", 1790848800),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_times(text: str | None, expected: float | None) -> None:
    assert parse_time_s(text) == expected


def test_other_files_do_not_block(store: Path) -> None:
    os.mkfifo(store / "a.log")
    with Index(store) as index:
        assert len(index.query(lambda connection: list_runs(connection, Filter()))) == 3
        assert index.problems() == []


def test_a_name_that_is_no_text_is_shown_in_another_way(store: Path) -> None:
    (store / os.fsdecode(b"a\xff b.log")).write_bytes(GOLDEN_TEXT.read_bytes())
    with Index(store) as index:
        found = index.query(lambda connection: list_runs(connection, Filter()))
    assert {run.name for run in found} > {"a\\xff b.log"}


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"])
def test_an_invalid_time_is_replaced_by_that_of_the_file(store: Path, time: str) -> None:
    assert parse_time_s(time) is None
    path = add_run(store, "odd", start_time=time)
    os.utime(path, (1e9, 1e9))
    with Index(store) as index:
        (odd,) = (run for run in index.query(lambda connection: list_runs(connection, Filter())) if run.name == "odd")
    assert (odd.time_s, odd.time_source) == (1e9, "file")


def test_a_lock_held_too_long_is_skipped(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbw.store.index._LOCK_LIMIT_S", 0)
    with (store / LOCK).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with Index(store) as index:
            assert len(index.query(lambda connection: list_runs(connection, Filter()))) == 3
            assert "another process has held" in index.messages[0]
