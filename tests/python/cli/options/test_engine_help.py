"""The parts of the engine's help: flags with values, and notes."""

import re

import pytest
from conftest import ROOT

from busbw.cli.options.engine_help import EngineFlag, parse_help

HELP = """\
Usage: all_reduce_perf [options]
all_reduce_perf reduces a buffer.
Measures a sweep.
Example: all_reduce_perf -t 4

Ranks:
  -t, --nthreads N                      threads (default 1)
      --backend auto|host|nccl          backend; auto: GPUs if present (default auto)

Data:
  -d, --datatype TYPE                   int8 float all (default float)
  -a, --average 0..3                    combine times (default 1)
  -J, --output_file FILE                also write FILE.json

  -h, --help                            print this text

Environment: A (one
and more), B.
Exit codes: 0 good.
"""


def flag(name: str) -> EngineFlag:
    return next(flag for flag in parse_help(HELP).flags if name in flag.names)


def test_flags_have_names_placeholder_help_and_section() -> None:
    parts = parse_help(HELP)
    assert {heading: len(flags) for heading, flags in parts.sections.items()} == {"Ranks": 2, "Data": 3, "": 1}
    assert flag("-t") == EngineFlag("-t", "--nthreads", "N", "threads (default 1)")
    assert flag("--backend").names == ("--backend",)
    assert flag("-h").placeholder == ""
    assert parts.summary == "Measures a sweep."
    assert parts.notes == ("Environment: A (one and more), B.", "Exit codes: 0 good.")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("--backend", ("auto", "host", "nccl")),
        ("-d", ("int8", "float", "all")),
        ("-a", ("0", "1", "2", "3")),
        ("-t", ()),
        ("-J", ()),
        ("--help", ()),
    ],
)
def test_values_that_can_be_listed(name: str, values: tuple[str, ...]) -> None:
    assert flag(name).values == values


def test_a_file_is_no_list_of_values() -> None:
    assert [one.long for one in parse_help(HELP).flags if one.takes_file] == ["--output_file"]


def test_the_placeholders_are_those_of_the_flag_table() -> None:
    """A new spelling of a list of values would otherwise stop its completion."""
    table = (ROOT / "engine" / "options" / "flag_table.cpp").read_text()
    placeholders = set(re.findall(r'\{"[^"]*", "--[^"]+", "([^"]+)"', table))
    known = {
        "COMMAND",
        "N",
        "SIZE",
        "LIST",
        "RANK",
        "RANKS",
        "RULE",
        "SECONDS",
        "SHARE",
        "TIME",
        "FAULT",
        "TYPE",
        "OP",
        "FILE",
        "PATH",
        "PATTERN",
        "NEIGHBOR",
    }
    assert {name for name in placeholders if not re.fullmatch(r"[\w|]+\|\w+|\d\.\.\d", name)} == known
