"""Parses and writes tables of the fast path: the method for each collective, number of ranks and size.

fastpath/choice/table.hpp describes the text format, which the library parses in C++.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from itertools import groupby

from busbw.collectives import collectives
from busbw.errors import UsageError
from busbw.units import parse_size, plain

TABLE_VARIABLE = "BUSBW_FASTPATH_TABLE"
METHOD_VARIABLE = "BUSBW_FASTPATH_METHOD"
"""Variable with one method config for every size, such as `exchange,32,512`. It replaces the table."""

_NVLS_VARIABLE, _WITHOUT_NVLS = "NCCL_NVLS_ENABLE", "_without_nvls"
"""NCCL's variable for NVLS (NVLink multicast), and the suffix of tables that are used if the variable is 0."""

NCCL = "nccl"
WINDOWS = "windows"
DIRECT = "direct"
EXCHANGE = "exchange"
_ALL_METHODS = {name: collective.fast_methods for name, collective in collectives().items() if collective.fast_methods}
METHODS = {name: tuple(method for method in methods if method != DIRECT) for name, methods in _ALL_METHODS.items()}
"""Methods of the fast path for each collective, besides `nccl`."""
METHODS_IN_WINDOWS = {name: (DIRECT, *METHODS[name]) for name, methods in _ALL_METHODS.items() if DIRECT in methods}
"""Methods for calls with buffers in symmetric windows. The other collectives do not use windows."""

MAX_RANKS = 64
"""Maximum number of ranks in a line of a table."""
MAX_FAST_RANKS = 8
"""Maximum number of ranks on the fast path. Communicators with more ranks are delegated to NCCL."""
MAX_BLOCKS = 256
MAX_THREADS = 512
WARP_THREADS = 32

_WORD = re.compile(r"[^ \t\r]+")
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
"""Number without leading zeros."""
_EXAMPLE_LINE = "all_reduce ranks=4 up_to=64K exchange blocks=8 threads=512"


@dataclass(frozen=True)
class TableRange:
    """One line: the method for sizes above the limit of the previous line, up to `up_to_bytes`."""

    collective: str
    min_ranks: int
    max_ranks: int
    up_to_bytes: int
    """Largest size in bytes: the larger of a rank's two buffers, as nccl-tests counts sizes."""
    method: str = NCCL
    blocks: int = 0
    threads: int = 0
    """Per block. Blocks and threads are 0 if the method is `nccl`."""
    note: str = ""
    """Comment at the end of the line."""
    in_windows: bool = False
    """True if the line is for calls with buffers in symmetric windows. Without such lines, the other lines apply."""

    @property
    def text(self) -> str:
        """Text of the line."""
        ranks = f"{self.min_ranks}" + (f"-{self.max_ranks}" if self.max_ranks > self.min_ranks else "")
        windows = [WINDOWS] if self.in_windows else []
        words = [self.collective, f"ranks={ranks}", *windows, f"up_to={table_size_text(self.up_to_bytes)}", self.method]
        if self.method != NCCL:
            words += [f"blocks={self.blocks}", f"threads={self.threads}"]
        return " ".join(words) + (f"  # {self.note}" if self.note else "")


def table_size_text(size_bytes: int) -> str:
    """Text of a size in tables and command lines: 64K."""
    largest_unit = next(unit for unit in ("G", "M", "K", "") if size_bytes % _UNITS[unit] == 0)
    return f"{size_bytes // _UNITS[largest_unit]}{largest_unit}"


def parse(table: str, source: str) -> list[TableRange]:
    """Parses the lines of a table.

    Raises:
        UsageError: A line is invalid. The error names the source, the line and the allowed values.
    """
    ranges: list[TableRange] = []
    range_ends: dict[tuple[str, int, bool], int] = {}
    for line_number, line in enumerate(table.split("\n"), start=1):
        words = _WORD.findall(line.partition("#")[0])
        if not words:
            continue
        try:
            ranges.append(_parse_line(words))
            _record_range_end(range_ends, ranges[-1])
        except UsageError as error:
            raise UsageError(f"{source}:{line_number}: {error.problem}", remedy=error.remedy) from None
    return ranges


def _record_range_end(range_ends: dict[tuple[str, int, bool], int], line: TableRange) -> None:
    """Records the size in bytes at which a range ends, by collective, number of ranks and windows.

    Raises:
        UsageError: The range ends before it begins.
    """
    for ranks in range(line.min_ranks, line.max_ranks + 1):
        previous_end = range_ends.get((line.collective, ranks, line.in_windows), 0)
        if previous_end >= line.up_to_bytes:
            subject = f"{line.collective} of {ranks} ranks{' in windows' if line.in_windows else ''}"
            problem = f"{subject} already has a line up to {table_size_text(previous_end)}"
            raise UsageError(problem, remedy="increase up_to= from line to line, so that no two ranges overlap")
        range_ends[line.collective, ranks, line.in_windows] = line.up_to_bytes


def _parse_line(words: list[str]) -> TableRange:
    """Parses the words of one line. Raises UsageError if they are no complete line."""
    collective, *other_words = words
    if collective not in METHODS:
        raise UsageError(
            f'"{plain(collective)}" is not a collective of the fast path', remedy=f"give {_join_or(METHODS)}"
        )
    settings = [word.split("=", 1) for word in other_words if "=" in word]
    names = [word for word in other_words if "=" not in word]
    in_windows = WINDOWS in names and collective in METHODS_IN_WINDOWS
    method = next((name for name in names if name != WINDOWS), "")
    allowed = (NCCL, *(METHODS_IN_WINDOWS if in_windows else METHODS)[collective])
    if method not in allowed:
        place = f"{collective} in windows" if in_windows else collective
        raise UsageError(f'"{plain(method)}" is not a method for {place}', remedy=f"give {_join_or(allowed)}")
    expected_names = [method, *([WINDOWS] if in_windows else [])]
    expected_keys = ["ranks", "up_to"] if method == NCCL else ["blocks", "ranks", "threads", "up_to"]
    if sorted(names) != sorted(expected_names) or sorted(key for key, _ in settings) != expected_keys:
        raise UsageError(
            f"a line for {method} has {', '.join(expected_keys)}, each once, and nothing else",
            remedy=f'write a line such as "{_EXAMPLE_LINE}"',
        )
    values = dict(settings)
    min_ranks, max_ranks = _parse_ranks(values["ranks"])
    up_to = parse_size(values["up_to"])
    if not up_to:
        raise UsageError(
            f'"up_to={plain(values["up_to"])}" is not a size', remedy="give bytes, or K, M, G or T: up_to=64K"
        )
    line = TableRange(collective, min_ranks, max_ranks, up_to, method, in_windows=in_windows)
    if method == NCCL:
        return line
    blocks = _parse_number("blocks", values["blocks"], 1, MAX_BLOCKS)
    return replace(line, blocks=blocks, threads=_parse_threads(values["threads"]))


def _parse_threads(text: str) -> int:
    threads = _parse_number("threads", text, WARP_THREADS, MAX_THREADS)
    if threads % WARP_THREADS:
        raise UsageError(
            f"threads={threads} is not a multiple of 32", remedy=f"give a multiple of 32 up to {MAX_THREADS}"
        )
    return threads


def _parse_ranks(text: str) -> tuple[int, int]:
    """Returns the smallest and the largest number of ranks: (4, 4) for "4", (2, 8) for "2-8"."""
    first, dash, last = text.partition("-")
    min_ranks = _parse_number("ranks", first, 2, MAX_RANKS)
    max_ranks = _parse_number("ranks", last if dash else first, 2, MAX_RANKS)
    if min_ranks > max_ranks:
        raise UsageError(f'"ranks={text}" is a descending range', remedy="give a range such as ranks=2-8")
    return min_ranks, max_ranks


def _parse_number(name: str, word: str, minimum: int, maximum: int) -> int:
    if _NUMBER.fullmatch(word) and minimum <= int(word) <= maximum:
        return int(word)
    raise UsageError(f'"{name}={plain(word)}" is out of range', remedy=f"give a number from {minimum} to {maximum}")


def _join_or(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}"


def merged(ranges: Iterable[TableRange]) -> list[TableRange]:
    """Merges neighboring ranges with the same method config and removes `nccl` lines at the end.

    Keeps a single `nccl` line for windows, because without it calls in windows would use the other lines.
    """
    all_lines: list[TableRange] = []
    # The lines of one group follow one another in a table.
    by_range = groupby(ranges, key=lambda line: (line.collective, line.min_ranks, line.max_ranks, line.in_windows))
    for (*_, in_windows), successive in by_range:
        min_lines = 1 if in_windows else 0
        lines: list[TableRange] = []
        for line in successive:
            if lines and replace(lines[-1], up_to_bytes=line.up_to_bytes, note=line.note) == line:
                lines.pop()  # `line` differs only in its end and its comment
            lines.append(line)
        while len(lines) > min_lines and lines[-1].method == NCCL:
            lines.pop()
        all_lines += lines
    return all_lines


def table_text(ranges: Iterable[TableRange], comments: Iterable[str] = ()) -> str:
    """Text of a table that begins with comments. An empty line separates the collectives."""
    sections = ["\n".join(f"# {comment}".rstrip() for comment in comments)]
    for _, lines in groupby(ranges, key=lambda line: line.collective):
        sections.append("\n".join(line.text for line in lines))
    return "\n\n".join(filter(None, sections)) + "\n"


def default_names() -> list[str]:
    """Names of the default tables, sorted by GPU generation: 'sm_90', 'sm_90_without_nvls'."""
    folder = resources.files(__package__) / "tables"
    names = [entry.name.removesuffix(".txt") for entry in folder.iterdir()]
    return sorted(names, key=lambda name: (int(name.split("_")[1]), name))


def default_name(compute_capability: str, environment: Mapping[str, str]) -> str:
    """Name of the default table for a compute capability such as 'sm_90'.

    If the environment switches NVLS off, the table with the suffix `_without_nvls` is used, if there is one.
    """
    name_without_nvls = f"{compute_capability}{_WITHOUT_NVLS}"
    nvls_is_off = environment.get(_NVLS_VARIABLE) == "0"
    if nvls_is_off and name_without_nvls in default_names():
        return name_without_nvls
    return compute_capability


def default_text(name: str) -> str:
    """Text of a default table. Empty if no table has this name. Every call is then delegated to NCCL."""
    if name not in default_names():
        return ""
    return (resources.files(__package__) / "tables" / f"{name}.txt").read_text()
