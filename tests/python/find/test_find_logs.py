"""`busbw find --logs`: golden logs and records with other hosts and times, and files that cannot be used."""

import json
import random
import re
from collections.abc import Hashable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import GOLDEN_RECORD

from busbw.cli.find import group_logs
from busbw.cli.main import main

NODES = [f"gpu-{number:02}" for number in range(12)]
SWEEP = (GOLDEN_RECORD.parent / "logs" / "h200_x4_sweep_c1.txt").read_text().split("# Collective test concluded")[0]
DIGITS = re.compile(r"^( +\d+ +\d+ +\w+ +\w+ +-1) +(\d\S*) +\S+ +\S+( +\S+) +(\d\S*) +\S+ +\S+( +\S+) *$", re.MULTILINE)


def text_log(hosts: Sequence[str], factor: float, pid: int) -> str:
    """Returns the golden table of 4 ranks on these hosts, with all times multiplied by a factor."""

    def row(match: re.Match[str]) -> str:
        size = int(match[1].split()[0])
        figures = ""
        for time_text, wrong in ((match[2], match[3]), (match[4], match[5])):
            time_us = float(time_text) * factor
            figures += f" {time_us:8.2f} {size / time_us / 1e3:7.2f} {1.5 * size / time_us / 1e3:7.2f}{wrong}"
        return match[1] + figures

    table = DIGITS.sub(row, SWEEP)
    for rank in range(4):
        host = hosts[rank * len(hosts) // 4]
        table = re.sub(rf"(#  Rank +{rank} Group +0 Pid) +\d+ on +\S+", rf"\1 {pid + rank:6} on {host:>10}", table)
    return table


def record(hosts: Sequence[str], factor: float, pid: int) -> str:
    """Returns the golden record on these hosts, with all times multiplied by a factor."""
    lines = [json.loads(line) for line in GOLDEN_RECORD.read_text().splitlines()]
    ranks = lines[0]["ranks"]
    for rank in ranks:
        rank |= {"host": hosts[rank["rank"] * len(hosts) // len(ranks)], "pid": pid + rank["rank"]}
    lines[0]["run_id"] = str(pid)
    for line in lines:
        if line["kind"] == "row":
            line["time_us"] *= factor
            line["algbw_gbps"] = line["busbw_gbps"] = None
    return "".join(json.dumps(line) + "\n" for line in lines)


def write_runs(folder: Path, slow: dict[str, float], *, runs: int = 30, form: str = "text") -> None:
    """Writes runs on two nodes each. The slowest node of a run decides its time, with a noise of 1 %."""
    generator = random.Random(7)
    folder.mkdir(exist_ok=True)
    for number in range(runs):
        hosts = sorted(generator.sample(NODES, 2))
        factor = max(slow.get(host, 1.0) for host in hosts) * generator.gauss(1, 0.01)
        make = text_log if form == "text" else record
        (folder / f"job{number:02}.log").write_text(make(hosts, factor, 1000 + 10 * number))


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["find", *map(str, words)])
    output = capsys.readouterr()
    return code, output.out, output.err


@pytest.mark.parametrize("form", ["text", "record"])
def test_a_slow_node_in_30_runs_is_the_first_line(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_runs(tmp_path / "logs", {"gpu-05": 1.4}, form=form)
    code, out, _ = run(capsys, "--logs", tmp_path / "logs")
    lines = out.splitlines()
    assert code == 5
    assert re.match(r"SLOW: runs with node gpu-05 take 1\.(39|4\d) times the time of comparable runs", lines[0])
    assert re.match(r"    \d of \d runs with it are slow, confidence 99.9 %, \d+ fast runs exonerate", lines[1])
    assert "scontrol update NodeName=gpu-05 State=DRAIN" in out
    assert "12 nodes: apart from the above, none is slower than its peers by 10 % or more" in out
    assert "Compared: 30 runs; 0 slow runs without a known cause." in out


def test_json_and_the_hostfile_name_the_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_runs(tmp_path / "logs", {"gpu-05": 1.4})
    hostfile = tmp_path / "hosts"
    code, out, _ = run(capsys, "--logs", tmp_path / "logs", "--json", "--write-hostfile", hostfile)
    result = json.loads(out)
    assert code == 5
    assert (result["schema"], result["healthy"], result["runs"]) == ("busbw-find-1", False, 30)
    assert [(one["kind"], one["node"]) for one in result["findings"]] == [("node", "gpu-05")]
    assert result["findings"][0]["slowdown"] == pytest.approx(1.4, abs=0.03)
    assert hostfile.read_text().split() == [node for node in NODES if node != "gpu-05"]


def test_junit_fails_the_case_of_nodes_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_runs(tmp_path / "logs", {"gpu-05": 1.4})
    junit, metrics = tmp_path / "find.xml", tmp_path / "find.prom"
    run(capsys, "--logs", tmp_path / "logs", "--junit", junit, "--prometheus", metrics)
    cases = {case.get("name"): case for case in ElementTree.parse(junit).iter("testcase")}
    failure = cases["node"].find("failure")
    assert failure is not None
    assert "gpu-05" in str(failure.get("message"))
    assert "runs per part)" in str(cases["node"].findtext("system-out"))
    assert cases["nic"].find("skipped") is not None
    assert re.search(r'busbw_find_slowdown\{kind="node",node="gpu-05"\} 1\.', metrics.read_text())
    assert "busbw_find_rounds" not in metrics.read_text()


def test_healthy_runs_end_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_runs(tmp_path / "logs", {})
    code, out, _ = run(capsys, "--logs", tmp_path / "logs")
    assert code == 0
    assert out.startswith("HEALTHY: no node is in slow runs more often than chance allows.\n")


def test_files_can_be_named_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_runs(tmp_path / "logs", {"gpu-05": 1.4})
    words = [word for path in sorted((tmp_path / "logs").iterdir()) for word in ("--logs", path)]
    code, out, _ = run(capsys, *words, "--json")
    assert code == 5
    assert json.loads(out)["runs"] == 30


def test_nodes_that_always_run_together_end_with_6(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_runs(tmp_path, {})
    for number in range(5):
        log = text_log(["new-1", "new-2"], 1.4 + number / 100, 5000 + 10 * number)
        (tmp_path / f"new{number}.log").write_text(log)
    code, out, _ = run(capsys, "--logs", tmp_path)
    assert code == 6
    assert re.match(r"UNDECIDED: 5 slow runs with node new-[12] or new-[12], 1\.4\d times", out)
    assert "Run each of them without the others, with node gpu-" in out.splitlines()[0]


def test_a_run_in_several_logs_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One slow run, written 20 times, accuses nobody. 20 runs on the same nodes do."""
    write_runs(tmp_path / "logs", {})
    for number in range(20):
        (tmp_path / "logs" / f"copy{number}.log").write_text(text_log(["gpu-01", "gpu-02"], 1.5, 77))
    code, out, _ = run(capsys, "--logs", tmp_path / "logs", "--json")
    result = json.loads(out)
    assert (code, result["runs"], result["unexplained_runs"]) == (0, 31, 1)
    assert sum("another log has the same run" in note for note in result["notes"]) == 19
    for number in range(20):
        log = text_log(["gpu-01", "gpu-02"], 1.5 + number / 500, 77)
        (tmp_path / "logs" / f"copy{number}.log").write_text(log)
    assert json.loads(run(capsys, "--logs", tmp_path / "logs", "--json")[1])["undecided"] != []


def test_a_run_in_a_record_and_a_table_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """12.548 us in a record and 12.55 us in its table are one time, and differ if rounded to three digits."""
    write_runs(tmp_path, {"gpu-05": 1.4})
    log = text_log(["gpu-01", "gpu-02"], 1.0, 77)
    first_row = DIGITS.search(log)
    assert first_row
    for name, time_text in (("record", "12.548"), ("table", "12.55"), ("other-run", "12.65")):
        row = f"{first_row[1]} {time_text:>8}{first_row[0][len(first_row[1]) + 9 :]}"
        (tmp_path / f"{name}.log").write_text(log.replace(first_row[0], row))
    _, out, _ = run(capsys, "--logs", tmp_path, "--json")
    duplicates = [note for note in json.loads(out)["notes"] if "another log has the same run" in note]
    assert json.loads(out)["runs"] == 32
    assert len(duplicates) == 1
    assert "table.log" in duplicates[0]


@pytest.mark.parametrize(("times_us", "expected"), [((99.6, 100.0), True), ((99.4, 100.0), False)])
def test_equality_of_times_does_not_depend_on_their_order(times_us: tuple[float, float], expected: bool) -> None:
    point: tuple[Hashable, int] = ("all_reduce", 8)
    first, second = ({point: time_us} for time_us in times_us)
    assert group_logs._has_equal_times(first, second) is expected
    assert group_logs._has_equal_times(second, first) is expected


def test_each_unusable_file_is_named_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_runs(tmp_path, {"gpu-05": 1.4})
    log = text_log(["gpu-01", "gpu-02"], 1, 77)
    (tmp_path / "garbage.log").write_bytes(b"\x00\x01\x02garbage")
    (tmp_path / "words.log").write_text("no table at all\n")
    (tmp_path / "hostless.log").write_text(re.sub(r"#  Rank.*\n", "", log))
    (tmp_path / "cut.log").write_text(re.sub(r"#  Rank +2.*\n", "", log))
    (tmp_path / "single.log").write_text(log.replace("float", "half").replace("all_reduce", "all_gather"))
    code, out, _ = run(capsys, "--logs", tmp_path, "--json")
    notes = "\n".join(json.loads(out)["notes"])
    assert code == 5
    assert re.search(r"garbage\.log was skipped: .*is not text", notes)
    assert re.search(r"words\.log was skipped: .*has no row of a known format", notes)
    assert "hostless.log: it does not name its hosts." in notes
    assert "cut.log: its list of ranks is incomplete." in notes
    assert "single.log: fewer than 4 comparable runs." in notes


def test_without_hosts_nothing_can_be_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(6):
        log = re.sub(r"#  Rank.*\n", "", text_log(["a", "b"], 1 + number / 50, number))
        (tmp_path / f"{number}.log").write_text(log)
    code, out, err = run(capsys, "--logs", tmp_path)
    assert (code, out) == (3, "")
    for number in range(6):
        assert f"{number}.log: it does not name its hosts." in err
    assert "give 4 or more runs of one configuration on different nodes, with their hosts" in err


def test_runs_on_the_same_nodes_cannot_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(6):
        (tmp_path / f"{number}.log").write_text(text_log(["a", "b"], 1 + number / 50, number))
    code, _, err = run(capsys, "--logs", tmp_path)
    assert code == 3
    assert "no run shows which node is slow" in err


def test_a_folder_of_garbage_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text("hello\n")
    code, out, err = run(capsys, "--logs", tmp_path)
    assert (code, out) == (3, "")
    assert "a.log was skipped" in err


def test_an_unreadable_named_log_is_an_error_after_a_folder_of_garbage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The logs after the named one would be ignored without a note."""
    write_runs(tmp_path / "runs", {"gpu-05": 1.4})
    (tmp_path / "runs" / "a.log").write_text("hello\n")
    (tmp_path / "named.log").write_text("hello\n")
    code, out, err = run(capsys, "--logs", tmp_path / "runs", "--logs", tmp_path / "named.log")
    assert (code, out) == (2, "")
    assert "named.log has no row of a known format" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--logs", "x", "--simulate", "4x8"], "--simulate and --logs exclude each other"),
        (["--logs", "x", "--pairs"], "--logs measures nothing, so --pairs has no effect"),
        (["--logs", "x", "--fault", "nic:0/0:2"], "--fault is only for --simulate"),
        (["--logs", "/nonexistent"], '"/nonexistent" is neither a file nor a run'),
    ],
)
def test_a_wrong_option_is_an_error(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert message in err
