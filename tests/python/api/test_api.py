"""`busbw.load` as a Python program uses it, and the examples of docs/reference/python.md."""

import doctest
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import GOLDEN_RECORD, ROOT
from kept_runs import SIZES, add_run

import busbw
from busbw.exporters.flat import COLUMNS

SEEDS = ROOT / "tests" / "golden" / "seeds"
SEED = next(SEEDS.glob("000_*"))


def test_the_examples_of_the_page(here: Path) -> None:
    shutil.copy(SEED, here / "sweep.log")
    add_run(here / "busbw-records", 0)
    page = ROOT / "docs" / "reference" / "python.md"
    test = doctest.DocTestParser().get_doctest(page.read_text(), {}, page.name, str(page), 0)
    assert len(test.examples) > 10
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
    report: list[str] = []
    runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


def test_import_alone_imports_nothing_else() -> None:
    code = (
        "import busbw, sys; print(*sorted(name for name in sys.modules if name.split('.')[0] in ('busbw', 'msgspec')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["busbw"]


def test_commands_start_without_slow_libraries() -> None:
    # A command of a shell should answer at once. These libraries would be most of its start.
    code = """
import sys
from importlib import import_module
from busbw.cli.main import COMMANDS
for command in COMMANDS:
    if command != "find":  # needs scipy.special and scipy.sparse for any search
        import_module(f"busbw.cli.{command}_" if command == "import" else f"busbw.cli.{command}")
print([name for name in ("plotext", "scipy", "yaml") if name in sys.modules])
import busbw.cli.find
print([name for name in ("plotext", "scipy.stats") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "[]"]


def test_load_imports_no_data_frames() -> None:
    code = f"""
import busbw, sys
busbw.load({str(SEED)!r}).configurations()
print("pandas" in sys.modules, "polars" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_every_exported_name_exists() -> None:
    assert {name for name in busbw.__all__ if not hasattr(busbw, name)} == set()
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        getattr(busbw, "lode")  # noqa: B009  # mypy refuses the plain form


USER_PROGRAM = """
from busbw import Filter, JudgedConfiguration, LogCollection, load
logs: LogCollection = load("x.log", query=Filter(ranks=4))
judged: tuple[JudgedConfiguration, ...] = logs.configurations(system="b200", reference="auto")
time_us: float | None = logs.measurements[0].time_us
grades: list[str] = [entry.verdict.grade for entry in judged]
reveal_type(logs.rows[0].figures["in_place"].busbw_gbps)
load(5)
logs.lines
"""


def test_users_are_checked_by_mypy_strict(tmp_path: Path) -> None:
    """The two mistakes at the end are found, and nothing else."""
    program = tmp_path / "user.py"
    program.write_text(USER_PROGRAM)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file=",
            "--cache-dir",
            str(tmp_path / "cache"),
            str(program),
        ],
        env={"MYPYPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = [line.split(": ", 1) for line in done.stdout.splitlines() if line.startswith(str(program))]
    assert [text.split(":")[0] for _, text in lines] == ["note", "error", "error"], done.stdout + done.stderr
    assert "float | None" in lines[0][1]
    assert "load" in lines[1][1]
    assert '"lines"' in lines[2][1]


def test_a_folder_and_its_unreadable_files(tmp_path: Path) -> None:
    shutil.copy(SEED, tmp_path / "a.log")
    shutil.copy(GOLDEN_RECORD, tmp_path / "b.jsonl")
    (tmp_path / "notes.txt").write_text("nothing\n")
    logs = busbw.load(tmp_path)
    assert [Path(log.source).name for log in logs.logs] == ["a.log", "b.jsonl"]
    (sentence,) = logs.skipped
    assert "notes.txt was skipped" in sentence
    both = busbw.load([tmp_path / "a.log", str(tmp_path / "b.jsonl")])
    assert both.measurements == logs.measurements


def test_a_query_returns_only_matching_measurements(tmp_path: Path) -> None:
    for day in range(3):
        add_run(tmp_path, day, host=f"node{day}")
    everything = busbw.load(tmp_path)
    selected = busbw.load(
        tmp_path, query=busbw.Filter(host="node1", min_bytes=SIZES[1], max_bytes=SIZES[1], placement="out_of_place")
    )
    expected = [
        one
        for one in everything.measurements
        if one.hosts == "node1" and one.size_bytes == SIZES[1] and one.placement == "out_of_place"
    ]
    assert len(expected) == 1
    assert list(selected.measurements) == expected
    assert busbw.load(tmp_path, query=busbw.Filter(host="nowhere")).logs == ()


def test_a_query_keeps_the_numbers_of_the_tables(tmp_path: Path) -> None:
    shutil.copy(SEED, tmp_path / "a.log")
    everything = busbw.load(tmp_path)
    selected = busbw.load(tmp_path, query=busbw.Filter(collective="alltoall", ranks=8))
    expected = [one for one in everything.measurements if (one.collective, one.ranks) == ("alltoall", 8)]
    assert len(expected) == 62
    assert [(one.line, one.placement, one.time_us) for one in selected.measurements] == [
        (one.line, one.placement, one.time_us) for one in expected
    ]


def test_a_query_separates_rows_of_one_line(tmp_path: Path) -> None:
    sweep = (ROOT / "tests" / "golden" / "logs" / "h200_x4_sweep_c1.txt").read_text()
    (tmp_path / "a.json").write_text(json.dumps({"stdout": sweep}))
    logs = busbw.load(tmp_path, query=busbw.Filter(min_bytes=1024, max_bytes=1024))
    assert [(one.size_bytes, one.placement) for one in logs.measurements] == [
        (1024, "out_of_place"),
        (1024, "in_place"),
    ]


def test_the_newest_run_of_the_store(here: Path) -> None:
    for name in ("20260102T120000Z-all_reduce", "20260101T120000Z-all_reduce"):
        folder = here / "busbw-records" / name
        folder.mkdir(parents=True)
        shutil.copy(GOLDEN_RECORD, folder / "records.jsonl")
    (log,) = busbw.load("last").logs
    assert log.source == "busbw-records/20260102T120000Z-all_reduce/records.jsonl"


def test_data_frames_have_the_measurements_and_their_types() -> None:
    import pandas
    import polars

    logs = busbw.load(GOLDEN_RECORD)
    for frame in (logs.to_pandas(), logs.to_polars()):
        assert tuple(frame.columns) == COLUMNS
        assert len(frame) == len(logs.measurements)
    in_pandas, in_polars = logs.to_pandas(), logs.to_polars()
    assert (str(in_pandas["size_bytes"].dtype), str(in_pandas["time_us"].dtype)) == ("Int64", "Float64")
    assert [in_polars.schema[name] for name in ("size_bytes", "time_us")] == [polars.Int64(), polars.Float64()]
    for name in ("size_bytes", "time_us", "wrong_elements", "root", "hosts"):
        values = [getattr(measurement, name) for measurement in logs.measurements]
        assert in_polars[name].to_list() == values
        assert [None if value is pandas.NA else value for value in in_pandas[name]] == values


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_missing_library_names_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    logs = busbw.load(GOLDEN_RECORD)
    with pytest.raises(busbw.BusbwError, match=rf"{name} is not installed; pip install 'busbw\[{name}\]'"):
        getattr(logs, f"to_{name}")()


def test_wrong_use_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(busbw.UsageError, match="needs a source or a query"):
        busbw.load()
    with pytest.raises(busbw.UsageError, match="a query needs the folder of a store"):
        busbw.load(SEED, query=busbw.Filter())
    with pytest.raises(busbw.UsageError, match="the reference has 2 logs; give one log"):
        busbw.load(SEED).configurations(reference=busbw.load([SEED, GOLDEN_RECORD]))
    with pytest.raises(busbw.UsageError, match='no system "nowhere"'):
        busbw.load(SEED).configurations(system="nowhere")
    for reference in (str(SEED), "no-such-reference"):
        with pytest.raises(busbw.UsageError, match=r"no published reference .*; use auto, .* or busbw.load for a log"):
            busbw.load(SEED).configurations(reference=reference)


def test_names_of_systems_and_references() -> None:
    logs = busbw.load(ROOT / "tests" / "golden" / "logs" / "h200_x4_sweep_c1.txt")
    assert logs.configurations(system="auto") == logs.configurations()
    assert logs.configurations(system="Standard_ND96asr_v4") == logs.configurations(system="a100-sxm")
    (configuration,) = logs.configurations(reference="h200-x4")
    assert configuration.verdict.yardstick.startswith("h200-x4")
    assert logs.configurations(reference="h200-x4") != logs.configurations()
