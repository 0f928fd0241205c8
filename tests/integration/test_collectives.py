"""Compares src/busbw/collectives.toml, which the engine and the readers use, with the rows of the programs."""

import pytest

from busbw.cli.main import main
from busbw.collectives import collectives
from busbw.errors import EXIT_CODES_TEXT, ExitCode

from .programs import Programs, of_kind, records_of, run_and_record

RANKS = 4
SIZE_BYTES = 4096
ELEMENT_BYTES = 4
SWEEP = ["--backend", "host", "-t", RANKS, "-b", SIZE_BYTES, "-e", SIZE_BYTES, "-n", 2, "-w", 1]


def test_every_collective_has_a_program(programs: Programs) -> None:
    installed = {path.name.removesuffix("_perf") for path in programs.installed_in.glob("*_perf")}
    assert installed == {*collectives(), "comm_ops"}


@pytest.mark.parametrize("name", sorted(collectives()))
def test_a_row_of_the_engine_agrees(programs: Programs, name: str) -> None:
    collective = collectives()[name]
    run_and_record(programs, name, *SWEEP, "--placement", "out")
    (row,) = of_kind(records_of(programs), "row")
    assert row["busbw_gbps"] / row["algbw_gbps"] == pytest.approx(collective.bandwidth_ratio_of(RANKS), rel=1e-6)
    bytes_per_s = SIZE_BYTES / (row["time_us"] * 1e-6)
    tolerance = 5e-3 if name == "alltoallv" else 1e-6  # its ranks send different counts, so bytes are rounded
    assert row["algbw_gbps"] * 1e9 == pytest.approx(collective.algbw_factor_of(RANKS) * bytes_per_s, rel=tolerance)
    shares = SIZE_BYTES // (row["count"] * ELEMENT_BYTES)
    assert shares == (RANKS if collective.size == "shares" else 1)
    assert (row["redop"] is not None) == (collective.redop != "never")
    assert (row["root"] is not None) == collective.has_root


@pytest.mark.parametrize("name", sorted(collectives()))
def test_the_help_of_each_program_says_what_it_measures(programs: Programs, name: str) -> None:
    finished = programs.run(f"{name}_perf", "--help")
    assert f"Measures {name}, which {collectives()[name].description}." in finished.stdout.splitlines()
    assert EXIT_CODES_TEXT in " ".join(finished.stdout.split())


@pytest.mark.parametrize("start", [["-t", 3], ["--processes", 3], ["-t", 1]])
@pytest.mark.parametrize("name", ["all_gather", "alltoall", "broadcast", "gather", "scatter", "sendrecv"])
def test_one_sided_rows_are_correct_and_marked(programs: Programs, name: str, start: list[object]) -> None:
    sizes = ["-b", 1000, "-e", "100K", "-f", 10, "-u", 3, "-m", 2, "-c", 3, "-n", 4]
    finished = run_and_record(programs, f"{name}_perf", "--backend", "host", *start, *sizes, "-H", 1)
    assert "# One-sided: " in finished.stdout
    records = records_of(programs)
    (run,) = of_kind(records, "run")
    settings = run["settings"]
    assert (settings["one_sided"], settings["rma_contexts"], settings["average"]) == (True, 1, 3)
    rows = of_kind(records, "row")
    assert len(rows) == 2 * 3
    for row in rows:
        is_checked = row["placement"] == "out_of_place" or collectives()[name].checked_in_place
        assert row["check"]["state"] == ("checked" if is_checked else "not_applicable")
        assert row["check"]["wrong_elements"] == (0 if is_checked else None)


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".txt"])
def test_one_sided_rows_are_not_compared_with_others(
    programs: Programs, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, flags in (("plain", []), ("puts", ["--one_sided", 1])):
        outputs = ["-J", f"{name}.json", "--records", f"{name}.jsonl"]
        finished = programs.run("alltoall_perf", "--backend", "host", "-t", 2, "-b", 64, "-e", 64, *flags, *outputs)
        (programs.folder / f"{name}.txt").write_text(finished.stdout)
    sides = [str(programs.folder / f"{name}{suffix}") for name in ("plain", "puts")]
    assert main(["compare", *sides]) == ExitCode.USAGE
    assert "transfers two-sided against one-sided" in capsys.readouterr().err


def test_one_sided_rows_have_no_trace(programs: Programs) -> None:
    traced = {"BUSBW_TRACE_DIRECTORY": str(programs.subfolder("traces"))}
    finished = programs.run("alltoall_perf", "--backend", "host", "-t", 2, "-H", 1, environment=traced)
    assert finished.code == ExitCode.USAGE
    assert "-H 1 (--host_rma_implementation)" in finished.sentence()
    assert "trace" in finished.sentence()
