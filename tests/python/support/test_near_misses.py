"""Suggestions for misspelled names, and that no flag of the engine is mistaken for a misspelled option."""

import re
from pathlib import Path

import pytest

from busbw.cli.options.engine_flags import reject_near_miss_options
from busbw.cli.run import run
from busbw.errors import UsageError
from busbw.support.near_misses import near_misses, suggestion
from busbw.system import systems

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("word", "names", "expected"),
    [
        ("flaot", ["half", "float", "double"], ["float"]),
        ("FLOAT", ["half", "float"], ["float"]),
        ("h100", ["a100", "h100-pcie", "h100-sxm", "h200"], ["h100-pcie", "h100-sxm"]),
        ("H100_SXM", ["h100-pcie", "h100-sxm"], ["h100-sxm"]),
        ("complex", ["half", "float"], []),
        ("x", ["abc", "xyz"], []),
        ("", ["half"], []),
    ],
)
def test_near_names(word: str, names: list[str], expected: list[str]) -> None:
    assert near_misses(word, names) == expected


def test_the_text_of_a_suggestion() -> None:
    assert suggestion("flaot", ["float"]) == "did you mean float? "
    assert suggestion("h10", ["h100-pcie", "h100-sxm"]) == "did you mean h100-pcie or h100-sxm? "
    assert suggestion("zzz", ["float"]) == ""


def test_a_short_name_of_a_system_names_its_variants() -> None:
    assert "h100-sxm" in near_misses("h100", systems())
    assert all(name.startswith("h100-") for name in near_misses("h100", systems()))


@pytest.mark.parametrize("word", ["--rank", "--rank=4", "--rnaks", "--preloads", "--stor"])
def test_a_misspelled_option_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="did you mean --"):
        reject_near_miss_options(["all_reduce", word], run)


def test_no_flag_of_the_engine_is_refused() -> None:
    source = (ROOT / "engine/options/flag_table.cpp").read_text()
    flags = re.findall(r'"(--[a-z][a-z_-]+)"', source)
    assert len(flags) > 40
    reject_near_miss_options([*flags, "-t", "--", "all_reduce"], run)
