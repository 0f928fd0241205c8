"""`busbw export`: runs in the formats of other programs."""

import csv
import io
from pathlib import Path

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


def test_an_unwritable_path(busbw: Busbw) -> None:
    done = busbw("export", "csv", "last", "-o", "no/such/folder/x.csv")
    assert done.returncode == 3
    assert "no/such/folder/x.csv" in one_sentence(done.stderr)
