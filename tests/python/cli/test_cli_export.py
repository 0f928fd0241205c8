"""`busbw export`: runs in the formats of other programs."""

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import GOLDEN_RECORD, Busbw, one_sentence

from busbw.exporters import EXPORTERS

SINGLE = GOLDEN_RECORD.parent / "nccl_tests_2_19_6_single.txt"


@pytest.fixture(autouse=True)
def kept(here: Path) -> None:
    folder = here / "busbw-records" / "20261001T120000Z-all_reduce"
    folder.mkdir(parents=True)
    (folder / "records.jsonl").write_text(GOLDEN_RECORD.read_text().replace('"host":"vm"', '"host":"secretary"'))


@pytest.mark.parametrize("form", EXPORTERS)
def test_every_format_to_a_file(busbw: Busbw, here: Path, form: str) -> None:
    done = busbw("export", form, "last", str(SINGLE), "-o", "out")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (here / "out").stat().st_size > 100


@pytest.mark.parametrize("form", [form for form in EXPORTERS if form != "parquet"])
def test_text_to_a_pipe_redacted_and_not(busbw: Busbw, form: str) -> None:
    plain, redacted = busbw("export", form, "last").stdout, busbw("export", form, "last", "--redact").stdout
    assert plain
    assert redacted
    assert "secretary" not in redacted


def test_csv_of_two_logs(busbw: Busbw) -> None:
    lines = list(csv.DictReader(io.StringIO(busbw("export", "csv", "last", str(SINGLE)).stdout)))
    assert {line["log"] for line in lines} == {"busbw-records/20261001T120000Z-all_reduce/records.jsonl", str(SINGLE)}
    assert len(lines) > 4


def test_a_log_given_twice_is_written_once(busbw: Busbw, here: Path) -> None:
    once = busbw("export", "prometheus", "busbw-records")
    assert once.stdout == busbw("export", "prometheus", "last").stdout
    (here / "link.jsonl").symlink_to(next((here / "busbw-records").glob("*/records.jsonl")))
    done = busbw("export", "prometheus", "busbw-records", "last", "link.jsonl")
    assert done.stdout == once.stdout
    assert done.stderr.endswith("/records.jsonl was given 3 times and is read once.\n")


def test_a_log_without_rows_does_not_suppress_the_others(busbw: Busbw, here: Path) -> None:
    (here / "killed.log").write_text("# nThread 1 nGpus 8 minBytes 8 maxBytes 1024 step: 2(factor)\n")
    done = busbw("export", "csv", "killed.log", "last")
    assert done.returncode == 0
    assert done.stdout == busbw("export", "csv", "last").stdout
    assert done.stderr == "killed.log has no readable row; `busbw show` says why\n"
    junit = ElementTree.fromstring(busbw("export", "junit", "killed.log", "last").stdout)
    grades = [one.get("value") for one in junit.iter("property") if one.get("name") == "grade"]
    assert grades[0] == "UNSURE"
    done = busbw("export", "csv", "killed.log")
    assert done.returncode == 2
    assert "killed.log has no readable row" in one_sentence(done.stderr)


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        (["yaml", "last"], "yaml"),
        (["csv"], "RUN"),
        (["csv", "nothing"], '"nothing"'),
        (["csv", "last~5"], "has 1"),
    ],
)
def test_a_usage_error_is_refused(busbw: Busbw, words: list[str], piece: str) -> None:
    done = busbw("export", *words)
    assert done.returncode == 2
    assert piece in one_sentence(done.stderr)


def test_verdicts_are_those_of_check(busbw: Busbw) -> None:
    seed = str(next((GOLDEN_RECORD.parent / "seeds").glob("000_*")))
    grades = [verdict["grade"] for verdict in json.loads(busbw("check", seed, "--json").stdout)["verdicts"]]
    assert grades.count("SLOW") == 3
    cases = ElementTree.fromstring(busbw("export", "junit", seed).stdout).iter("testcase")
    verdict_cases = [case for case in cases if case.get("classname") == "verdict"]
    assert [case.findtext("failure") is not None for case in verdict_cases] == [grade == "SLOW" for grade in grades]
    prometheus = busbw("export", "prometheus", seed).stdout.splitlines()
    slow = [line for line in prometheus if line.startswith("busbw_verdict{") and 'grade="SLOW"' in line]
    assert sum(line.endswith(" 1.0") for line in slow) == 3
    assert 'system="h800"' in "".join(slow)


def test_options_choose_the_yardstick(busbw: Busbw) -> None:
    seed = str(next((GOLDEN_RECORD.parent / "seeds").glob("002_*")))
    unsure = ElementTree.fromstring(busbw("export", "junit", seed).stdout)
    good = ElementTree.fromstring(busbw("export", "junit", seed, "--system", "h100-sxm").stdout)
    found = [
        [prop.get("value") for prop in root.iter("property") if prop.get("name") == "grade"] for root in (unsure, good)
    ]
    assert found == [["UNSURE"] * 4, ["GOOD"] * 4]


def test_a_redacted_export_has_the_same_verdicts(busbw: Busbw) -> None:
    seed = str(next((GOLDEN_RECORD.parent / "seeds").glob("000_*")))
    roots = [ElementTree.fromstring(busbw("export", "junit", seed, *more).stdout) for more in ([], ["--redact"])]
    plain, redacted = ([prop.get("value") for prop in root.iter("property")] for root in roots)
    assert plain == redacted


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        (["csv", "last", "--system", "h200-sxm"], "--system does not apply to csv"),
        (["json", "last", "--nics", "8x400"], "--nics does not apply to json"),
        (["markdown", "last", "--sharp"], "--sharp does not apply to markdown"),
        (["junit", "last", "--redact", "--reference", "auto"], "--redact and --reference exclude each other"),
    ],
)
def test_options_that_do_not_apply_are_refused(busbw: Busbw, words: list[str], piece: str) -> None:
    done = busbw("export", *words)
    assert done.returncode == 2
    assert piece in one_sentence(done.stderr)


def test_an_unwritable_path(busbw: Busbw) -> None:
    done = busbw("export", "csv", "last", "-o", "no/such/folder/x.csv")
    assert done.returncode == 3
    assert "no/such/folder/x.csv" in one_sentence(done.stderr)
