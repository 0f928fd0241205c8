"""Engine flags in a command line, and their completion."""

from collections.abc import Sequence

import pytest
from click.shell_completion import ShellComplete

from busbw import engine
from busbw.cli.main import cli
from busbw.cli.options.engine_flags import parse_collective, parse_count, rank_flags, used_flags
from busbw.errors import UsageError


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["-t", "4"], {"-t"}),
        (["-t4"], {"-t"}),
        (["--nthreads=4"], {"-t"}),
        (["--check", "0"], {"-c"}),
        (["--sizes", "8,1M", "-o", "sum"], {"--sizes", "-o"}),
        (["--timeout", "-1"], {"--timeout"}),
        (["--skew", "zipf:1"], {"--skew"}),
        (["--skew", "file:f.txt"], {"--skew", "--sizes"}),  # the file determines the size
        (["--skew=file:f.txt", "-n5"], {"--skew", "--sizes", "-n"}),
        ([], set()),
    ],
)
def test_flags_have_one_name_in_every_form(words: list[str], flags: set[str]) -> None:
    assert used_flags(words) == flags


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ([], 1),
        (["-t", "4"], 4),
        (["--nthreads=4", "-t8"], 8),
        (["-t", "many"], 1),
        (["-t", "0"], 1),  # the engine refuses it; until then GPUs are divided by the count
    ],
)
def test_an_invalid_count_is_one(words: list[str], count: int) -> None:
    assert parse_count("-t", words) == count


def test_ranks_are_chosen_only_if_none_are_given() -> None:
    assert rank_flags(set())[0] == "-t"
    assert [rank_flags({flag}) for flag in ("-t", "-g", "--processes", "--backend")] == [()] * 4


@pytest.mark.parametrize(("processors", "ranks"), [(1, 2), (2, 2), (3, 3), (4, 4), (128, 4)])
def test_host_ranks_do_not_share_processors(monkeypatch: pytest.MonkeyPatch, processors: int, ranks: int) -> None:
    monkeypatch.setattr("busbw.engine.gpu_count", lambda: 0)
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: set(range(processors)))
    assert rank_flags(set()) == ("-t", str(ranks))


def test_gpus_have_one_rank_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbw.engine.gpu_count", lambda: 8)
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: {0, 1})
    assert rank_flags(set()) == ("-t", "8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no collective is given"),
        (["-n", "5"], '"-n" is in the place of the collective'),
        (["all_redcue"], "did you mean all_reduce"),
    ],
)
def test_words_without_a_collective_first_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_collective(words)


PROGRAM_FLAGS = {
    "": ["-b, --minbytes SIZE", "-n, --iters N"],
    "comm_ops": ["    --create TYPE", "-n, --iters N"],
    "replay": ["-n, --iters N"],
}
"""Flags of each program, as its help lists them."""


@pytest.fixture
def fake_help(monkeypatch: pytest.MonkeyPatch) -> None:
    def help_text(program: str = "") -> str:
        lines = "\n".join(f"  {flag:<38}text" for flag in PROGRAM_FLAGS[program])
        return f"Usage: x\nPurpose.\nSummary.\n\nFlags:\n{lines}\n"

    monkeypatch.setattr(engine, "help_text", help_text)


def proposals(words: Sequence[str], beginning: str) -> set[str]:
    items = ShellComplete(cli, {}, "busbw", "_BUSBW_COMPLETE").get_completions(list(words), beginning)
    return {item.value for item in items}


@pytest.mark.usefixtures("fake_help")
@pytest.mark.parametrize(
    ("words", "engine_flags"),
    [
        (["run", "all_reduce"], {"-b", "-n"}),
        (["run", "comm_ops"], {"-n", "--create"}),
        (["replay", "run-1"], {"-n"}),
        (["replay", "all_reduce"], {"-n"}),
        (["ab", "replay", "run-1"], {"-n"}),
        (["tune", "replay", "run-1"], {"-n"}),
        (["ab", "all_reduce"], {"-b", "-n"}),
        (["launch", "ssh", "--", "all_reduce"], {"-b", "-n"}),
    ],
)
def test_the_flags_of_the_started_program_are_proposed(words: list[str], engine_flags: set[str]) -> None:
    assert proposals(words, "-") & {"-b", "-n", "--create"} == engine_flags
