"""`busbw show`: a run or a log on one screen."""

import json
import re
from pathlib import Path

import pytest
from conftest import GOLDEN_RECORD, Busbw, one_sentence

GOLDEN = GOLDEN_RECORD.parent
SINGLE = GOLDEN / "nccl_tests_2_19_6_single.txt"
FOUR = GOLDEN / "logs" / "h200_x4_sweep_c1.txt"


def kept(here: Path, name: str = "20261001T120000Z-all_reduce") -> Path:
    folder = here / "busbw-records" / name
    folder.mkdir(parents=True)
    (folder / "records.jsonl").write_bytes(GOLDEN_RECORD.read_bytes())
    return folder


def test_a_log_of_another_tool(busbw: Busbw) -> None:
    done = busbw("show", str(SINGLE))
    assert done.returncode == 0
    assert done.stderr == ""
    first, *_ = done.stdout.splitlines()
    assert first.startswith("all_reduce")
    assert "data: right in all" in done.stdout
    assert "busbw (GB/s) over size" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("name", ["last", "20261001", "busbw-records/20261001T120000Z-all_reduce"])
def test_a_run_by_its_name(busbw: Busbw, here: Path, name: str) -> None:
    kept(here)
    done = busbw("show", name, "--no-plot")
    assert done.returncode == 1, "its data are wrong"
    assert "data: WRONG in 1 of 4" in done.stdout
    assert "over size" not in done.stdout


def test_column_names_of_times_on_a_wide_terminal(busbw: Busbw, here: Path) -> None:
    """Of a record without a neighbor, skew or calls, because their columns come first."""
    record = kept(here) / "records.jsonl"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    ordinary = [line | {"together": None, "skew": None} for line in lines if not line.get("lifecycle")]
    record.write_text("".join(f"{json.dumps(line)}\n" for line in ordinary))
    header = {
        columns: next(
            line
            for line in busbw("show", "last", environment={"COLUMNS": columns}).stdout.splitlines()
            if "time us" in line
        )
        for columns in ("80", "240")
    }
    # The samples of one placement are by the gated device clock. Those of the other one include launches.
    assert header["240"].count("device p99 us") == 1
    assert header["240"].count("device cv %") == 1
    times = header["240"].replace("device p99 us", "").replace("device cv %", "")
    assert (times.count("p99 us"), times.count("device"), times.count("launch")) == (2, 2, 2)
    assert header["80"].count("launch") == 0


def test_assumed_nics_are_shown(busbw: Busbw, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(re.sub(r"(Rank +[23] .* on +)vm", r"\1vn", FOUR.read_text()))
    assert "on 2 hosts" in (said := busbw("show", str(log), "--no-plot").stdout)
    assert "expected: over 8 x 400 Gb/s per node, assumed (busbw check --nics)" in said
    assert "assumed" not in busbw("show", str(FOUR), "--no-plot").stdout


@pytest.mark.parametrize("columns", [80, 140, 200])
def test_it_fits_the_width(busbw: Busbw, columns: int) -> None:
    done = busbw("show", str(SINGLE), environment={"COLUMNS": str(columns)})
    assert max(map(len, done.stdout.splitlines())) <= columns


@pytest.mark.parametrize(
    "text", ["", "\0\1\2" * 100, "nothing to see\n", "# Collective test starting: all_reduce_perf\n"]
)
def test_a_log_without_a_row_is_refused(busbw: Busbw, here: Path, text: str) -> None:
    (here / "log.txt").write_text(text)
    done = busbw("show", "log.txt")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "log.txt" in one_sentence(done.stderr)


def test_a_run_without_its_end_says_so(busbw: Busbw, here: Path) -> None:
    folder = kept(here)
    lines = GOLDEN_RECORD.read_text().splitlines(keepends=True)
    (folder / "records.jsonl").write_text("".join(lines[:-1])[:-40])
    done = busbw("show", "last")
    assert "no end" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_missing_table(busbw: Busbw) -> None:
    done = busbw("show", str(SINGLE), "--table", "9")
    assert done.returncode == 2
    assert "--table 9" in one_sentence(done.stderr)


def test_an_unknown_name(busbw: Busbw) -> None:
    done = busbw("show", "nothing")
    assert done.returncode == 2
    assert '"nothing"' in one_sentence(done.stderr)


def test_redacted(busbw: Busbw, here: Path) -> None:
    folder = kept(here)
    text = GOLDEN_RECORD.read_text().replace('"host":"vm"', '"host":"secretary"').replace("-vm-1463", "-secretary-1463")
    (folder / "records.jsonl").write_text(text)
    assert "secretary" in busbw("show", "last").stdout
    done = busbw("show", "last", "--redact")
    assert "secretary" not in done.stdout + done.stderr
    assert "host-1" in done.stdout
