"""`busbw show` and `busbw report` of a trace."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import GOLDEN_RECORD, Busbw
from report_pages import Parsed
from synthetic_traces import Call, make_trace, split_ranks

from busbw.cli.main import main
from busbw.traces.format import DeviceClock, Function
from busbw.traces.model import Trace
from busbw.traces.write import write_trace

GOLDEN = GOLDEN_RECORD.parent / "traces"
PARTITIONS = [split_ranks(8, 4), split_ranks(8, 2, 4)]
CALLS = (
    Call(partition=0, count=1 << 24, duration_ns=400_000),
    Call(function=Function.ALL_GATHER, partition=1, count=1 << 20, duration_ns=800_000, gap_ns=10_000),
    Call(partition=0, count=4, duration_ns=12_000),
)

Show = Callable[..., str]


def job(device_clock: DeviceClock = DeviceClock.HOST) -> Trace:
    return make_trace(partitions=PARTITIONS, calls=CALLS, hosts=2, late_ns={5: 200_000}, device_clock=device_clock)


@pytest.fixture
def show(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Show:
    """Returns a function that writes a trace to the folder `job`, runs a command, and returns its output."""

    def run(trace: Trace, *words: str, code: int = 0, width: int = 120) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        shutil.rmtree(here / "job", ignore_errors=True)
        write_trace(trace, here / "job")
        capsys.readouterr()
        assert main([*words]) == code
        output = capsys.readouterr()
        return output.out if code == 0 else output.err

    return run


@pytest.mark.parametrize(
    ("name", "device_clock", "width"),
    [("show", DeviceClock.HOST, 120), ("show_narrow", DeviceClock.HOST, 80), ("show_host_only", DeviceClock.NONE, 120)],
)
def test_the_screen(name: str, device_clock: DeviceClock, width: int, show: Show) -> None:
    text = show(job(device_clock), "show", "job", "--system", "h100-sxm", width=width)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
    assert max(map(len, text.splitlines())) <= width


def test_json_has_the_same_facts(show: Show) -> None:
    fields = json.loads(show(job(), "show", "job", "--json", "--system", "h100-sxm"))
    assert (fields["size"], fields["recorded_ranks"], fields["period"]) == (8, 8, "step")
    assert [row["function"] for row in fields["rows"]] == ["all_gather", "all_reduce", "all_reduce"]
    assert fields["ranks"][5]["late_us"] == pytest.approx(200)
    assert {change["basis"] for change in fields["changes"]} == {"measured", "predicted"}
    unknown = json.loads(show(job(DeviceClock.NONE), "show", "job", "--json"))
    assert unknown["rows"][0]["busbw_gbps"] is None


def test_a_shipped_model_by_its_name(show: Show) -> None:
    fields = json.loads(show(job(), "show", "llama-7b-fsdp", "--json"))
    blocks = [row for row in fields["rows"] if row["max_size_bytes"] == 404_766_720]
    # Each of the 32 blocks is gathered forwards, and all but the last one backwards.
    assert [(row["function"], row["calls_per_step"]) for row in blocks] == [("all_gather", 63)]
    assert fields["steps"]["count"] == 3


def test_a_log_of_nccl_with_a_table_is_a_log(here: Path, busbw: Busbw) -> None:
    golden = GOLDEN_RECORD.parent
    lines = (golden / "nccl" / "no_gpudirect.log").read_text()
    table = (golden / "nccl_tests_2_19_6_single.txt").read_text()
    (here / "logs").mkdir()
    (here / "logs" / "nccl.log").write_text(lines)
    assert "no operation" in busbw("show", "logs/nccl.log").stderr
    (here / "logs" / "nccl.log").write_text(lines + table)
    assert "data: right in all" in busbw("show", "logs/nccl.log", "--no-plot").stdout
    page = busbw("report", "logs", "-o", "-").stdout
    assert "right in all" in page
    assert "ate ranks are unknown" not in page


def secret_job() -> Trace:
    """A job with a secret word in every name."""
    trace = job()
    return replace(
        trace,
        ranks=tuple(replace(rank, host=f"secret-{rank.host}.example") for rank in trace.ranks),
        communicators=tuple(replace(one, name=f"secret{one.name}") for one in trace.communicators),
        problems=("secret-node-0.example lost a file",),
    )


@pytest.mark.parametrize("words", [["show", "job"], ["show", "job", "--json"], ["report", "job", "-o", "-"]])
def test_no_name_remains_after_redaction(words: list[str], show: Show) -> None:
    assert "secret" in show(secret_job(), *words)
    text = show(secret_job(), *words, "--redact")
    assert "secret" not in text
    assert "host-2" in text


def test_the_page(show: Show, here: Path) -> None:
    show(job(), "report", "job", "-o", "page.html", "--system", "h100-sxm")
    page = Parsed((here / "page.html").read_text())
    assert "Rank 5 on node-1 delays the others by up to 0.2 ms per step" in page.words
    assert "Timeline of step" in page.words
    assert "all_gather" in page.words
    assert [one["class"] for one in page.named("figure")] == ["picture whole"]


def test_the_page_of_a_trace_without_times_has_no_timeline(show: Show, here: Path) -> None:
    show(job(DeviceClock.NONE), "report", "job", "-o", "page.html")
    page = Parsed((here / "page.html").read_text())
    assert page.named("svg") == []
    assert "Late ranks are unknown." in page.words


def test_the_page_does_not_claim_that_unknown_ranks_are_on_time(show: Show, here: Path) -> None:
    trace = job()
    show(replace(trace, ranks=trace.ranks[:1]), "report", "job", "-o", "page.html")
    words = Parsed((here / "page.html").read_text()).words
    assert "Late ranks are unknown." in words
    assert "their transfer times are upper bounds" in words
    show(make_trace(ranks=4, calls=[Call(count=8, duration_ns=50_000)]), "report", "job", "-o", "page.html")
    assert "No late rank was found." in Parsed((here / "page.html").read_text()).words


def test_a_title_and_one_system(show: Show, here: Path) -> None:
    show(job(), "report", "job", "-o", "page.html", "--title", "Monday")
    assert "Monday" in Parsed((here / "page.html").read_text()).words
    error = show(job(), "report", "job", "--system", "1=h100-sxm", "--system", "2=h100-sxm", code=2)
    assert "a trace has one system" in error


@pytest.mark.parametrize("command", ["show", "replay"])
def test_a_directory_without_a_trace_is_neither_a_log_nor_a_file(
    here: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (here / "texts").mkdir()
    (here / "texts" / "a.txt").write_text("hello\n")
    assert main([command, "texts"]) == 2
    assert "texts is a directory without a trace; name " in capsys.readouterr().err
