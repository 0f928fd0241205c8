"""`busbw report`: one HTML file about runs, logs and folders."""

import re
import shutil
from pathlib import Path

import pytest
from conftest import GOLDEN_RECORD, Busbw, one_sentence
from report_pages import Parsed

GOLDEN = GOLDEN_RECORD.parent
SINGLE = GOLDEN / "nccl_tests_2_19_6_single.txt"
NCCL = GOLDEN / "nccl_tests_2_19_6_nccl.txt"


@pytest.fixture(autouse=True)
def kept(here: Path) -> None:
    folder = here / "busbw-records" / "20261001T120000Z-all_reduce"
    folder.mkdir(parents=True)
    (folder / "records.jsonl").write_text(GOLDEN_RECORD.read_text().replace('"host":"vm"', '"host":"secretary"'))


def test_a_run_by_its_name(busbw: Busbw, here: Path) -> None:
    done = busbw("report", "last")
    assert (done.returncode, done.stderr) == (1, "")  # the data of this record are wrong
    assert done.stdout.startswith("report.html: 3 configurations in 1 log: 1 has wrong data")
    words = Parsed((here / "report.html").read_text()).words
    assert "secretary" in words


def test_redacted(busbw: Busbw, here: Path) -> None:
    plain = busbw("report", str(NCCL), "last", "-o", "plain.html").stdout
    redacted = busbw("report", str(NCCL), "last", "--redact", "-o", "redacted.html").stdout
    assert plain.partition(":")[2] == redacted.partition(":")[2]  # what it comes to is the same
    html = (here / "redacted.html").read_text()
    for name in ("secretary", str(GOLDEN), "1463"):
        assert name not in html
    assert "Redacted for sharing" in html


def test_what_to_expect_follows_from_what_was_taken_out(busbw: Busbw, here: Path) -> None:
    seed = next((GOLDEN / "seeds").glob("000_*"))  # its headings say which GPUs
    plain, redacted = (busbw("report", str(seed), *more, "-o", "-").stdout for more in ([], ["--redact"]))
    assert "16x H100 NVLink" in plain
    assert "16x H100 NVLink" not in redacted
    healthy = re.compile(r"\(healthy [^)]*\)")
    assert healthy.findall(redacted) == healthy.findall(plain) != []


def test_several_and_standard_output(busbw: Busbw) -> None:
    done = busbw("report", str(SINGLE), str(NCCL), "-o", "-")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("<!DOCTYPE html>")
    assert SINGLE.name in Parsed(done.stdout).words


def test_a_folder_with_a_file_that_cannot_be_read(busbw: Busbw, here: Path) -> None:
    folder = here / "logs"
    folder.mkdir()
    shutil.copy(SINGLE, folder)
    (folder / "notes.txt").write_text("nothing here\n")
    done = busbw("report", "logs")
    assert (done.returncode, done.stderr) == (0, "")
    assert "notes.txt was left out" in Parsed((here / "report.html").read_text()).words


def test_the_same_twice_is_shown_once(busbw: Busbw, here: Path) -> None:
    done = busbw("report", str(SINGLE), str(SINGLE))
    assert "in 1 log" in done.stdout
    assert "was given 2 times" in Parsed((here / "report.html").read_text()).words


def test_systems_of_all_and_of_one(busbw: Busbw, here: Path) -> None:
    busbw("report", str(NCCL), str(SINGLE), "--system", "a100-sxm", "--system", "2=h200-sxm")
    words = Parsed((here / "report.html").read_text()).words
    assert "held against NVIDIA A100" in words
    assert "held against NVIDIA H200" in words


def test_against_a_good_run(busbw: Busbw, here: Path) -> None:
    done = busbw("report", str(NCCL), "--reference", str(NCCL), "--redact")
    assert done.returncode == 0
    html = (here / "report.html").read_text()
    assert "reference: the reference" in html
    assert str(NCCL) not in html


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        ([], "RUN"),
        (["nothing"], '"nothing"'),
        (["busbw-records/none"], "none"),
        (["empty"], "the folder empty holds no run"),
        (["useless"], "nothing could be read"),
        (["last", "--system", "nowhere"], '"nowhere"'),
        (["last", "--system", "2=h200-sxm"], "there is 1 log"),
        (["last", "--system", "0=h200-sxm"], "there is 1 log"),
        (["last", "--system", "1=h200-sxm", "--system", "1=b200"], "has one already"),
        (["last", "--reference", "nowhere"], '"nowhere"'),
    ],
)
def test_a_doubt_is_refused(busbw: Busbw, here: Path, words: list[str], piece: str) -> None:
    (here / "empty").mkdir()
    (here / "useless").mkdir()
    (here / "useless" / "a.txt").write_text("nothing\n")
    done = busbw("report", *words)
    assert done.returncode == 2
    assert piece in one_sentence(done.stderr)
    assert not (here / "report.html").exists()


def test_a_place_that_cannot_be_written(busbw: Busbw) -> None:
    done = busbw("report", "last", "-o", "no/such/x.html")
    assert done.returncode == 3
    assert "no/such/x.html" in one_sentence(done.stderr)
