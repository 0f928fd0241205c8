"""The benchmarks on GPUs, as far as they need none: reading both programs' tables, pages of tables."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a script of bench/, which find each other by their folder."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))

    def load(name: str) -> ModuleType:
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    return load


def test_both_placements_of_every_row(bench: Any) -> None:
    found = bench("gpu_programs").times_us((GOLDEN / "nccl_tests_2_19_6_single.txt").read_text())
    assert found
    assert {placement for _, placement in found} == {"out_of_place", "in_place"}
    assert all(time_us > 0 for cycles in found.values() for time_us in cycles)


def test_a_blank_operator_moves_no_column(bench: Any) -> None:
    row = " 1048576   65536   float           -1   21.07   49.77   37.33   N/A   20.50   51.15   38.36   N/A"
    found = bench("gpu_programs").times_us(f"# size count\n{row}\n# Avg\n")
    assert found == {(1048576, "out_of_place"): [21.07], (1048576, "in_place"): [20.50]}


def test_every_cycle_is_read(bench: Any) -> None:
    row = "8 2 float sum -1 {} 0.00 0.00 N/A 20.50 0.00 0.00 N/A\n"
    assert bench("gpu_programs").times_us(row.format(1.5) + row.format(2.5)) == {
        (8, "out_of_place"): [1.5, 2.5],
        (8, "in_place"): [20.50, 20.50],
    }


@pytest.mark.parametrize(("size", "text"), [(8, "8"), (1024, "1K"), (3 << 20, "3M"), (16 << 30, "16G"), (1500, "1500")])
def test_sizes(bench: Any, size: int, text: str) -> None:
    assert bench("gpu_programs").size_text(size) == text


def test_commands_of_both_sides(bench: Any) -> None:
    programs = bench("gpu_programs")
    flags = ["-b", "8"]
    ours = programs.BusbwPrograms(Path("/a"))
    assert ours.command("all_reduce", ["-g", "4"], flags) == [
        *["/a/all_reduce_perf", "-g", "4", "-b", "8", "--backend", "nccl"]
    ]
    theirs = programs.NcclTests(Path("/b"))
    assert theirs.command("all_reduce", ["--processes", "4"], flags)[1:] == ["-t", "4", "-g", "1", "-b", "8"]
    under_mpi = programs.NcclTests(Path("/b"), ("mpirun", "--oversubscribe"))
    assert under_mpi.command("all_reduce", ["--processes", "4"], flags) == [
        *["mpirun", "--oversubscribe", "-np", "4", "/b/all_reduce_perf", "-g", "1", "-b", "8"]
    ]


def test_multicast_stays_off_unless_asked_for(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = bench("gpu_programs")
    monkeypatch.delenv("NCCL_NVLS_ENABLE", raising=False)
    assert programs.environment()["NCCL_NVLS_ENABLE"] == "0"
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    assert programs.environment()["NCCL_NVLS_ENABLE"] == "1"


def test_paths_become_file_names(bench: Any) -> None:
    record = {"args": ["/a/all_reduce_perf", "-b", "8"], "machine": {"library": "/b/libnccl.so.2", "cpus": 4}}
    assert bench("gpu_programs").without_paths(record) == {
        "args": ["all_reduce_perf", "-b", "8"],
        "machine": {"library": "libnccl.so.2", "cpus": 4},
    }


def test_the_version_includes_the_build_id(bench: Any) -> None:
    text = bench("gpu_programs").version_text
    header = {"busbw_version": "0.1.0", "busbw_build": "211e74be2afc5e75e79c8e6a7ee657177993fb4d"}
    assert text(header) == "0.1.0 (build 211e74be2afc)"
    assert text(header | {"busbw_build": None}) == text({"busbw_version": "0.1.0"}) == "0.1.0"


@pytest.fixture
def fast_path_figures(bench: Any) -> Any:
    """One row, three rounds; the machine is twice as slow in the second, which is nobody's fault."""
    module = bench("gpu_fastpath_page")
    times = {
        "NCCL": (10.0, 20.0, 10.0),
        "NCCL -R 2": (2.0, 4.0, 2.0),
        "other": (5.0, 10.0, 5.0),
        "fast path": (5.5, 11.0, 5.0),
        "fast path -R 2": (2.2, 4.4, 2.1),
    }
    what = module.Configuration("all_reduce", "half", "graph")
    return list(times), [
        module.Figure(what, way, number + 1, 1 << 20, "in_place", 99.0, time_us, 0 if "fast" in way else None)
        for way, of_rounds in times.items()
        for number, time_us in enumerate(of_rounds)
    ]


def test_the_fast_path_is_judged_by_ratios_within_a_round(bench: Any, fast_path_figures: Any) -> None:
    module = bench("gpu_fastpath_page")
    ways, figures = fast_path_figures
    what = figures[0].what
    (row,) = rows = module.summarize_rows(figures, "in_place")
    assert row.best_peer == "other"
    assert module.table(rows, ways)[2:] == [
        "| 1M | 10.00 | 2.00 | 5.00 | 5.50 | 2.20 | 0.550 (0.500 to 0.550) | 1.100 (1.000 to 1.100) "
        "| 1.100 (1.050 to 1.100) |"
    ]
    verdicts = list(module.verdicts(what, "in_place", row))
    said = "all_reduce half graph in place 1M: fast path"
    assert [verdict.text for verdict in verdicts if verdict.outcome != "met"] == [
        f"{said}: 1.100 of the best peer's time, at most 1.03: cannot be told",
        f"{said} -R 2: 1.100 of NCCL -R 2's time, at most 1.02: missed",
    ]
    assert len(verdicts) == 3
    (once,) = module.summarize_rows([figure for figure in figures if figure.round == 1], "in_place")
    assert {verdict.outcome for verdict in module.verdicts(what, "in_place", once)} == {"met", "cannot be told"}
    assert module.summarize_rows(figures, "out_of_place") == []


def test_the_page_of_the_fast_path_counts_met_targets(bench: Any, fast_path_figures: Any) -> None:
    module = bench("gpu_fastpath_page")
    ways, figures = fast_path_figures
    facts = {"facts": {}, "machine": "4 x H200", "date": "2026-11-22", "busbw": "0.1.0"}
    text = module.page(facts, figures, ways, ["a sentence"])
    assert "The engine checked 6 results of the fast path and found 0 wrong elements." in text
    assert "| all_reduce | half | in place | graph | 1 | medians of 3 rounds | 0.550 (1M) | 0.550 (1M) |" in text
    assert "## all_reduce, half, in place: device time, in CUDA graphs, medians of 3 rounds" in text
    assert "- a sentence\n" in text
    assert "| fast path at most 1.02 of NCCL's time | 1 | 1 | 0 | 0 |" in text
    assert "| fast path -R 2 at most 1.02 of NCCL -R 2's time | 1 | 0 | 1 | 0 |" in text
    one_less = [figure for figure in figures if (figure.way, figure.round) != ("NCCL", 3)]
    assert "in CUDA graphs, medians of 2 to 3 rounds" in module.page(facts, one_less, ways, [])
    once = [figure for figure in figures if figure.round == 1]
    assert "in CUDA graphs, one round" in module.page(facts, once, ways, [])
    alone = [figure for figure in figures if figure.way in ("NCCL", "fast path")]
    assert "-R 2 over" not in "\n".join(module.table(module.summarize_rows(alone, "in_place"), ways))


def test_a_page_is_made_again_from_its_figures(bench: Any, fast_path_figures: Any, tmp_path: Path) -> None:
    page = bench("gpu_fastpath_page")
    facts = {"facts": {}, "machine": "2 x NVIDIA H200", "date": "2026-11-22", "busbw": "0.1.0"}
    facts |= {"ways": {"NCCL": "-z 2", "fast path": "-z 2"}, "said": ["a sentence"]}
    written = page.write_results(tmp_path / "x", facts, fast_path_figures[1])
    read_facts, figures = page.read_figures(tmp_path / "x.jsonl.gz")
    assert (read_facts, figures) == (facts, fast_path_figures[1])
    (tmp_path / "x.md").unlink()
    assert page.write_page(tmp_path / "x", facts, figures) == written == (tmp_path / "x.md").read_text()
    assert "- a sentence\n" in written


def test_types_vary_only_for_reductions(bench: Any) -> None:
    module = bench("gpu_fastpath")
    found = module.configurations(["all_reduce", "all_gather"], ["half", "float"], ["graph", "stream"])
    assert [tuple(what) for what in found if what.launch == "graph"] == [
        ("all_reduce", "half", "graph"),
        ("all_reduce", "float", "graph"),
        ("all_gather", "half", "graph"),
    ]
    assert len(found) == 6
    words = module.engine_flags(found[0], "large", ["-t", "4"])
    assert words[:4] == ("-t", "4", "-d", "half")
    assert words[words.index("-G") + 1] == "1"
    assert "-G" not in module.engine_flags(found[3], "small", ["-t", "4"])


def test_no_call_without_data_is_measured(bench: Any) -> None:
    module = bench("gpu_fastpath")
    assert module.min_size("all_reduce", "8", ["-t", "4"]) == "8"
    assert module.min_size("all_gather", "8", ["-t", "4"]) == "64"
    assert module.min_size("alltoall", "8", ["-t", "3"]) == "64"
    assert module.min_size("all_gather", "32M", ["-t", "4"]) == "32M"


def test_each_round_starts_every_variant_once(bench: Any) -> None:
    module = bench("gpu_fastpath")
    wanted = module.configurations(["all_reduce", "broadcast"], ["half", "float"], ["graph"])
    every = module.Variant(None, frozenset({"all_reduce", "broadcast"}))
    ways = {"NCCL": every, "other": module.Variant(None, frozenset({"all_reduce"}))}
    starts = list(module.plan_starts(wanted, ["small", "large"], ways, 2))
    assert [start.round for start in starts] == [1] * 10 + [2] * 10
    assert [start.band for start in starts[:10]] == ["small"] * 5 + ["large"] * 5
    assert ("other", "broadcast") not in {(start.variant, start.configuration.collective) for start in starts}
    assert len(starts) == len(set(starts))


def test_all_sizes_fit_into_one_start(bench: Any) -> None:
    module = bench("gpu_fastpath")
    (wanted,) = module.configurations(["all_reduce"], ["half"], ["graph"])
    words = module.engine_flags(wanted, "whole", ["-t", "4"])
    assert [words[words.index(flag) + 1] for flag in ("-b", "-e", "-w", "-n", "-G")] == ["8", "1G", "5", "50", "2"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--launches", "graph,streams"], '"streams" is unknown; allowed are graph, stream'),
        (["--bands", "tiny"], '"tiny" is unknown; allowed are small, large, whole'),
        (["--bands", "whole,large"], '"whole" includes the others; give only "whole"'),
        (["--collectives", "allreduce"], '"allreduce" is unknown'),
        (["--dtypes", "half,"], '"" is unknown; allowed are half, bfloat16, float'),
        (["--buffers", "both"], '"both" is unknown; allowed are plain, registered'),
        (["--ours", "--preload none.so"], "there is no library none.so"),
        (["--peer", "other"], "is not NAME=SIDE"),
        (["--peer", "=-z 1"], "is not NAME=SIDE"),
        (["--peer", "other@broadcasts=-z 1"], '"broadcasts" is unknown'),
        (["--peer", "other=-z 1", "--peer", "other=-z 2"], 'the name "other" is used twice'),
        (["--peer", "NCCL=-z 1"], 'the name "NCCL" is used twice'),
    ],
)
def test_an_unknown_word_is_refused_before_the_first_start(
    bench: Any,
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = bench("gpu_fastpath")
    monkeypatch.setattr(sys, "argv", ["gpu_fastpath.py", "--results", str(tmp_path / "x"), *words])
    monkeypatch.setattr(module, "measure", lambda *_: pytest.fail("started"))
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("was_measured", [True, False])
def test_an_interrupted_call_writes_its_results(
    bench: Any, fast_path_figures: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_measured: bool
) -> None:
    module = bench("gpu_fastpath")

    def stopped(_asked: Any, _ranks: Any, _ways: Any, kept: Any, _notes: Any) -> int:
        if was_measured:
            kept += fast_path_figures[1]
        raise KeyboardInterrupt

    facts = {"facts": {}, "machine": "4 x H200", "date": "2026-11-22", "busbw": "0.1.0"}
    monkeypatch.setattr(module, "provenance", lambda *_: facts)
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    monkeypatch.setattr(module, "measure", stopped)
    monkeypatch.setattr(sys, "argv", ["x", "--results", str(tmp_path / "x"), "--ours", "-z 1", "--note", "A note."])
    assert module.main() == 130
    assert not was_measured or "- A note.\n" in (tmp_path / "x.md").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == (["x.jsonl.gz", "x.md"] if was_measured else [])
