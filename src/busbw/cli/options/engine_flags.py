"""What stands on a command line for the engine: the collective first, then its own flags."""

import difflib
from collections.abc import Sequence

from busbw import engine
from busbw.errors import UsageError

_SHORT_NAMES = {
    "--nthreads": "-t",
    "--ngpus": "-g",
    "--minbytes": "-b",
    "--maxbytes": "-e",
    "--stepbytes": "-i",
    "--stepfactor": "-f",
    "--check": "-c",
}


def named_collective(words: Sequence[str]) -> str:
    """The collective of a command line that begins with one.

    Raises:
        UsageError: It does not.
    """
    if not words:
        raise UsageError("no collective is named", remedy=f"name one of {', '.join(engine.COLLECTIVES)}")
    if words[0].startswith("-"):
        raise UsageError(
            f'"{words[0]}" stands where the collective belongs', remedy="name it first, then the engine's options"
        )
    return known_collective(words[0])


def known_collective(name: str, before: str = "") -> str:
    """The collective of that name, with or without `_perf`.

    Args:
        name: As the user has it.
        before: What the sentence begins with, where the name is an option's: "--collective: ".

    Raises:
        UsageError: There is none.
    """
    if collective := engine.collective_of(name):
        return collective
    allowed = ", ".join(engine.COLLECTIVES)
    close = difflib.get_close_matches(name, engine.COLLECTIVES, n=1)
    remedy = f"did you mean {close[0]}? Allowed are {allowed}" if close else f"allowed are {allowed}"
    raise UsageError(f'{before}there is no collective "{name}"', remedy=remedy)


def used_flags(words: Sequence[str]) -> set[str]:
    """The engine's flags among the words, in their short names where they have one."""
    flags = set()
    for word in words:
        if word.startswith("--"):
            name = word.partition("=")[0]
            flags.add(_SHORT_NAMES.get(name, name))
        elif word.startswith("-") and word[1:2].isalpha():
            flags.add(word[:2])
    return flags


def rank_flags(given: set[str]) -> tuple[str, ...]:
    """THE CHOICE OF RANKS: what runs the collective when the user does not say."""
    if given & {"-t", "-g", "--processes", "--backend"}:
        return ()
    return ("-t", str(engine.default_ranks()))


def sweep_flags(given: set[str]) -> tuple[str, ...]:
    """The part of the sweep that the user left open: 8 B to 64 MiB by a factor of 2."""
    if "--sizes" in given:
        return ()
    chosen: tuple[str, ...] = () if "-b" in given else ("-b", "8")
    chosen += () if "-e" in given else ("-e", "64M")
    return chosen + (() if given & {"-f", "-i"} else ("-f", "2"))


def count_of(flag: str, words: Sequence[str]) -> int:
    """The last value that the words give to a flag that counts something, such as -t; 1 where there is none.

    What is no number counts as 1 here: the engine refuses it and says why.
    """
    names = {flag} | {long for long, short in _SHORT_NAMES.items() if short == flag}
    count = 1
    for word, following in zip(words, (*words[1:], ""), strict=False):
        name, equals, value = word.partition("=")
        if name in names:
            text = value if equals else following
        elif word.startswith(flag):
            text = word[len(flag) :]
        else:
            continue
        count = int(text) if text.isascii() and text.isdigit() else 1
    return count
