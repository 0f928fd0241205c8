"""`busbw fastpath`: with an engine that answers with made-up times, by size and by the table that it is given."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import BUSBW, GOLDEN_RECORD, one_sentence
from polling import HANG_GUARD_S, wait_until

from busbw.cli.main import main
from busbw.errors import ExitCode
from busbw.fastpath.run_folder import locked_folder
from busbw.fastpath.table import parse
from busbw.support.json_output import SCHEMA_VERSION

# NCCL takes 10 us and 20 us a MiB. An exchange takes 4 us and moves 4 MiB a ms for each block, up to 8 blocks, a
# two_shot 6 us and 20 MiB a ms up to 64 blocks; half the threads, half of that. Beyond 32 blocks both take 3 us more.
# In windows (-R 2) NCCL takes 8 us and 12 us a MiB, and direct 6 us and 25 MiB a ms for each block.
ENGINE = f"""#!{sys.executable}
import json, os, sys
from pathlib import Path
words = sys.argv[1:]
if words == ["--world"]:
    print("0 1 none")
    sys.exit()
if words == ["--list-devices"]:
    print(os.environ.get("FAKE_DEVICES", "0 0000:00:06 NVIDIA H200\\n1 0000:00:07 NVIDIA H200"))
    sys.exit(0)
folder = Path(sys.argv[0]).parent
with (folder / "log").open("a") as log:
    print(Path(sys.argv[0]).name, *words, file=log)
if len((folder / "log").read_text().splitlines()) == int(os.environ.get("FAKE_HANG_AT", "0")):
    import time
    time.sleep(600)
value = lambda flag: words[words.index(flag) + 1]
collective = Path(sys.argv[0]).name[:-5]
in_windows = "-R" in words and value("-R") == "2"
reaches_windows = in_windows and not os.environ.get("FAKE_NO_DIRECT")
if in_windows and os.environ.get("FAKE_NO_WINDOWS"):
    print("NCCL makes no symmetric window", file=sys.stderr)
    sys.exit(3)
ranges = []
is_fast = os.environ.get("BUSBW_FASTPATH") == "on" and "--library" in words and "libbusbw_nccl.so" in value("--library")
if is_fast and not os.environ.get("FAKE_NO_NVLINK"):
    if forced := os.environ["BUSBW_FASTPATH_METHOD"]:
        method, blocks, threads = forced.split(",")
        if method != "direct" or reaches_windows:
            ranges.append((1 << 60, method, int(blocks), int(threads)))
    table = os.environ["BUSBW_FASTPATH_TABLE"]
    for line in Path(table).read_text().splitlines() if table else []:
        parts = line.split("#")[0].split()
        if "windows" in parts:
            parts.remove("windows")
            if not reaches_windows:
                continue
        if parts and parts[0] == collective and parts[1] == "ranks=" + value("-t"):
            number, unit = parts[2][6:], 1
            if number[-1] in "KM":
                number, unit = number[:-1], dict(K=1024, M=1024**2)[number[-1]]
            given = dict(part.split("=") for part in parts[4:])
            ranges.append((int(number) * unit, parts[3], int(given.get("blocks", 0)), int(given.get("threads", 0))))
lines = Path({str(GOLDEN_RECORD)!r}).read_text().splitlines()
header, row = json.loads(lines[0]), next(json.loads(line) for line in lines if '"kind":"row"' in line)
end = next(json.loads(line) for line in lines if '"kind":"end"' in line)
header["machine"]["driver"] = "580.95.05"
header["ranks"] = [
    header["ranks"][0] | dict(rank=i, device=i, device_name="NVIDIA H200",
                              library=dict(version="2.28.9", path="/x", sha256=None))
    for i in range(int(value("-t")))
]
made = [header]
said = set()
for size in map(int, value("--sizes").split(",")):
    method, blocks, threads = next((rest for end_, *rest in ranges if size <= end_), ("nccl", 0, 0))
    mib = size / 2**20
    if method == "nccl":
        time_us = 10 + 20 * mib
        if in_windows:
            time_us = float(os.environ.get("FAKE_NCCL_IN_WINDOWS_US", 8 + 12 * mib))
    else:
        rates = dict(exchange=4 * min(blocks, 8), two_shot=20 * min(blocks, 64), direct=25 * blocks)
        rate = rates[method] * threads / 512
        time_us = dict(exchange=4, two_shot=6, direct=6)[method] + 1000 * mib / rate + (3 if blocks > 32 else 0)
        if method == os.environ.get("FAKE_FAILS"):
            print("no such thing", file=sys.stderr)
            sys.exit(3)
    said.add(f"{{collective}} half {{size}} bytes: {{method}} blocks={{blocks}} threads={{threads}}")
    if "-G" not in words:
        pipelines = method == "nccl" and size == int(os.environ.get("FAKE_NCCL_PIPELINES", 0))
        time_us = 1.0 if pipelines else time_us + 3
    for placement in ("out_of_place", "in_place"):
        wrong = 3 if "-c" in words and value("-c") == "1" and method == os.environ.get("FAKE_WRONG") else 0
        check = dict(state="checked", wrong_elements=wrong, wrong_ranks=bool(wrong) * 1, policy="exact", first_wrong=[])
        made.append(row | dict(collective=collective, requested_bytes=size, size_bytes=size - size % 48, ranks=2,
                               together=None, skew=None, check=check,
                               placement=placement, time_us=99.0, device_time_us=time_us,
                               samples_us=[[99.0]] * 2, warnings=[]))
if is_fast:
    Path(os.environ["BUSBW_FASTPATH_LOG"]).write_text("\\n".join(said))
made.append(end | dict(exit_code=0, reason="completed", message=None))
Path(value("--records")).write_text("".join(json.dumps(each) + "\\n" for each in made))
"""

SIZES = "3K,48K,768K,12M"
WITH_WINDOWS = ("fastpath", "tune", "--sizes", SIZES, "--collective", "all_reduce")
TUNE = (*WITH_WINDOWS, "--no-windows")
BLOCKS = 1 + 2 * 3 + 3 + 1 + 2 + 1
"""NCCL, two methods in three shapes, three rounds beside the best, the chosen ones, these and NCCL launched one by one,
and NCCL again."""
IN_WINDOWS = BLOCKS + 3
"""One method more."""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Such an engine, and the name of a library beside it."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("busbw-engine", "all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "broadcast_perf"):
        (folder / name).write_text(ENGINE)
        (folder / name).chmod(0o755)
    (folder / "libbusbw_nccl.so").write_text("the engine here loads none")
    monkeypatch.setenv("BUSBW_PROGRAMS", str(folder))
    for name in ("LD_PRELOAD", "BUSBW_FASTPATH", "BUSBW_FASTPATH_TABLE"):
        monkeypatch.delenv(name, raising=False)
    return folder


class Done(NamedTuple):
    """Output and exit code of a command."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


@pytest.fixture
def busbw(here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command in this process, which is faster than starting one, and as good but for signals."""

    def call(*words: str, environment: dict[str, str] | None = None) -> Done:
        capfd.readouterr()
        with monkeypatch.context() as patched:
            for name, value in (environment or {}).items():
                patched.setenv(name, value)
            code = main(list(words))
        return Done(code, *capfd.readouterr())

    return call


def calls(programs: Path) -> list[str]:
    return (programs / "log").read_text().splitlines() if (programs / "log").exists() else []


def test_a_tuning_measures_chooses_and_writes(busbw: Command, here: Path, programs: Path) -> None:
    done = busbw(*TUNE, "--output", "mine.table")
    assert done.returncode == 0, done.stderr
    assert len(calls(programs)) == BLOCKS
    assert all("-t 2 -d half --sizes 3072,49152,786432,12582912" in call for call in calls(programs))
    launched_one_by_one = [call for call in calls(programs) if " -G " not in call]
    assert ["--library" in call for call in launched_one_by_one] == [True, False]  # the chosen ones and NCCL
    assert [" -c 1 " in f"{call} " for call in calls(programs)].count(True) == 1
    text = (here / "mine.table").read_text()
    found = parse(text, "mine.table")
    assert [(each.up_to_bytes, each.method, each.blocks, each.threads) for each in found] == [
        (3072, "exchange", 16, 512),
        (786432, "two_shot", 32, 256),
        (12582912, "two_shot", 64, 256),
    ]
    assert f"{found[2].text}  # 27.75 us, NCCL 250.00 us; launched one by one 30.75 us, NCCL 253.00 us\n" in text
    for words in ("2 x NVIDIA H200", "580.95.05", "NCCL 2.28.9", "half", "SHA-256", "fast path at 4 of 4 sizes"):
        assert words in text
    assert f"BUSBW_FASTPATH_TABLE={here}/mine.table" in done.stdout
    assert "all_reduce, 2 ranks: chosen" in done.stderr
    (kept,) = (here / "busbw-records").iterdir()
    assert (kept / "fastpath.table").read_text() == text
    assert len(list(kept.glob("2-ranks/*.jsonl"))) == BLOCKS


def test_the_table_names_the_largest_number_of_ranks(busbw: Command, here: Path, programs: Path) -> None:
    devices = "\n".join(f"{number} 0000:00:0{number} NVIDIA H200" for number in range(4))
    done = busbw(*TUNE, "--ranks", "4,2", environment={"FAKE_DEVICES": devices})
    assert done.returncode == 0, done.stderr
    assert "# Measured on 4 x NVIDIA H200" in (here / "fastpath.table").read_text()


def test_where_nccl_is_as_fast_it_is_left_to_it(busbw: Command, here: Path, programs: Path) -> None:
    done = busbw("fastpath", "tune", "--sizes", "1K,96M", "--collective", "all_gather", "--no-windows")
    assert done.returncode == 0, done.stderr
    assert all("-d half" not in call for call in calls(programs))  # it moves bytes
    (line,) = parse((here / "fastpath.table").read_text(), "t")
    assert (line.collective, line.up_to_bytes, line.method) == ("all_gather", 1024, "exchange")


def test_what_nccl_does_faster_launched_one_by_one_is_left_to_it(busbw: Command, here: Path, programs: Path) -> None:
    """As its broadcasts of some MiB, which in graphs take longer."""
    done = busbw(*WITH_WINDOWS, environment={"FAKE_NCCL_PIPELINES": "12582912"})
    assert done.returncode == 0, done.stderr
    found = parse((here / "fastpath.table").read_text(), "t")
    assert [each.up_to_bytes for each in found if not each.in_windows] == [3072, 786432]
    assert [each.up_to_bytes for each in found if each.in_windows] == [3072, 49152, 786432]
    assert "all_reduce, 2 ranks: fast path at 3 of 4 sizes, up to 768 KiB" in done.stdout


def test_windows_are_tuned_apart_beside_nccl_in_windows(busbw: Command, here: Path, programs: Path) -> None:
    done = busbw(*WITH_WINDOWS, "--records-folder", "kept")
    assert done.returncode == 0, done.stderr
    assert [" -R 2 " in call for call in calls(programs)] == [False] * BLOCKS + [True] * IN_WINDOWS
    assert sum("--library" not in call for call in calls(programs)[BLOCKS:]) == 3  # plain NCCL, with -R 2 too
    text = (here / "fastpath.table").read_text()
    found = parse(text, "t")
    assert [(each.up_to_bytes, each.method, each.blocks) for each in found if not each.in_windows] == [
        (3072, "exchange", 16),
        (786432, "two_shot", 32),
        (12582912, "two_shot", 64),
    ]
    assert [(each.up_to_bytes, each.method, each.blocks) for each in found if each.in_windows] == [
        (3072, "exchange", 16),
        (49152, "direct", 32),
        (12582912, "direct", 128),
    ]
    assert f"{found[-1].text}  # 16.50 us, NCCL 152.00 us; launched one by one 19.50 us, NCCL 155.00 us\n" in text
    assert "# Lines for windows: measured with buffers in symmetric windows (-R 2), also for NCCL.\n" in text
    assert "all_reduce, 2 ranks: fast path at 4 of 4 sizes" in text
    assert "all_reduce, 2 ranks, in windows: fast path at 4 of 4 sizes" in done.stdout
    assert "all_reduce, 2 ranks, in windows: direct 16x256" in done.stderr
    assert len(list((here / "kept/2-ranks").glob("*.jsonl"))) == BLOCKS
    assert len(list((here / "kept/2-ranks-windows").glob("*.jsonl"))) == IN_WINDOWS
    assert json.loads((here / "kept/tuning.json").read_text())["sizes_in_windows_bytes"] == [
        *(3072, 49152, 786432, 12582912)
    ]
    # All of it is there.
    assert busbw(*WITH_WINDOWS, "--records-folder", "kept").returncode == 0
    assert len(calls(programs)) == BLOCKS + IN_WINDOWS
    assert (here / "fastpath.table").read_text().splitlines()[-3:] == text.splitlines()[-3:]


def test_the_tuning_prints_an_object(busbw: Command, here: Path, programs: Path) -> None:
    done = busbw("fastpath", "tune", "--sizes", "1K", "--collective", "all_gather", "--no-windows", "--json")
    assert done.returncode == 0, done.stderr
    fields = json.loads(done.stdout)
    assert next(iter(fields.items())) == ("schema_version", SCHEMA_VERSION)
    assert fields["table_file"] == str(here / "fastpath.table")
    (table_range,) = fields["ranges"]
    (written,) = parse((here / "fastpath.table").read_text(), "t")
    assert (table_range["up_to_bytes"], table_range["method"]) == (1024, written.method)


def test_the_path_as_an_object(busbw: Command, programs: Path) -> None:
    fields = json.loads(busbw("fastpath", "path", "--json").stdout)
    assert fields == {"schema_version": SCHEMA_VERSION, "library": busbw("fastpath", "path").stdout.strip()}


def test_windows_are_left_to_nccl_by_a_line_of_their_own(busbw: Command, here: Path, programs: Path) -> None:
    words = ("--sizes", "1K,1M", "--collective", "all_gather")
    done = busbw("fastpath", "tune", *words, environment={"FAKE_NCCL_IN_WINDOWS_US": "1"})
    assert done.returncode == 0, done.stderr
    found = parse((here / "fastpath.table").read_text(), "t")
    assert found[0].method == "exchange"
    assert found[-1].text == "all_gather ranks=2 windows up_to=1M nccl"
    assert [each.in_windows for each in found].count(True) == 1


def test_where_nccl_makes_no_windows_they_are_left_out(busbw: Command, here: Path, programs: Path) -> None:
    words = ("--sizes", "1K", "--collective", "all_gather", "--collective", "reduce_scatter")
    done = busbw("fastpath", "tune", *words, environment={"FAKE_NO_WINDOWS": "1"})
    assert done.returncode == 0, done.stderr
    assert "NCCL makes no symmetric window" in done.stderr
    assert done.stdout.count("2 ranks, in windows: skipped, because NCCL cannot run with -R 2") == 1
    assert [" -R 2 " in call for call in calls(programs)].count(True) == 1
    found = parse((here / "fastpath.table").read_text(), "t")
    assert [(each.collective, each.in_windows) for each in found] == [("all_gather", False), ("reduce_scatter", False)]
    assert "Lines for windows" not in (here / "fastpath.table").read_text()


def test_windows_that_the_fast_path_does_not_reach_are_left_out(busbw: Command, here: Path, programs: Path) -> None:
    done = busbw(*WITH_WINDOWS, "--records-folder", "kept", environment={"FAKE_NO_DIRECT": "1"})
    assert done.returncode == 0, done.stderr
    assert "2 ranks, in windows: skipped, because the fast path did not use them; " in done.stdout
    assert "kept/2-ranks-windows/all_reduce-direct-16x256.log for the reason" in done.stdout
    assert [" -R 2 " in call for call in calls(programs)].count(True) == 2
    assert not any(each.in_windows for each in parse((here / "fastpath.table").read_text(), "t"))


def test_a_shape_that_fails_in_windows_is_left_out_and_said(busbw: Command, here: Path, programs: Path) -> None:
    words = ("--sizes", "48K", "--collective", "reduce_scatter")
    done = busbw("fastpath", "tune", *words, environment={"FAKE_FAILS": "direct"})
    assert done.returncode == 0, done.stderr
    assert "reduce_scatter in windows direct-16x256 was skipped: the engine ended with exit code 3" in done.stdout
    found = parse((here / "fastpath.table").read_text(), "t")
    assert {each.method for each in found if each.in_windows} == {"exchange"}


def test_collectives_without_windows_are_not_tuned_in_them(busbw: Command, here: Path, programs: Path) -> None:
    done = busbw("fastpath", "tune", "--sizes", "48K", "--ranks", "2", "--collective", "broadcast")
    assert done.returncode == 0, done.stderr
    assert calls(programs)
    assert not any(" -R 2 " in call for call in calls(programs))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_is_stopped_goes_on(here: Path, programs: Path, busbw: Command, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [*BUSBW, *TUNE],
        cwd=here,
        env={**os.environ, "FAKE_HANG_AT": "5"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: len(calls(programs)) >= 5, "the fifth block")
    process.send_signal(number)
    _, stderr = process.communicate(timeout=HANG_GUARD_S)
    # The engine here heeds none; Python makes of the first what Ctrl-C is.
    assert process.returncode == (130 if number == signal.SIGINT else 143), stderr  # a hang-up counts as terminated
    assert len(calls(programs)) == 5
    assert "the same command resumes after the 4 blocks in " in stderr
    assert not (here / "fastpath.table").exists()
    done = busbw(*TUNE)
    assert done.returncode == 0, done.stderr
    assert "Resuming the tuning in " in done.stderr
    assert "4 blocks were measured earlier" in done.stderr
    assert len(calls(programs)) == 5 + BLOCKS - 4
    assert len(parse((here / "fastpath.table").read_text(), "t")) == 3
    # A finished tuning is not resumed.
    assert busbw(*TUNE, "--sizes", "3K").returncode == 0
    assert len(list((here / "busbw-records").iterdir())) == 2


def test_a_shape_that_fails_is_left_out_and_said(busbw: Command, here: Path, programs: Path) -> None:
    done = busbw(*TUNE, environment={"FAKE_FAILS": "two_shot"})
    assert done.returncode == 0, done.stderr
    assert "all_reduce two_shot-64x256 was skipped: the engine ended with exit code 3" in done.stdout
    assert {each.method for each in parse((here / "fastpath.table").read_text(), "t")} <= {"exchange", "nccl"}


def test_wrong_data_end_it_without_a_table(busbw: Command, here: Path, programs: Path) -> None:
    done = busbw(*TUNE, environment={"FAKE_WRONG": "exchange"})
    assert done.returncode == ExitCode.WRONG_DATA
    assert "WRONG DATA: all_reduce with the fast path, first at 3 KiB out of place" in done.stderr
    assert not (here / "fastpath.table").exists()


def test_what_was_handed_over_is_not_measured_as_fast(busbw: Command, here: Path, programs: Path) -> None:
    done = busbw(*TUNE, environment={"FAKE_NO_NVLINK": "1"})
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "delegated every call to NCCL in all_reduce-exchange-16x256" in done.stderr
    assert "NVLink" in done.stderr
    assert not (here / "fastpath.table").exists()


def test_a_doubt_about_the_words_comes_before_what_is_missing_here(busbw: Command, here: Path, programs: Path) -> None:
    (programs / "libbusbw_nccl.so").unlink()
    done = busbw("fastpath", "tune", "--ranks", "99")
    assert done.returncode == 2
    assert "the fast path supports 2 to 8 ranks" in one_sentence(done.stderr)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--ranks", "1"), 2, "is not a list of distinct numbers from 2"),
        (("--ranks", "2,2"), 2, "is not a list of distinct numbers from 2"),
        (("--ranks", "two"), 2, "is not a list of distinct numbers from 2"),
        (("--ranks", "2,9"), 2, "the fast path supports 2 to 8 ranks"),
        (("--output", "none/x.table"), 3, "cannot write none/x.table: No such file or directory"),
        (("--output", "."), 3, "cannot write .: Is a directory"),
        (("--output", "a file/x.table"), 3, "cannot write a file/x.table: Not a directory"),
        (("--ranks", "3"), 3, "3 ranks need 3 GPUs, this machine has 2"),
        (("--sizes", "1K,x"), 2, "is not a list of distinct sizes"),
        (("--collective", "reduce"), 2, "reduce"),
        (("--library", "none.so"), 2, "none.so"),
        (("--records-folder", "."), 2, "contains other files"),
    ],
)
def test_a_doubt_is_one_sentence(
    busbw: Command, here: Path, programs: Path, words: tuple[str, ...], code: int, sentence: str
) -> None:
    (here / "a file").touch()
    done = busbw("fastpath", "tune", *words)
    assert done.returncode == code
    assert sentence in one_sentence(done.stderr)
    assert not calls(programs)
    assert not (here / "busbw-records").exists()


def test_of_more_gpus_than_ranks_can_be_the_most_are_taken(busbw: Command, programs: Path) -> None:
    gpus = "\n".join(f"{number} 0000:00:{number:02} NVIDIA H200" for number in range(16))
    done = busbw(*TUNE, environment={"FAKE_DEVICES": gpus})
    assert done.returncode == 0, done.stderr
    assert "all_reduce, 8 ranks: " in done.stdout


def test_one_tuning_at_a_time_measures_in_a_folder(busbw: Command, here: Path, programs: Path) -> None:
    assert busbw(*TUNE, "--records-folder", "kept").returncode == 0
    with locked_folder(here / "kept"):
        done = busbw(*TUNE, "--records-folder", "kept")
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "another tuning is running in kept; wait until it has finished" in done.stderr
    assert len(calls(programs)) == BLOCKS
    assert busbw(*TUNE, "--records-folder", "kept").returncode == 0


@pytest.mark.parametrize("damage", [b"\xff\xfe all_reduce", b""])
def test_a_damaged_table_of_a_block_is_measured_again(
    busbw: Command, here: Path, programs: Path, damage: bytes
) -> None:
    assert busbw(*TUNE, "--records-folder", "kept").returncode == 0
    (here / "kept/2-ranks/all_reduce-chosen.table").write_bytes(damage)
    done = busbw(*TUNE, "--records-folder", "kept")
    assert done.returncode == 0, done.stderr
    assert len(calls(programs)) == BLOCKS + 1


def test_without_gpus_there_is_nothing_to_tune(busbw: Command, programs: Path) -> None:
    done = busbw("fastpath", "tune", environment={"FAKE_DEVICES": "\n".join(["0 0000:00:06 NVIDIA H200"])})
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "needs at least two GPUs, this machine has one GPU" in one_sentence(done.stderr)


def test_the_path_is_that_of_the_installed_library(busbw: Command, programs: Path) -> None:
    assert busbw("fastpath", "path").stdout == f"{programs}/libbusbw_nccl.so\n"
    (programs / "libbusbw_nccl.so").unlink()
    done = busbw("fastpath", "path")
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "built without CUDA" in one_sentence(done.stderr)


def test_show_prints_the_table_in_force(busbw: Command, here: Path, programs: Path) -> None:
    shown = busbw("fastpath", "show").stdout
    assert f"Library: {programs}/libbusbw_nccl.so" in shown
    assert "Table: default table for sm_90\n" in shown
    assert "two_shot" in shown
    without = busbw("fastpath", "show", environment={"NCCL_NVLS_ENABLE": "0"}).stdout
    assert "Table: default table for sm_90_without_nvls\n" in without
    (here / "my.table").write_text("broadcast ranks=2-4 up_to=32K exchange blocks=4 threads=64\n")
    mine = busbw(
        "fastpath", "show", environment={"BUSBW_FASTPATH_TABLE": "my.table", "BUSBW_FASTPATH": "verify"}
    ).stdout
    assert "Table: BUSBW_FASTPATH_TABLE=my.table" in mine
    assert "BUSBW_FASTPATH=verify" in mine
    assert ["broadcast", "2-4", "32K", "exchange", "4", "64"] in [line.split() for line in mine.splitlines()]
    assert "two_shot" not in mine
    (here / "my.table").write_text("all_gather ranks=2 windows up_to=64M direct blocks=4 threads=64\n")
    mine = busbw("fastpath", "show", environment={"BUSBW_FASTPATH_TABLE": "my.table"}).stdout
    assert ["all_gather", "2", "windows", "64M", "direct", "4", "64"] in [line.split() for line in mine.splitlines()]
    assert "windows: this line is for calls with buffers in symmetric windows." in mine
    assert "for sm_80" in busbw("fastpath", "show", "--generation", "sm_80").stdout


def test_show_names_the_variables_that_may_override_the_table(busbw: Command, programs: Path) -> None:
    environment = {"BUSBW_FASTPATH_ALLTOALL": "off", "BUSBW_FASTPATH_METHOD": "exchange,8,512", "BUSBW_FASTPATH": ""}
    shown = busbw("fastpath", "show", environment=environment).stdout
    line = "Variables that can override the table: BUSBW_FASTPATH_ALLTOALL=off, BUSBW_FASTPATH_METHOD=exchange,8,512"
    assert line in shown.splitlines()
    assert shown.index(line) < shown.index("all_reduce  ")
    listed = json.loads(busbw("fastpath", "show", "--json", environment=environment).stdout)["overrides"]
    assert listed == ["BUSBW_FASTPATH_ALLTOALL=off", "BUSBW_FASTPATH_METHOD=exchange,8,512"]
    assert "BUSBW_FASTPATH" not in busbw("fastpath", "show", "--generation", "sm_90", environment=environment).stdout


def test_show_says_where_there_is_no_table(busbw: Command, here: Path, programs: Path) -> None:
    (programs / "libbusbw_nccl.so").unlink()
    shown = busbw("fastpath", "show", environment={"FAKE_DEVICES": ""}).stdout
    assert "Library: none, because this busbw was built without CUDA" in shown
    assert "Table: none for this machine, so every call is delegated to NCCL; --generation shows sm_80, sm_90" in shown
    (here / "my.table").write_text("broadcast\n")
    done = busbw("fastpath", "show", environment={"BUSBW_FASTPATH_TABLE": "my.table"})
    assert done.returncode == 2
    assert "my.table:1: " in done.stderr
    done = busbw("fastpath", "show", environment={"BUSBW_FASTPATH_TABLE": "none.table"})
    assert done.returncode == 2
    assert "cannot read the table none.table: No such file or directory; correct BUSBW_FASTPATH_TABLE" in done.stderr


def test_the_records_of_a_tuning_are_records(busbw: Command, here: Path, programs: Path) -> None:
    assert busbw(*TUNE, "--records-folder", "kept").returncode == 0
    assert busbw("show", "kept/2-ranks/all_reduce-chosen.jsonl").returncode == 0
    settings = json.loads((here / "kept" / "tuning.json").read_text())
    assert settings["ranks"] == [2]
    again = busbw(*TUNE, "--records-folder", "kept", "-d", "float")
    assert again.returncode == 2
    assert "was measured with other settings" in one_sentence(again.stderr)
