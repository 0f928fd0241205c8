"""Readers: the same run read from its table and from its records says the same."""

import subprocess
from pathlib import Path

import pytest
from polling import HANG_GUARD_S

from busbw import engine, readers
from busbw.errors import UsageError
from busbw.logs.log import Row


def run_program(tmp_path: Path, name: str, *flags: str) -> tuple[Path, Path]:
    """The table and the records of one run."""
    table, record = tmp_path / "table.txt", tmp_path / "run.jsonl"
    done = subprocess.run(
        [engine.program(name), *flags, "--records", record],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_GUARD_S,
    )
    table.write_text(done.stdout)
    return table, record


def facts(row: Row) -> tuple[object, ...]:
    """Values that are equal in both formats."""
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


GOLDEN = Path(__file__).resolve().parents[2] / "golden"


@pytest.mark.parametrize(
    ("file", "rows", "tables"),
    [
        ("seeds/000_4bd6902a841c76ab.txt", 160, 6),
        ("seeds/001_07c4158c15b1b1b2.txt", 160, 10),
        ("seeds/002_d730ed66047f0856.txt", 84, 2),
        ("seeds/003_e7e147d892a8e7dd.txt", 68, 3),
        ("seeds/004_01261a79506a5607.txt", 87, 3),
        ("nccl_tests_2_19_6_ten.txt", 80, 10),
        ("nccl_tests_2_19_6_nccl.txt", 42, 2),
        ("nccl_tests_2_19_6_single.txt", 29, 1),
        ("nccl_tests_2_19_6_iter.txt", 6, 1),
        ("logs/h200_x4_graph50_nccl_vs_mscclpp.txt", 52, 4),
        ("logs/h200_x4_mscclpp_G1.txt", 91, 5),
        ("logs/h200_x4_nccl_single_process.txt", 30, 1),
        ("logs/h200_x4_sweep_c1.txt", 31, 1),
        ("logs/h200_x4_sym.txt", 17, 1),
        ("logs/h200_x4_iter.json", 6, 1),
    ],
)
def test_every_row_of_real_logs_is_read(file: str, rows: int, tables: int) -> None:
    log = readers.read(GOLDEN / file)
    assert len(log.rows) == log.candidate_rows == rows
    assert log.refused == ()
    assert len(log.tables) == tables
    assert all(row.collective and row.figures for row in log.rows)
    assert {row.cycle for row in log.rows} == {0}


@pytest.mark.parametrize("name", ["000_4bd6902a841c76ab", "003_e7e147d892a8e7dd", "004_01261a79506a5607"])
def test_figures_of_classic_rows_are_those_of_the_line(name: str) -> None:
    """Against the simplest of parsers: the last thirteen words of the row's line."""
    file = GOLDEN / "seeds" / f"{name}.txt"
    lines = file.read_text().splitlines()
    for row in readers.read(file).rows:
        words = lines[row.line - 1].split()[-13:]
        assert [row.size_bytes, row.count, row.dtype] == [int(words[0]), int(words[1]), words[2]]
        for placement, first in (("out_of_place", 5), ("in_place", 9)):
            figure = row.figures[placement]  # type: ignore[index]
            assert [figure.time_us, figure.algbw_gbps, figure.busbw_gbps] == list(map(float, words[first : first + 3]))


def test_warns_if_figures_contradict_the_heading() -> None:
    tables = readers.read(GOLDEN / "seeds" / "000_4bd6902a841c76ab.txt").tables
    assert [(table.collective, table.ranks) for table in tables] == [
        ("all_reduce", 16),
        ("all_reduce", 16),
        ("all_reduce", 8),
        ("alltoall", 32),
        ("alltoall", 16),
        ("alltoall", 8),
    ]
    assert [bool(table.warnings) for table in tables] == [False, True, False, False, False, False]
    assert "states 32 GPUs" in tables[1].warnings[0]
    assert "16 ranks" in tables[1].warnings[0]
    in_place = [row.figures["in_place"].check for row in tables[3].rows]
    assert set(in_place) == {"not_applicable"}


def test_two_kernels_side_by_side() -> None:
    table = readers.read(GOLDEN / "seeds" / "001_07c4158c15b1b1b2.txt").tables[1]
    generic, nvidia = table.rows[:2]
    assert [generic.variant, nvidia.variant] == ["Generic Kernel", "Nvidia Kernel"]
    assert (generic.size_bytes, generic.ranks, generic.collective) == (1 << 20, 8, "all_reduce")
    figure = generic.figures["unstated"]
    assert figure.algbw_gbps == 19.45
    assert figure.busbw_gbps == pytest.approx(19.45 * 1.75)
    assert figure.time_us == pytest.approx(53.911, abs=0.001)
    assert set(figure.derived) == {"time_us", "busbw_gbps"}


def test_two_libraries_and_a_speed_up_that_is_wrong() -> None:
    log = readers.read(GOLDEN / "seeds" / "002_d730ed66047f0856.txt")
    reduce, gather = log.tables
    assert [(t.collective, t.ranks, len(t.rows)) for t in log.tables] == [("all_reduce", 8, 42), ("all_gather", 8, 42)]
    first = {row.variant: row.figures["in_place"].time_us for row in reduce.rows if row.size_bytes == 1024}
    assert first == {"NCCL": 13.12, "MSCCL": 7.5}
    assert {row.dtype for row in reduce.rows} == {"half"}
    assert "1.80x, but 13.12 / 7.5 = 1.75x" in reduce.warnings[0]
    assert reduce.warnings[0].startswith("1 of 21 ")
    assert "1.81x, but 9.78 / 5.47 = 1.79x" in gather.warnings[0]


def test_footer_with_missing_rows() -> None:
    tables = readers.read(GOLDEN / "seeds" / "003_e7e147d892a8e7dd.txt").tables
    assert [table.complete for table in tables] == [None, None, True]
    assert "52.9753" in tables[2].warnings[0]


def test_one_rank_is_named() -> None:
    one, two, three = readers.read(GOLDEN / "seeds" / "004_01261a79506a5607.txt").tables
    assert [one.ranks, two.ranks, three.ranks] == [1, 2, 2]
    assert "one rank" in one.warnings[0]
    assert one.command == "./build/all_reduce_perf -b 8 -e 2048M -f 2 -g 1"
    assert two.hosts == ("vmnetto9831",)


def test_json_and_text_of_one_run_agree() -> None:
    text = readers.read(GOLDEN / "nccl_tests_2_19_6_iter.txt")
    document = readers.read(GOLDEN / "logs" / "h200_x4_iter.json")
    assert [facts(row) for row in text.rows] == [facts(row) for row in document.rows]
    figure = document.rows[0].figures["in_place"]
    assert figure.stats is not None
    assert (figure.stats.samples, figure.stats.median_us) == (20, 24.672)
    assert len(figure.samples_us[0]) == 20


def test_a_row_without_its_root_column_is_still_a_row(tmp_path: Path) -> None:
    table, _ = run_program(tmp_path, "all_reduce_perf", "-t", "2", "-b", "8", "-e", "8")
    table.write_text(table.read_text().replace("sum      -1", "sum"))
    log = readers.read(table)
    assert (len(log.rows), log.refused) == (1, ())


def test_names_lines_that_are_not_rows(tmp_path: Path) -> None:
    table, _ = run_program(tmp_path, "all_reduce_perf", "-t", "2", "-b", "8", "-e", "8")
    table.write_text(table.read_text().replace("float     sum", "quad     sum"))
    log = readers.read(table)
    assert not log.rows
    assert [refusal.reason for refusal in log.refused] == ['"quad" is not an element type']
    assert log.candidate_rows == 1


def test_wrong_data_is_kept(tmp_path: Path) -> None:
    fault = ("--fault", "flip:rank=1,index=3,bit=0")
    table, record = run_program(tmp_path, "all_reduce_perf", "-t", "2", "--sizes", "1K,2K", *fault)
    for file in (table, record):
        found = [figure.wrong_elements for row in readers.read(file).rows for figure in row.figures.values()]
        assert len(found) == 4
        assert all(found)
    assert readers.read(record).rows[0].figures["in_place"].first_wrong


def test_records_keep_everything() -> None:
    (table,) = readers.read(GOLDEN / "records.jsonl").tables
    assert [len(row.figures) for row in table.rows] == [2, 1, 1]
    assert [row.line for row in table.rows] == [3, 5, 6]
    assert [row.group for row in table.rows] == [0, 0, 1]
    assert table.rows[0].figures["in_place"].first_wrong[0].index == 17
    assert table.end_reason == "5 wrong elements in 1 of 3 rows; see the lines above"
    assert table.complete
    assert table.environment["NCCL_TESTS_MIN_BW"] == "1"


def test_cut_records(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_bytes((GOLDEN / "records.jsonl").read_bytes()[:-150])
    log = readers.read(file)
    assert log.tables[0].complete is False
    assert "cut off" in log.warnings[0]


@pytest.mark.parametrize("name", readers.READERS)
def test_no_reader_accepts_other_files(name: str) -> None:
    if name != "text":
        assert not readers.READERS[name].recognizes("nothing of the kind\n")


def test_unknown_format_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("nothing of the kind\n")
    with pytest.raises(UsageError, match="has no row of a known format"):
        readers.read(file)
    with pytest.raises(UsageError, match="cannot read"):
        readers.read(tmp_path / "missing")
