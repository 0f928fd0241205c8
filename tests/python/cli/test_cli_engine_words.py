"""Completion of engine flags: each command proposes the flags of the program that it starts."""

from collections.abc import Sequence

import pytest
from click.shell_completion import ShellComplete

from busbw import engine
from busbw.cli.main import cli

FLAGS = {
    "": ["-b, --minbytes SIZE", "-n, --iters N"],
    "comm_ops": ["    --create TYPE", "-n, --iters N"],
    "replay": ["-n, --iters N"],
}
"""Flags of each program, as its help lists them."""


@pytest.fixture(autouse=True)
def fake_help(monkeypatch: pytest.MonkeyPatch) -> None:
    def help_text(program: str = "") -> str:
        lines = "\n".join(f"  {flag:<38}text" for flag in FLAGS[program])
        return f"Usage: x\nPurpose.\nSummary.\n\nFlags:\n{lines}\n"

    monkeypatch.setattr(engine, "help_text", help_text)


def proposals(words: Sequence[str], beginning: str) -> set[str]:
    items = ShellComplete(cli, {}, "busbw", "_BUSBW_COMPLETE").get_completions(list(words), beginning)
    return {item.value for item in items}


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
