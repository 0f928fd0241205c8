"""Readers: the same run read from its table and from its records says the same."""

import subprocess
from pathlib import Path

import pytest

from busbw import engine, readers
from busbw.cli.main import main
from busbw.errors import UsageError
from busbw.logs import Row


def run_program(tmp_path: Path, name: str, *flags: str) -> tuple[Path, Path]:
    """The table and the records of one run."""
    table, record = tmp_path / "table.txt", tmp_path / "run.jsonl"
    done = subprocess.run(
        [engine.program(name), *flags, "--records", record], capture_output=True, text=True, check=False, timeout=60
    )
    table.write_text(done.stdout)
    return table, record


def facts(row: Row) -> tuple[object, ...]:
    """What both formats hold exactly."""
    return (row.collective, row.size_bytes, row.count, row.dtype, row.root, row.group, row.ranks, set(row.figures))


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("all_reduce_perf", ("-t", "2", "-b", "1K", "-e", "64K", "-f", "4")),
        ("hypercube_perf", ("-t", "2", "-b", "1K", "-e", "2K", "-f", "2")),
        ("broadcast_perf", ("-t", "3", "-b", "1K", "-e", "1K", "-r", "all", "-S", "1")),
        ("all_gather_perf", ("-t", "2", "-b", "1K", "-e", "1K", "-I", "1", "-S", "1")),
        ("all_reduce_perf", ("-t", "2", "-b", "1K", "-e", "1K", "--placement", "in")),
    ],
)
def test_table_and_records_agree(tmp_path: Path, name: str, flags: tuple[str, ...]) -> None:
    table, record = run_program(tmp_path, name, *flags)
    from_table, from_records = readers.read(table), readers.read(record)
    assert from_table.tables[0].complete
    assert from_records.tables[0].complete
    assert not from_table.refused
    assert not from_records.refused
    assert [facts(row) for row in from_table.rows] == [facts(row) for row in from_records.rows]
    for read, kept in zip(from_table.rows, from_records.rows, strict=True):
        for placement, figure in kept.figures.items():
            assert read.figures[placement].time_us == pytest.approx(figure.time_us, abs=0.006, rel=0.01)
            assert read.figures[placement].busbw_gbps == pytest.approx(figure.busbw_gbps, abs=0.006, rel=0.01)


def test_what_is_no_row_is_named(tmp_path: Path) -> None:
    table, _ = run_program(tmp_path, "all_reduce_perf", "-t", "2", "-b", "8", "-e", "8")
    table.write_text(table.read_text().replace("sum      -1", "sum"))
    log = readers.read(table)
    assert not log.rows
    assert len(log.refused) == 1
    assert "no row" in log.refused[0].reason


def test_wrong_data_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fault = ("--fault", "flip:rank=1,index=3,bit=0")
    table, record = run_program(tmp_path, "all_reduce_perf", "-t", "2", "--sizes", "1K,2K", *fault)
    for file in (table, record):
        assert main(["show", str(file)]) == 1
        assert "4 measurements: 4 with wrong data, 0 not checked" in capsys.readouterr().out


def test_a_file_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("nothing of the kind\n")
    with pytest.raises(UsageError, match="no reader knows the format"):
        readers.read(file)
    with pytest.raises(UsageError, match="cannot read"):
        readers.read(tmp_path / "missing")
