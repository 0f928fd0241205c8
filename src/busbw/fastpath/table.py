"""Tables of the fast path: which method for which size. fastpath/choice/table.hpp says what their text means."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from itertools import groupby

from busbw.errors import UsageError
from busbw.units import plain

TABLE_VARIABLE = "BUSBW_FASTPATH_TABLE"
METHOD_VARIABLE = "BUSBW_FASTPATH_METHOD"
"""`exchange,32,512` for every size, in place of a table."""

_NVLS_VARIABLE, _WITHOUT_NVLS = "NCCL_NVLS_ENABLE", "_without_nvls"
"""A variable of NCCL's, and the end of the name of a table that holds where it is 0."""

NCCL = "nccl"
WINDOWS = "windows"
METHODS = {
    "all_reduce": ("exchange", "two_shot"),
    "all_gather": ("exchange",),
    "reduce_scatter": ("exchange",),
    "broadcast": ("exchange", "two_shot"),
    "alltoall": ("exchange",),
}
"""What the fast path can do for each collective, besides handing it over."""
DIRECT = "direct"
EXCHANGE = "exchange"
METHODS_IN_WINDOWS = {name: (DIRECT, *METHODS[name]) for name in ("all_reduce", "all_gather", "reduce_scatter")}
"""The same for calls whose buffers lie in symmetric windows; the other collectives make no use of those."""

MAX_RANKS = 64
"""Of a line. The fast path itself does MAX_RANKS_DONE, and hands over what is of more."""
MAX_FAST_RANKS = 8
MAX_BLOCKS = 256
MAX_THREADS = 512
WARP_THREADS = 32

_WORD = re.compile(r"[^ \t\r]+")
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_SIZE = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)([KMG]?)", re.IGNORECASE | re.ASCII)
_MAX_BYTES = 2.0**62
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_FORM = "all_reduce ranks=4 up_to=64K exchange blocks=8 threads=512"


@dataclass(frozen=True)
class TableRange:
    """One line: what is done up to a size, from where the line before it ends."""

    collective: str
    min_ranks: int
    max_ranks: int
    up_to_bytes: int
    """Of the larger of a rank's two buffers, as nccl-tests counts sizes."""
    method: str = NCCL
    blocks: int = 0
    threads: int = 0
    note: str = ""
    """A comment behind it."""
    in_windows: bool = False
    """For calls whose buffers lie in symmetric windows. Where there is no such line the others hold for them, too."""

    @property
    def text(self) -> str:
        """The line."""
        ranks = f"{self.min_ranks}" + (f"-{self.max_ranks}" if self.max_ranks > self.min_ranks else "")
        windows = [WINDOWS] if self.in_windows else []
        words = [self.collective, f"ranks={ranks}", *windows, f"up_to={size_word(self.up_to_bytes)}", self.method]
        if self.method != NCCL:
            words += [f"blocks={self.blocks}", f"threads={self.threads}"]
        return " ".join(words) + (f"  # {self.note}" if self.note else "")


def size_word(size_bytes: int) -> str:
    """A size as tables and command lines have it: 64K."""
    unit = next(letter for letter in "GMK" + " " if size_bytes % _UNITS[letter.strip()] == 0)
    return f"{size_bytes // _UNITS[unit.strip()]}{unit.strip()}"


def size_bytes(word: str) -> int | None:
    """The bytes of such a word; None where it is none."""
    matched = _SIZE.fullmatch(word)
    if not matched:
        return None
    value = float(matched[1]) * _UNITS[matched[2].upper()]
    return int(value) if 0 < value <= _MAX_BYTES and value == int(value) else None


def parse(table: str, source: str) -> list[TableRange]:
    """The lines of a table.

    Raises:
        UsageError: A line is in doubt; names the source, the line, and what is allowed.
    """
    found: list[TableRange] = []
    ends: dict[tuple[str, int, bool], int] = {}
    for number, line in enumerate(table.split("\n"), start=1):
        words = _WORD.findall(line.partition("#")[0])
        if not words:
            continue
        try:
            found.append(_range(words))
            _extend(ends, found[-1])
        except UsageError as error:
            raise UsageError(f"{source}:{number}: {error.what}", remedy=error.remedy) from None
    return found


def _extend(ends: dict[tuple[str, int, bool], int], one: TableRange) -> None:
    """Notes where a range ends for each number of ranks, in windows apart from others; the next one begins there."""
    for ranks in range(one.min_ranks, one.max_ranks + 1):
        before = ends.get((one.collective, ranks, one.in_windows), 0)
        if before >= one.up_to_bytes:
            where = f"{one.collective} of {ranks} ranks{' in windows' if one.in_windows else ''}"
            what = f"{where} has a line up to {size_word(before)} already"
            raise UsageError(what, remedy="let up_to= grow from line to line, so that no two ranges overlap")
        ends[one.collective, ranks, one.in_windows] = one.up_to_bytes


def _range(words: list[str]) -> TableRange:
    collective, *rest = words
    if collective not in METHODS:
        raise UsageError(f'"{plain(collective)}" is no collective of the fast path', remedy=f"give {_or(METHODS)}")
    pairs = [word.partition("=") for word in rest if "=" in word]
    methods = [word for word in rest if "=" not in word and word != WINDOWS]
    given = {name: value for name, _, value in pairs}
    known = {"ranks", "up_to", "blocks", "threads"}
    if unknown := [name for name in given if name not in known]:
        raise UsageError(f'"{plain(unknown[0])}=" is not known here', remedy="give ranks=, up_to=, blocks=, threads=")
    if len(given) < len(pairs):
        raise UsageError("something stands twice in it", remedy="give it once")
    if len(methods) != 1 or not {"ranks", "up_to"} <= given.keys():
        raise UsageError("it lacks something or has two methods", remedy=f'write a line as in "{_FORM}"')
    method, in_windows = methods[0], _in_windows(collective, rest)
    if method == DIRECT and collective in METHODS_IN_WINDOWS and not in_windows:
        raise UsageError("direct takes buffers in symmetric windows", remedy="write windows before up_to=")
    allowed = (NCCL, *(METHODS_IN_WINDOWS if in_windows else METHODS)[collective])
    if method not in allowed:
        raise UsageError(f'"{plain(method)}" is no method for {collective}', remedy=f"give {_or(allowed)}")
    least, dash, most = given["ranks"].partition("-")
    ends = [_number("ranks", word, 2, MAX_RANKS) for word in (least, most if dash else least)]
    if ends[0] > ends[1]:
        raise UsageError(f'"ranks={given["ranks"]}" goes backwards', remedy="give a range such as ranks=2-8")
    up_to = size_bytes(given["up_to"])
    if up_to is None:
        raise UsageError(f'"up_to={plain(given["up_to"])}" is no size', remedy="give bytes, or K, M or G: up_to=64K")
    shape = {"blocks", "threads"} & given.keys()
    if method == NCCL and shape:
        raise UsageError("nccl chooses its blocks and threads itself", remedy="leave them out")
    made = TableRange(collective, ends[0], ends[1], up_to, method, in_windows=in_windows)
    if method == NCCL:
        return made
    if len(shape) < 2:
        raise UsageError(f"{method} has no blocks= or no threads=", remedy=f'write a line as in "{_FORM}"')
    threads = _number("threads", given["threads"], WARP_THREADS, MAX_THREADS)
    if threads % WARP_THREADS:
        raise UsageError(f"threads={threads} is no multiple of 32", remedy=f"give one up to {MAX_THREADS}")
    return replace(made, blocks=_number("blocks", given["blocks"], 1, MAX_BLOCKS), threads=threads)


def _in_windows(collective: str, words: list[str]) -> bool:
    count = words.count(WINDOWS)
    if count > 1:
        raise UsageError("windows stands twice in it", remedy="give it once")
    if count and collective not in METHODS_IN_WINDOWS:
        raise UsageError(f"{collective} makes no use of windows", remedy="leave out windows")
    return count == 1


def _number(name: str, word: str, least: int, most: int) -> int:
    if _NUMBER.fullmatch(word) and least <= int(word) <= most:
        return int(word)
    raise UsageError(f'"{name}={plain(word)}" is out of range', remedy=f"give a number from {least} to {most}")


def _or(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"


def merged(ranges: Iterable[TableRange]) -> list[TableRange]:
    """The same choices in fewer lines: neighbours that do the same become one, and no line hands over at the end.

    But for one of windows that would be the only one: without it other lines would hold.
    """
    made: list[TableRange] = []
    for ladder, members in groupby(ranges, key=_range_key):
        least = 1 if ladder[-1] else 0
        kept: list[TableRange] = []
        for each in members:
            if kept and _does(kept[-1]) == _does(each):
                kept.pop()
            kept.append(each)
        while len(kept) > least and kept[-1].method == NCCL:
            kept.pop()
        made += kept
    return made


def _range_key(one: TableRange) -> tuple[str, int, int, bool]:
    """What ranges have in common that follow one another."""
    return one.collective, one.min_ranks, one.max_ranks, one.in_windows


def _does(one: TableRange) -> tuple[str, int, int]:
    return one.method, one.blocks, one.threads


def table_text(ranges: Iterable[TableRange], comments: Iterable[str] = ()) -> str:
    """A table with comments before it; an empty line stands between collectives."""
    parts = ["\n".join(f"# {line}".rstrip() for line in comments)]
    parts += [
        "\n".join(each.text for each in members) for _, members in groupby(ranges, key=lambda each: each.collective)
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def default_names() -> list[str]:
    """Tables that come with the library, by generation of GPUs: 'sm_90', 'sm_90_without_nvls'."""
    folder = resources.files(__package__) / "tables"
    return sorted((entry.name[:-4] for entry in folder.iterdir()), key=lambda name: (int(name.split("_")[1]), name))


def default_name(generation: str, environment: Mapping[str, str]) -> str:
    """The one of them that holds for a generation ('sm_90'): a variable of NCCL's says whether NVLS is off."""
    without = f"{generation}{_WITHOUT_NVLS}"
    return without if environment.get(_NVLS_VARIABLE) == "0" and without in default_names() else generation


def default_text(name: str) -> str:
    """A table that comes with the library; empty, and so all is handed over, where there is none of that name."""
    if name not in default_names():
        return ""
    return (resources.files(__package__) / "tables" / f"{name}.txt").read_text()
