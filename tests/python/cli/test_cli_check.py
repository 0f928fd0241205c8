"""`busbw check` as a user calls it: exit codes, one screen, and what it says of logs of others."""

import json
import os
import re
from pathlib import Path

import pytest
from conftest import ROOT
from sample_logs import h200_run

from busbw.cli.main import main

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
H200_X4 = GOLDEN / "nccl_tests_2_19_6_nccl.txt"
SEEDS = GOLDEN / "seeds"


def seed(number: str) -> str:
    return str(next(SEEDS.glob(f"{number}_*")))


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["check", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def grades(shown: str) -> list[str]:
    """Of each configuration, from the summary."""
    words = ("GOOD", "SLOW", "BROKEN", "UNSURE")
    summary = shown.split("\n\n")[0].splitlines()
    return [line.split()[0] for line in summary if line.startswith(words)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nccl_tests_2_19_6_nccl.txt", ["GOOD"] * 2),
        ("nccl_tests_2_19_6_ten.txt", ["UNSURE"] + ["GOOD"] * 9),  # sendrecv has half of its busbw at 64 MiB
    ],
)
def test_a_healthy_log_is_good_on_one_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, expected: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, shown, _ = check(capsys, str(GOLDEN / name))
    assert grades(shown) == expected
    assert code == (3 if "UNSURE" in expected else 0), shown
    lines = shown.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert len(lines) <= 40
    assert "\x1b" not in shown


@pytest.mark.parametrize("columns", ["80", "60", "200"])
def test_the_summary_has_every_reason_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    log = next((GOLDEN / "seeds").glob("003_*"))
    _, shown, _ = check(capsys, str(log), "--json")
    verdicts = json.loads(shown)["verdicts"]
    _, shown, _ = check(capsys, str(log))
    summary = " ".join(shown.split("\n\n")[0].split())
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    for verdict in verdicts:
        assert " ".join(verdict["reasons"][0].split()) in summary
    assert max(map(len, shown.splitlines())) <= int(columns)


HOST_RUN = """# nccl-tests version 2.19.6 nccl-headers=none nccl-library=none busbw=0.1.0 backend=host
# Collective test starting: all_reduce_perf
# nThread 2 nGpus 1 minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1
#
# Using devices
#  Rank  0 Group  0 Pid   1463 on         vm device  0 [cpu] AMD EPYC
#  Rank  1 Group  0 Pid   1463 on         vm device  1 [cpu] AMD EPYC
#
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
"""


def host_run(path: Path, times: float = 1.0, *, wrong: int = 0, ends: bool = True, decimals: int = 2) -> str:
    """A text of the host backend: 5 us, and 2 GB/s for large sizes, all of it `times` as slow."""
    lines = []
    for power in range(3, 25):
        size = 1 << power
        time = (5 + size / 2e3) * times
        busbw = f"{size / time / 1e3:.{decimals}f}"
        side = f"{time:.2f} {busbw} {busbw}"
        lines.append(f"{size} {size // 4} float sum -1 {side} {wrong if power == 20 else 0} {side} 0")
    footer = f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}\n# Avg bus bandwidth    : 1.0\n"
    path.write_text(
        HOST_RUN
        + "\n".join(lines)
        + "\n"
        + (footer if ends else "")
        + ("#\n# Collective test concluded: all_reduce_perf\n" if ends else "")
    )
    return str(path)


def test_a_host_run_alone_is_unsure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, shown, _ = check(capsys, host_run(tmp_path / "run.txt"))
    assert code == 3
    assert " ".join(shown.split()).count("--reference FILE") == 1, "as the next step, not also as a reason"
    assert "nearest published" not in shown, "published figures are of GPUs"


@pytest.mark.parametrize("slowness", [1.0, 3e3])
def test_columns_of_the_bands_do_not_collide(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slowness: float
) -> None:
    """Each cell of a very slow run is a word of its own: the figures have neither exponents nor too many digits."""
    monkeypatch.setenv("COLUMNS", "80")
    good = host_run(tmp_path / "good.txt")
    _, shown, _ = check(capsys, host_run(tmp_path / "run.txt", slowness), "--reference", good)
    lines = [line for line in shown.splitlines() if re.match("  (band|latency|middle|plateau) ", line)]
    heading, *bands = lines
    assert heading.split() == ["band", "sizes", "worst", "at", "measured", "expected", "vs", "typical"]
    assert len(bands) == 3
    size, figure, distance = r"[\d.]+ ([KMG]i)?B", r"[\d.,]+", r"([+-]\d+|0) %"
    for line in bands:
        sizes = rf"{size}( - {size})? +{size}"
        cells = rf"  [a-z]+ +[A-Z]+ +{sizes} +{figure} (us|GB/s) +{figure} - {figure} +{distance}"
        assert re.fullmatch(cells, line), line
        assert len(line) <= 80
        assert "e+" not in line


def test_small_figures_are_short(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good = host_run(tmp_path / "good.txt")
    _, shown, _ = check(capsys, host_run(tmp_path / "run.txt", 500, decimals=5), "--reference", good)
    [latency] = [line for line in shown.splitlines() if line.startswith("  latency ")]
    assert " 2,502 us " in latency  # 8 B take 5.004 us in the good run
    [plateau] = [line for line in shown.splitlines() if line.startswith("  plateau ")]
    assert re.search(r" 0\.0039 GB/s ", plateau), plateau


def test_a_band_with_one_size_names_it_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good = Path(host_run(tmp_path / "good.txt"))
    one = tmp_path / "one.txt"
    lines = good.read_text().splitlines(keepends=True)
    one.write_text("".join(line for line in lines if line.startswith(("#", "1024 "))))
    _, shown, _ = check(capsys, str(one), "--reference", str(good))
    [latency] = [line for line in shown.splitlines() if line.startswith("  latency ")]
    assert re.fullmatch(r"  latency +[A-Z]+ +1 KiB +1 KiB .*", latency), latency


# Two starts may be 2.25 times apart. That range would accept a fault, so from 2 times on it confirms nothing.
@pytest.mark.parametrize(("times", "code"), [(1.0, 0), (1.02, 0), (0.5, 0), (1.9, 0), (2.2, 3), (2.5, 5)])
def test_a_host_run_against_a_good_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, times: float, code: int
) -> None:
    good = host_run(tmp_path / "good.txt")
    assert check(capsys, host_run(tmp_path / "run.txt", times), "--reference", good)[0] == code


def test_wrong_data_is_broken(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, shown, _ = check(capsys, host_run(tmp_path / "run.txt", wrong=4))
    assert code == 1
    assert shown.startswith("BROKEN")
    assert "4 wrong, out of place" in shown


def test_a_footer_counts_without_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, str(GOLDEN / "text_wrong_data.txt"))[0] == 1


def test_a_run_that_ended_early_is_not_good(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good = host_run(tmp_path / "good.txt")
    code, shown, _ = check(capsys, host_run(tmp_path / "run.txt", ends=False), "--reference", good)
    assert code == 3
    assert "killed or is still running" in shown


@pytest.mark.parametrize(
    ("number", "options", "expected", "code"),
    [
        ("000", [], ["GOOD", "SLOW", "SLOW", "GOOD", "GOOD", "SLOW"], 5),
        ("002", ["--system", "h100-sxm"], ["GOOD"] * 4, 0),
        ("002", [], ["UNSURE"] * 4, 3),
        ("003", ["--system", "h100-p5"], ["SLOW", "GOOD", "SLOW"], 5),
        ("003", ["--system", "a100-p4d"], ["GOOD", "UNSURE", "UNSURE"], 3),
        # The third run has no peer access: 6.7 GB/s, where the same GPUs reach 10 to 12.
        ("004", [], ["UNSURE", "GOOD", "UNSURE"], 3),
    ],
)
def test_verdicts_on_published_reports(
    capsys: pytest.CaptureFixture[str], number: str, options: list[str], expected: list[str], code: int
) -> None:
    got, shown, _ = check(capsys, seed(number), *options)
    assert grades(shown) == expected
    assert got == code


def test_both_kernels_get_the_same_grade(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = check(capsys, seed("001"), "--system", "h200-sxm")
    found = grades(shown)
    assert code == 5
    assert len(found) == 20
    assert found[0::2] == found[1::2]


def test_a_report_names_likely_causes(capsys: pytest.CaptureFixture[str]) -> None:
    _, shown, _ = check(capsys, seed("000"), "--all")
    assert shown.count("is typical of Ring") == 2
    assert "the figures fit" in shown.replace("\n             ", " ")


def test_the_published_table_is_its_own_nearest_reference(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = check(capsys, seed("004"), "--reference", "auto", "--all")
    assert code == 3  # one of the tables is of one rank
    assert "nearest published: v100-pcie-x2-nc12s-v3" in shown
    assert grades(shown)[1:] == ["GOOD", "GOOD"]


def test_a_published_table_is_not_compared_with_itself(capsys: pytest.CaptureFixture[str]) -> None:
    _, shown, _ = check(capsys, seed("000"), "--all")
    assert not re.search(r": ([\d.,]+) GB/s there, \1 here", " ".join(shown.split()))
    assert "h800-x16-k8s" not in shown
    _, shown, _ = check(capsys, str(GOLDEN / "logs" / "h200_x4_sweep_c1.txt"))
    assert "363 GB/s there, 362.8 here" in " ".join(shown.split()), "another run of the same machine"


def test_auto_without_a_gpu_decides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = check(capsys, seed("003"), "--reference", "auto")
    assert code == 3
    assert "does not state its GPU" in shown


def test_json_has_grade_and_bands(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = check(capsys, seed("000"), "--json")
    told = json.loads(shown)
    assert code == 5
    assert told["grade"] == "SLOW"
    assert [one["grade"] for one in told["verdicts"]] == ["GOOD", "SLOW", "SLOW", "GOOD", "GOOD", "SLOW"]
    assert told["verdicts"][1]["bands"][-1]["band"] == "plateau"


def test_several_logs_are_listed_worst_first(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    good, broken = str(GOLDEN / "nccl_tests_2_19_6_ten.txt"), host_run(Path("broken.txt"), wrong=3)
    unsure = host_run(Path("unsure.txt"))
    code, shown, _ = check(capsys, good, unsure, seed("000"), broken)
    assert code == 1
    listed = grades(shown)
    assert listed == sorted(listed, key=["BROKEN", "SLOW", "UNSURE", "GOOD"].index)
    assert listed.count("SLOW") == 3
    assert f"BROKEN {broken}: all_reduce" in shown
    details = shown.split("\n\n", 1)[1]
    assert details.startswith(f"BROKEN  {broken}: ")
    assert "wrong data" in details


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        (["good", "unsure"], 3),
        (["good", "unsure", "slow"], 5),
        (["good"], 0),
        (["slow", "wrong"], 1),
        (["good", "unreadable"], 3),
        (["slow", "unreadable"], 5),
    ],
)
def test_the_exit_code_of_a_folder_is_that_of_the_worst_log(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kinds: list[str], code: int
) -> None:
    reference = host_run(tmp_path / "reference.log")
    folder = tmp_path / "logs"
    folder.mkdir()
    for kind in kinds:
        path = folder / f"{kind}.txt"
        if kind == "unsure":  # no common configuration with the reference
            path.write_text("# rows of another kind\n" + (GOLDEN / "text_magnitudes.txt").read_text())
        elif kind == "unreadable":  # for example because its run was killed early
            path.write_text("srun: error: node7: task 0: Killed\n")
        else:
            host_run(path, {"slow": 3.0}.get(kind, 1.0), wrong=int(kind == "wrong"))
    got, shown, _ = check(capsys, str(folder), "--reference", reference, "--json")
    told = json.loads(shown)
    assert {Path(one["log"]).stem for one in told["verdicts"]} == set(kinds) - {"unreadable"}
    assert got == code, [(one["log"], one["grade"], one["reasons"]) for one in told["verdicts"]]
    assert any("unreadable.txt was skipped" in note for note in told["notes"]) == ("unreadable" in kinds)
    assert ("the result is UNSURE: 1 file could not be judged" in told["notes"]) == (kinds == ["good", "unreadable"])


@pytest.mark.parametrize("name", ["README.md", "readme.txt", "notes.md"])
def test_a_document_next_to_logs_does_not_change_the_result(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    reference = host_run(tmp_path / "reference.log")
    folder = tmp_path / "logs"
    folder.mkdir()
    host_run(folder / "good.txt")
    quote = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1\n"
    (folder / name).write_text(f"Logs of the acceptance test, with NCCL 2.28.\n{quote}")
    code, shown, _ = check(capsys, str(folder), "--reference", reference, "--json")
    told = json.loads(shown)
    assert (code, told["grade"]) == (0, "GOOD")
    assert f"{folder / name} is a document without rows and is left out." in told["notes"]


def test_further_logs_of_a_folder_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "tests/golden/logs/h200_x4_sweep_c1.txt").read_text()
    names = [
        "a.log",
        "stdout",
        "job/b.log",
        "job/deep/c",
        "20261129T093641Z-all_reduce-ab/d.log",
        ".hidden/e.log",
        "f.sh",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("echo\n" if name == "f.sh" else text)
    os.mkfifo(tmp_path / "pipe")
    assert main(["check", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {Path(one["log"]).name for one in told["verdicts"]} == {"a.log"}
    files = ", ".join(str(tmp_path / name) for name in ("stdout", "job/b.log", "job/deep/c"))
    assert told["notes"] == [
        f"{tmp_path} has 3 logs more, in folders or without the suffix of a log: {files}; name them or their folders."
    ]
    assert (
        main(["check", str(tmp_path), *(str(tmp_path / name) for name in ("stdout", "job", "job/deep/c")), "--json"])
        == 0
    )
    assert not any("more" in note for note in json.loads(capsys.readouterr().out)["notes"])


def test_a_log_without_a_verdict_is_not_good(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good = host_run(tmp_path / "good.txt")
    refused = tmp_path / "refused.txt"
    refused.write_text("".join(line + " 7 7\n" for line in Path(good).read_text().splitlines() if line[0].isdigit()))
    code, shown, _ = check(capsys, good, str(refused), "--reference", good, "--json")
    told = json.loads(shown)
    assert (code, told["grade"]) == (3, "UNSURE")
    assert {one["grade"] for one in told["verdicts"] if one["log"] == good} == {"GOOD"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.txt"], "nowhere.txt"),
        ([str(H200_X4), "--reference", "nowhere"], 'no reference "nowhere"'),
        ([str(H200_X4), "--reference", "nowhere.toml"], "cannot read nowhere.toml"),
        ([str(H200_X4), "--system", "nowhere"], 'no system "nowhere"'),
        ([str(H200_X4), "--nics", ""], '--nics "" is not COUNTxGBIT'),
        ([str(H200_X4), "--system", "h200-sxm", "--nics", "many"], '--nics "many" is not COUNTxGBIT'),
    ],
)
def test_a_usage_error_is_one_sentence_and_exit_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    code, shown, said = check(capsys, *arguments)
    assert code == 2
    assert shown == ""
    assert len(said.splitlines()) == 1
    assert words in said


def test_nics_apply_to_any_system(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, shown, _ = check(capsys, seed("000"), "--nics", "1x100", "--all")
    assert code == 5  # the tables of one node are as slow as before
    assert "over 1 x 100 Gb/s per node" in shown


@pytest.mark.parametrize("content", [b"", b"\x00\xff\x7fELF" * 100, b"nothing to see\n"])
def test_a_file_without_rows_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd"
    path.write_bytes(content)
    code, _, said = check(capsys, str(path))
    assert code == 2
    assert len(said.splitlines()) == 1


def test_a_log_cut_in_its_first_row_is_unsure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "cut.txt"
    path.write_text(
        "#    size      count   type   redop    root     time   algbw   busbw #wrong   time   algbw busbw #wrong\n"
        "#     (B) (elements)                          (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
        "           8             2     float     sum      -1    19.74    0.00    0.00       0    18.49    0.00    0"
    )
    code, shown, _ = check(capsys, str(path))
    assert code == 3
    assert "no rows were read" in shown
    assert "1 line refused" in shown


def test_a_log_cut_in_a_row_is_not_good(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good = host_run(tmp_path / "good.txt")
    path = tmp_path / "cut.txt"
    text = Path(good).read_text()
    path.write_text(text[: text.rindex("1048576") + 30])
    code, shown, _ = check(capsys, str(path), "--reference", good)
    assert code == 3
    assert "UNSURE" in shown


def test_a_log_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    text = Path(host_run(path)).read_text().replace("AMD EPYC", "AMD\x1b[2J EPYC").replace("float", "fl\x1boat")
    path.write_text(text)
    shown = check(capsys, str(path), "--reference", host_run(tmp_path / "good.txt"))[1]
    assert "\x1b" not in shown
    assert shown


@pytest.mark.parametrize("times", [0.9444, 1.0, 12.3, 1234.5])
def test_columns_are_separated(capsys: pytest.CaptureFixture[str], tmp_path: Path, times: float) -> None:
    good, run = host_run(tmp_path / "good.txt"), host_run(tmp_path / "run.txt", times)
    _, shown, _ = check(capsys, run, "--reference", good)
    bands = [line for line in shown.splitlines() if line.split()[:1] in (["latency"], ["middle"], ["plateau"])]
    assert len(bands) == 3
    assert all(re.search(r" - \S+ +([+-]\d+|0) %$", line) for line in bands), shown


def test_a_late_rank_is_named_whichever_verdict_is_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The record has three configurations, and rank 1 on host b is late in all of them."""
    code, shown, _ = check(capsys, str(GOLDEN / "records.jsonl"))
    assert code == 1
    summary = shown.split("\n\n")[0]
    assert summary.count("rank 1 on b") == 3


def test_equal_verdicts_share_a_line_and_the_worst_is_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A soak test: the same command 150 times, 3 of them slow."""
    monkeypatch.setenv("COLUMNS", "200")
    log = tmp_path / "soak.txt"
    log.write_text("".join(h200_run(4.0 if number in (17, 71, 130) else 1.0) for number in range(1, 151)))
    code, shown, _ = check(capsys, str(log))
    assert code == 5
    summary, details = shown.split("\n\n")
    counts, slow, good = summary.splitlines()
    assert counts == "3 SLOW, 147 GOOD"
    assert slow.startswith("SLOW   all_reduce float sum, 4 ranks in tables 17, 71, 130; in table 17: ")
    assert good.startswith("GOOD   all_reduce float sum, 4 ranks in tables 1, 2, 3, 4 and 143 more; in table 1: ")
    assert details.startswith("SLOW  all_reduce float sum, 4 ranks\n")
    _, shown, _ = check(capsys, str(log), "--json")
    assert len(json.loads(shown)["verdicts"]) == 150
    _, shown, _ = check(capsys, str(log), "--all")
    assert shown.count("against") == 150


@pytest.mark.parametrize("operators", [["sum"], ["sum", "max"], ["sum", "max", "min", "sum"]])
@pytest.mark.parametrize("count", [4, 9, 10, 25])
def test_adjacent_verdicts_with_one_reason_share_a_line_with_all_titles(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    operators: list[str],
) -> None:
    """Tables of CPUs have no expectation."""
    monkeypatch.setenv("COLUMNS", "500")
    table = Path(host_run(tmp_path / "table.txt")).read_text()
    used = [operators[number % len(operators)] for number in range(count)]
    log = tmp_path / "log.txt"
    log.write_text("".join(table.replace("float sum", f"float {operator}") for operator in used))
    _, shown, _ = check(capsys, str(log))
    counts, *lines = shown.split("\n\n")[0].splitlines()
    assert counts == f"{count} UNSURE"
    if count < 10:
        assert [line.split(":")[0] for line in lines] == [f"UNSURE all_reduce float {op}, 2 ranks" for op in used]
    else:
        titles = "; ".join(f"all_reduce float {operator}, 2 ranks" for operator in dict.fromkeys(used))
        assert [line.split(": ")[0] for line in lines] == [f"UNSURE {count} verdicts ({titles})"]


def test_different_verdicts_beyond_the_limit_are_counted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(105):
        (folder / f"{number:03}.txt").write_text(h200_run(wrong=int(number >= 100)))
    code, shown, _ = check(capsys, str(folder))
    assert code == 1
    counts, *lines, hidden = shown.split("\n\n")[0].splitlines()
    assert counts == "5 BROKEN, 100 GOOD"
    grades = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert grades == ["BROKEN"] * 5 + ["GOOD"] * 95
    assert hidden == "and 5 GOOD; `busbw check --json` has all verdicts"
