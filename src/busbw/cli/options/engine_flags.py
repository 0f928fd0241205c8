"""The engine's part of a command line: the collective, then its flags, which are those of nccl-tests.

This module only finds flags, and reads the few values on which a default depends. The engine checks all flags.
"""

from collections.abc import Sequence
from itertools import zip_longest

import click

from busbw import engine
from busbw.collectives import COLLECTIVES, COMM_OPS
from busbw.errors import UsageError
from busbw.support.near_misses import near_misses, suggestion

_OPTION_SIMILARITY = 0.85
"""Similarity from which an unknown flag counts as a misspelled option of the command."""
_MIN_OPTION_LENGTH = len("--") + 3
"""Minimum length of a word that may be a misspelled option. A shorter word is the beginning of too many options."""
_SHORT_NAMES = {
    "--nthreads": "-t",
    "--ngpus": "-g",
    "--minbytes": "-b",
    "--maxbytes": "-e",
    "--stepbytes": "-i",
    "--stepfactor": "-f",
    "--check": "-c",
    "--iters": "-n",
}
"""Short names of the long flags that this module or a command looks for."""


def parse_collective(words: Sequence[str], allowed: Sequence[str] = COLLECTIVES) -> str:
    """Returns the collective, which must be the first word. `allowed`: PROGRAMS to accept comm_ops too.

    Raises:
        UsageError: The first word is missing or is not allowed.
    """
    if not words:
        raise UsageError("no collective is given", remedy=f"give one of {', '.join(allowed)}")
    if words[0].startswith("-"):
        raise UsageError(
            f'"{words[0]}" is in the place of the collective',
            remedy="put the collective first, then the engine's flags",
        )
    return find_collective(words[0], allowed=allowed)


def find_collective(name: str, prefix: str = "", allowed: Sequence[str] = COLLECTIVES) -> str:
    """Returns the collective with this name, with or without `_perf`.

    Args:
        name: The name as typed.
        prefix: Prefix of the error message, such as "--collective: ".
        allowed: Names of collectives.

    Raises:
        UsageError: There is no such collective.
    """
    collective = engine.collective_name(name)
    if collective in allowed:
        return collective
    remedy = f"{suggestion(collective, allowed)}allowed are {', '.join(allowed)}"
    raise UsageError(f'{prefix}there is no collective "{name}"', remedy=remedy)


def long_options(command: click.Command) -> set[str]:
    """Returns the long options of a command."""
    return {name for parameter in command.params for name in parameter.opts if name.startswith("--")}


def reject_near_miss_options(words: Sequence[str], command: click.Command) -> None:
    """Refuses a misspelled option of the command, which would otherwise go to the engine as an unknown flag.

    A flag of the engine that is similar to an option would be refused too. So an option must differ from all flags.

    Args:
        words: Words that may be flags of the engine.
        command: Command with the options.

    Raises:
        UsageError: A word is similar to an option.
    """
    options = sorted(long_options(command))
    for word in words:
        name = word.partition("=")[0]
        if len(name) < _MIN_OPTION_LENGTH or not name.startswith("--") or name in options:
            continue
        if near := near_misses(name, options, min_similarity=_OPTION_SIMILARITY):
            raise UsageError(f"there is no option {name}", remedy=f"did you mean {near[0]}?")


def used_flags(words: Sequence[str]) -> set[str]:
    """Returns the engine's flags among the words, as short names if they have one.

    `--skew file:COUNTS` counts as --sizes too, because the file determines the size.
    """
    flags = set()
    for word, next_word in zip_longest(words, words[1:], fillvalue=""):
        if word.startswith("--"):
            name, equals, joined_value = word.partition("=")
            flags.add(_SHORT_NAMES.get(name, name))
            value = joined_value if equals else next_word
            if name == "--skew" and value.startswith("file:"):
                flags.add("--sizes")
        elif word.startswith("-") and word[1:2].isalpha():  # -b8 is -b with the value 8
            flags.add(word[:2])
    return flags


def rank_flags(flags: set[str]) -> tuple[str, ...]:
    """Returns flags for the default number of ranks. Empty if the user sets the ranks or the backend."""
    if flags & {"-t", "-g", "--processes", "--backend"}:
        return ()
    return ("-t", str(engine.default_ranks()))


def sweep_flags(collective: str, flags: set[str]) -> tuple[str, ...]:
    """Returns flags for the parts of the sweep that the user does not set: 8 B to 64 MiB by a factor of 2.

    Empty for comm_ops, which has no sizes.
    """
    if collective == COMM_OPS or "--sizes" in flags:
        return ()
    defaults: list[str] = []
    if "-b" not in flags:
        defaults += ["-b", "8"]
    if "-e" not in flags:
        defaults += ["-e", "64M"]
    if not flags & {"-f", "-i"}:
        defaults += ["-f", "2"]
    return tuple(defaults)


def parse_count(flag: str, words: Sequence[str]) -> int:
    """Returns the last value of a counting flag such as -t, or 1 if the words lack the flag.

    An invalid number, such as 0, counts as 1: the engine refuses it later with an error message.
    """
    spellings = {flag} | {long for long, short in _SHORT_NAMES.items() if short == flag}
    count = 1
    for word, next_word in zip_longest(words, words[1:], fillvalue=""):
        name, equals, joined_value = word.partition("=")
        if name in spellings:  # -t 4, --nthreads 4, --nthreads=4
            text = joined_value if equals else next_word
        elif word.startswith(flag):  # -t4
            text = word[len(flag) :]
        else:
            continue
        is_number = text.isascii() and text.isdigit()
        count = max(1, int(text)) if is_number else 1
    return count
