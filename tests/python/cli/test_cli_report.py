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
    assert plain.partition(":")[2] == redacted.partition(":")[2]  # the verdict is the same
    html = (here / "redacted.html").read_text()
    for name in ("secretary", str(GOLDEN), "1463"):
        assert name not in html
    assert "Redacted for sharing" in html


def test_the_expectation_uses_redacted_fields(busbw: Busbw, here: Path) -> None:
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
    assert "notes.txt was skipped" in Parsed((here / "report.html").read_text()).words


def test_a_repeated_log_is_shown_once(busbw: Busbw, here: Path) -> None:
    done = busbw("report", str(SINGLE), str(SINGLE))
    assert "in 1 log" in done.stdout
    assert "was given 2 times" in Parsed((here / "report.html").read_text()).words


def over_two_nodes(path: Path, busbw_gbps: float) -> Path:
    """A log of nccl-tests: 16 ranks on two nodes of H100s, which says nothing of their NICs."""
    lines = ["# Collective test starting: all_reduce_perf\n", "# Using devices\n"]
    for rank in range(16):
        where = f"on node{rank // 8} device {rank % 8} [0000:{rank:02x}:00] NVIDIA H100 80GB HBM3"
        lines.append(f"#  Rank {rank:2} Group  0 Pid {rank + 7} {where}\n")
    lines.append("#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n")
    for power in range(20, 34):
        size = 1 << power
        time_us = 40 + size * 15 / 8 / busbw_gbps / 1e3
        side = f"{time_us:.2f} {size / time_us / 1e3:.2f} {size / time_us / 1e3 * 15 / 8:.2f} 0"
        lines.append(f"{size} {size // 4} float sum -1 {side} {side}\n")
    path.write_text("".join([*lines, "# Out of bounds values : 0 OK\n"]))
    return path


def test_assumed_nics_decide_nothing(busbw: Busbw, here: Path) -> None:
    """As in `busbw check`: a run that is slow for the usual NICs may be normal for slower ones."""
    run = str(over_two_nodes(here / "log", 200))
    assert busbw("check", run).stdout.startswith("UNSURE")
    assert "1 cannot be judged" in busbw("report", run).stdout
    assert "over 8 x 400 Gb/s per node, assumed" in (here / "report.html").read_text()
    assert "1 is slower than expected" in busbw("report", run, "--system", "h100-sxm").stdout
    assert "per node, assumed" not in (here / "report.html").read_text()


def test_systems_of_all_and_of_one(busbw: Busbw, here: Path) -> None:
    busbw("report", str(NCCL), str(SINGLE), "--system", "a100-sxm", "--system", "2=h200-sxm")
    words = Parsed((here / "report.html").read_text()).words
    assert "compared with NVIDIA A100" in words
    assert "compared with NVIDIA H200" in words


def test_auto_is_the_system_of_the_log(busbw: Busbw, here: Path) -> None:
    """As in `busbw check`, also if another system is set for all logs."""
    busbw("report", str(NCCL), "--system", "auto")
    by_log = Parsed((here / "report.html").read_text()).words
    busbw("report", str(NCCL))
    assert by_log == Parsed((here / "report.html").read_text()).words
    busbw("report", str(NCCL), str(SINGLE), "--system", "a100-sxm", "--system", "1=auto")
    words = Parsed((here / "report.html").read_text()).words
    assert "compared with NVIDIA H200" in words
    assert "compared with NVIDIA A100" in words


@pytest.mark.parametrize("command", [["check"], ["report"], ["export", "junit"]])
def test_an_unknown_system_is_refused_with_what_a_log_allows(busbw: Busbw, here: Path, command: list[str]) -> None:
    done = busbw(*command, str(NCCL), "--system", "nowhere")
    assert done.returncode == 2
    message = " ".join(done.stderr.split())
    assert 'there is no system "nowhere"; use auto, here, a machine type, a .toml file or one of a100-' in message


def test_systems_of_single_tables(busbw: Busbw, here: Path) -> None:
    busbw("report", str(NCCL), "--system", "1.2=a100-sxm", "--system", "1=h100-sxm")
    html = (here / "report.html").read_text()
    first, second = (
        Parsed(html).words.partition(name)[2] for name in ("compared with NVIDIA H100", "compared with NVIDIA A100")
    )
    assert len(first) > len(second) > 0


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
        (["empty"], "the folder empty has no run"),
        (["useless"], "no log could be read"),
        (["last", "--system", "nowhere"], '"nowhere"'),
        (["last", "--system", "2=h200-sxm"], "there is 1 log"),
        (["last", "--system", "0=h200-sxm"], "there is 1 log"),
        (["last", "--system", "1=h200-sxm", "--system", "1=b200"], "set twice"),
        (["last", "--system", "1.2=h200-sxm"], "that log has 1 table"),
        (["last", "--system", "1.0=h200-sxm"], "that log has 1 table"),
        (["last", "--reference", "nowhere"], '"nowhere"'),
    ],
)
def test_a_usage_error_is_refused(busbw: Busbw, here: Path, words: list[str], piece: str) -> None:
    (here / "empty").mkdir()
    (here / "useless").mkdir()
    (here / "useless" / "a.txt").write_text("nothing\n")
    done = busbw("report", *words)
    assert done.returncode == 2
    assert piece in one_sentence(done.stderr)
    assert not (here / "report.html").exists()


def test_an_unwritable_path(busbw: Busbw) -> None:
    done = busbw("report", "last", "-o", "no/such/x.html")
    assert done.returncode == 3
    assert "no/such/x.html" in one_sentence(done.stderr)
