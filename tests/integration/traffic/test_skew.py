"""Uneven alltoallv (--skew): counts, bound and errors of real runs."""

from pathlib import Path
from typing import Any

import pytest

from busbw import readers
from busbw.cli.main import main
from busbw.expect import scenario_of
from busbw.system import systems

from ..programs import OUTPUTS, Programs, read_records, run_and_record

SUMMARY = {"NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY": "1"}


def rows_of(record: Path) -> list[dict[str, Any]]:
    return [line for line in read_records(record) if line["kind"] == "row"]


def rank_bytes(table: str) -> list[tuple[int, int]]:
    """Sent and received bytes of each rank, from the summary of the only row."""
    lines = [line.split() for line in table.splitlines() if "send_bytes=" in line]
    return [tuple(int(word.split("=")[1]) for word in line[2:4]) for line in lines]  # type: ignore[misc]


@pytest.mark.parametrize("ranks", [["-t", 5], ["--processes", 5]], ids=["threads", "processes"])
@pytest.mark.parametrize("size", [80_000, 1_000_004])
@pytest.mark.parametrize("skew", ["zipf:0", "zipf:1.2", "zipf:1.2,seed=4", "hot:1", "hot:2", "hot:5"])
def test_totals_and_imbalance(programs: Programs, ranks: list[object], size: int, skew: str) -> None:
    """The expected shares are computed here, from the definition of the pattern."""
    finished = run_and_record(
        programs, "alltoallv", *ranks, "-b", size, "-e", size, "-n", 3, "--skew", skew, environment=SUMMARY
    )
    by_rank = rank_bytes(finished.stdout)
    assert [sent for sent, _ in by_rank] == [size] * 5
    assert sum(received for _, received in by_rank) == 5 * size
    kind, value = skew.split(",")[0].split(":")
    weights = [k ** -float(value) for k in range(1, 6)] if kind == "zipf" else [1.0] * int(value)
    shares = [weight / sum(weights) for weight in weights] + [0.0] * (5 - len(weights))
    received = sorted((received / 5 for _, received in by_rank), reverse=True)
    assert received == pytest.approx([share * size for share in shares], abs=40)
    (row,) = rows_of(programs.folder / "out.jsonl")
    # A rank sends to the others what it does not keep, and receives from them four fifths of its share.
    busiest = max(max(4 * share, 1 - share) for share in shares) * size
    assert row["skew"]["busiest_bytes"] == pytest.approx(busiest, abs=200)
    assert row["skew"]["imbalance"] == pytest.approx(busiest / (size * 4 / 5), rel=0.01)
    bound = row["skew"]["bound_us"]
    time_at_balanced_rate = row["skew"]["balanced_time_us"] * row["skew"]["imbalance"]
    assert bound == pytest.approx(min(row["time_us"], time_at_balanced_rate), rel=0.01)
    assert row["skew"]["ratio_to_bound"] == pytest.approx(row["time_us"] / bound)
    assert row["skew"]["ratio_to_bound"] >= 1
    assert (row["check"]["wrong_elements"], row["placement"]) == (0, "out_of_place")


def test_the_counts_depend_on_the_seed_only(programs: Programs) -> None:
    def counts(skew: str) -> list[tuple[int, int]]:
        return rank_bytes(
            programs.run("alltoallv", "-t", 8, "-b", "1M", "-e", "1M", "--skew", skew, environment=SUMMARY).stdout
        )

    assert counts("zipf:1.5,seed=1") == counts("zipf:1.5,seed=1")
    assert counts("zipf:1.5,seed=1") != counts("zipf:1.5,seed=2")


@pytest.mark.parametrize("dtype", ["int8", "double"])
def test_a_file_has_exact_counts_and_zeros(programs: Programs, dtype: str) -> None:
    (programs.folder / "counts").write_text("5 1 0\n7 0 2\n9000 0 4\n")
    finished = run_and_record(programs, "alltoallv", "-t", 3, "-d", dtype, "--skew", "file:counts", environment=SUMMARY)
    width = 1 if dtype == "int8" else 8
    assert rank_bytes(finished.stdout) == [(6 * width, 9012 * width), (9 * width, width), (9004 * width, 6 * width)]
    (row,) = rows_of(programs.folder / "out.jsonl")
    assert row["skew"]["busiest_bytes"] == 9007 * width
    assert row["size_bytes"] == 9012 * width


def test_commands_add_no_sizes_to_a_file(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(programs.folder)
    Path("counts").write_text("0 5000\n300 0\n")
    words = ["alltoallv", "-t", "2", "--backend", "host", "--skew", "file:counts"]
    assert main(["run", "--records", "run.jsonl", *words]) == 0
    (row,) = rows_of(Path("run.jsonl"))
    assert row["size_bytes"] == 20_000


def test_check_reads_the_json_of_nccl_tests(programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    assert programs.run("alltoallv", "-t", 2, "-b", "1M", "-e", "1M", "--skew", "hot:1", *OUTPUTS).code == 0
    main(["check", str(programs.folder / "out.json")])
    text = capsys.readouterr().out
    assert "alltoallv float, 2 ranks" in text
    assert "the configuration states" not in text


def test_without_data_or_with_one_rank_the_bound_is_unknown(programs: Programs) -> None:
    (programs.folder / "counts").write_text("0 0\n0 0\n")
    run_and_record(programs, "alltoallv", "-t", 2, "--skew", "file:counts")
    assert programs.run("alltoallv", "-t", 1, "--skew", "zipf:1", "--records", "one.jsonl").code == 0
    for record in ("out.jsonl", "one.jsonl"):
        (row,) = rows_of(programs.folder / record)
        assert row["skew"] == {
            "busiest_bytes": 0,
            "imbalance": None,
            "balanced_time_us": None,
            "bound_us": None,
            "ratio_to_bound": None,
        }


def test_unlike_skews_are_not_compared(programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    for skew in ("hot:1", "hot:2"):  # the sizes of the busiest rank differ, too
        record = f"{skew[-1]}.jsonl"
        assert programs.run("alltoallv", "-t", 2, "-b", 1024, "-e", 1024, "--skew", skew, "--records", record).code == 0
    one, two = (str(programs.folder / f"{number}.jsonl") for number in (1, 2))
    assert main(["compare", one, two]) == 2
    assert "skew hot:1 against hot:2" in capsys.readouterr().err


def test_an_uneven_row_has_no_expectation(programs: Programs) -> None:
    def is_modelled(name: str, *flags: object) -> bool:
        assert programs.run("alltoallv", "-t", 2, "-b", "1M", "-e", "1M", "--records", name, *flags).code == 0
        (table,) = readers.read(programs.folder / name).tables
        return scenario_of(table, table.rows[0], systems()["h100-sxm"]) is not None

    assert is_modelled("even.jsonl")
    assert not is_modelled("uneven.jsonl", "--skew", "hot:1")


@pytest.mark.parametrize(
    ("program", "flags", "names"),
    [
        ("all_reduce", ["--skew", "zipf:1"], ["--skew zipf:1", "alltoallv_perf"]),
        ("alltoallv", ["--skew", "zip:1"], ["did you mean", "zipf"]),
        ("alltoallv", ["--skew", "zipf:-1"], ["exponent from 0 to 16"]),
        ("alltoallv", ["--skew", "hot:3"], ["1 to 2"]),
        ("alltoallv", ["--skew", "zipf:"], ["--skew zipf:: allowed: zipf:EXPONENT, hot:RANKS or file:PATH\n"]),
        ("alltoallv", ["--skew", "file:absent"], ["absent", "no such file"]),
        ("alltoallv", ["--skew", "file:."], ["--skew file:.: not a regular file; allowed: a text file"]),
        ("alltoallv", ["--skew", "file:three"], ["for 3 ranks", "2"]),
        ("alltoallv", ["--skew", "file:negative"], ["row 1 column 2", "negative"]),
        ("alltoallv", ["--skew", "file:three", "-b", "1M"], ["-b (--minbytes)", "drop"]),
        ("alltoallv", ["--skew", "file:huge"], ["--skew file:huge", "memory"]),
        ("alltoallv", ["--skwe", "zipf:1"], ["did you mean", "--skew"]),
    ],
)
def test_invalid_values_are_refused_in_one_message(
    programs: Programs, program: str, flags: list[object], names: list[str]
) -> None:
    (programs.folder / "three").write_text("1 2 3\n4 5 6\n7 8 9\n")
    (programs.folder / "negative").write_text("1 -2\n3 4\n")
    (programs.folder / "huge").write_text("1 9000000000000\n3 4\n")
    finished = programs.run(program, "-t", 2, *flags)
    assert finished.code in (2, 3)
    assert finished.stdout == ""
    assert finished.stderr.count("\n") == 1
    for name in names:
        assert name in finished.stderr
