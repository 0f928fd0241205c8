"""Parses the lines around the rows of a table: header, device list, footer and warnings.

Each line adds to the `TableFacts` of its table. assembly.py decides which table a line belongs to. A long log repeats
its lines, so the meaning of a line does not depend on its table: `parse_header_line` returns it as a `HeaderLine`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple

from busbw.logs import Placement, Rank
from busbw.readers.tables import collectives
from busbw.readers.tables.layouts import BOTH, ColumnLayout

_RANK = re.compile(
    r"Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+(\d+)\s+on\s+(\S+)\s+device\s+(\d+)\s+\[([^\]]*)\]\s*(.*)$"
)
_NTHREAD = re.compile(r"nThreads?:?\s+(\d+)\s+(.*)$")
_PARAMETER = re.compile(r"([A-Za-z][A-Za-z ]{0,40}?):?\s{1,40}([\d.]{1,40}(?:\([a-z]{1,40}\))?)(?=\s|$)")
"""Name and value, as in `step: 2(factor)`.

Repetitions are limited, because a search from each letter of a long text takes quadratic time.
"""
_VERSION = re.compile(r"nccl-tests version (\S+)(.*)$")
_LIBRARY_CODE = re.compile(r"nccl-library=(\d{1,9})\b")
_BUSBW_VERSION = re.compile(r"\bbusbw=(\S+) backend=(\S+)")
_LIBRARY = re.compile(r"\b(N|R)CCL version\s*(?::\s*)?([\d.]+\S*)")
_STARTING = re.compile(r"Collective test starting: ([\w.-]+)\s*$")
_PROGRAM_NAME = re.compile(r"[a-z_]+$")
"""A suffix after `_perf` names the build variant, as in all_reduce_perf_mpi."""
_GROUP = re.compile(r"Group (\d+): (\d+) ranks")
_AVERAGE = re.compile(r"Avg(?:erage)? bus bandwidth\s*:\s*(\S+?)(?:GB/s)?(?:\s*(?:OK|FAILED))?\s*$")
_OUT_OF_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d{1,18})\b")
_FAILURE = re.compile(
    r"(?:Test timeout|Test (?:NCCL|CUDA) failure|Test failure|Invalid number of GPUs: .*)[^\n]{0,200}"
)
_PLACEMENTS = re.compile(
    r"[#\s]*(in-place|out-of-place)(?:\s*\([^()]*\))?\s+(in-place|out-of-place)(?:\s*\([^()]*\))?\s*$"
)

_RUN_BEGINNINGS = ("nccl-tests version", "Collective test starting", "nThread", "Using devices", "rccl-tests:")
"""Beginnings of the lines of which each begins the header of a run, after their '#'."""

MAX_REMARK_LENGTH = 4000
"""Maximum number of characters of a line outside of rows. A longer line belongs to no header or footer."""
MAX_RANKS = 100_000
"""Maximum number of ranks kept from a device list."""


@dataclass
class TableFacts:
    """Facts about a table that are known before its rows are interpreted."""

    first_line: int = 0
    program: str | None = None
    stated_collective: str | None = None
    """Collective that the program itself reports."""
    hint: str | None = None
    """Collective named by a heading or a command line. It is less reliable than `stated_collective`."""
    title: str | None = None
    command: str | None = None
    version: str | None = None
    library: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    ranks: list[Rank] = field(default_factory=list)
    """Entries of the device list."""
    list_is_cut: bool = False
    """True if the device list omits ranks."""
    claimed_gpus: int | None = None
    """Number of GPUs according to `claimed_by`, for example "32x H800" or "1 node, 8 gpus/node" in a heading."""
    claimed_by: str = "the heading"
    columns: ColumnLayout = field(default_factory=ColumnLayout)
    named_placements: tuple[Placement, ...] | None = None
    """Placements that a line has named. They apply to the column header that follows it."""
    has_header: bool = False
    group: int = 0
    """Group (NCCL_TESTS_SPLIT) of the rows that follow."""
    group_ranks: dict[int, int] = field(default_factory=dict)
    """Number of ranks by group."""
    warnings: list[str] = field(default_factory=list)
    average: str | None = None
    """Average busbw of the footer, as printed."""
    out_of_bounds: int | None = None
    has_conclusion: bool = False
    """True if the line "Collective test concluded" was read."""
    end_reason: str | None = None

    @property
    def has_footer(self) -> bool:
        """True if the end of the table was read."""
        return self.average is not None or self.has_conclusion

    @property
    def rank_zero_processes(self) -> list[Rank]:
        """Processes that report rank 0. More than one means that the processes did not find each other."""
        processes = {(rank.pid, rank.host): rank for rank in self.ranks if rank.rank == 0}
        return list(processes.values())


_AddContent = Callable[[TableFacts], bool]
"""Adds the content of a line to the facts of its table. Returns false if the line has none for this table."""


class HeaderLine(NamedTuple):
    """Meaning of a line, which may belong to a header or a footer."""

    begins_table: bool
    """True if earlier rows belong to another table."""
    begins_columns: bool
    """True if the line begins the header above rows."""
    is_units_line: bool
    """True if the line has the units of columns, below their names."""
    add_content: tuple[_AddContent, ...]
    """Possible contents. The first function that returns true has added the content."""

    def add_to(self, facts: TableFacts) -> bool:
        """Adds the content to the facts. Returns false if the line belongs to no header or footer."""
        return any(add_content(facts) for add_content in self.add_content)


def begins_table(text: str) -> bool:
    """True if a line begins the header of a run or of columns, so that earlier rows belong to another table."""
    return text.lstrip("# ").startswith(_RUN_BEGINNINGS) or _begins_columns(text)


def _begins_columns(text: str) -> bool:
    return is_column_header(text) or _parse_placements(text) is not None


@lru_cache(maxsize=1024)  # a long log repeats most lines of its headers and footers
def parse_header_line(text: str) -> HeaderLine:
    """Returns the meaning of a line, which must not be longer than `MAX_REMARK_LENGTH`."""
    return HeaderLine(
        begins_table=begins_table(text),
        begins_columns=_begins_columns(text),
        is_units_line="GB/s)" in text and not is_column_header(text) and bool(_parse_units(split_header(text))),
        add_content=tuple(_parse_contents(text)),
    )


def _parse_contents(text: str) -> Iterator[_AddContent]:
    """Yields the possible contents of a line."""
    content = text.lstrip("# ")
    if not content:
        yield _accept
        return
    for beginning, parse in _PARSERS_BY_FIRST_WORD.get(content.split(None, 1)[0], ()):
        if content.startswith(beginning) and (add_content := parse(content)):
            yield add_content
    if "CCL version" in text and (match := _LIBRARY.search(text)):
        yield _make_setter("library", f"{match[1]}CCL {match[2]}")
    if ("Test " in text or "Invalid number" in text) and (match := _FAILURE.search(text)):
        yield partial(_add_failure, match.group().strip())
    if text.startswith("#") and text.endswith("..."):
        yield _cut_device_list
    if add_columns := _parse_columns(text):
        yield add_columns


def _make_setter(name: str, value: str | int | bool) -> _AddContent:
    """Returns the function that sets a fact."""
    return partial(_set, name, value)


def _set(name: str, value: str | int | bool, facts: TableFacts) -> bool:
    setattr(facts, name, value)
    return True


def _accept(_facts: TableFacts) -> bool:
    return True


def _cut_device_list(facts: TableFacts) -> bool:
    facts.list_is_cut = facts.list_is_cut or bool(facts.ranks)
    return bool(facts.ranks)


def _add_failure(reason: str, facts: TableFacts) -> bool:
    # After the footer, the line only repeats that data were wrong or the run was slower than required.
    if not facts.has_footer:
        facts.end_reason = facts.end_reason or reason
    return True


def _parse_rank(text: str) -> _AddContent | None:
    if match := _RANK.match(text):
        return partial(_add_rank, _make_rank(match))
    return _make_setter("list_is_cut", True) if text.rstrip().endswith("...") else None


def _add_rank(rank: Rank, facts: TableFacts) -> bool:
    if len(facts.ranks) < MAX_RANKS:
        facts.ranks.append(rank)
    return True


def _parse_parameters(text: str) -> _AddContent | None:
    match = _NTHREAD.match(text)
    if match is None:
        return None
    parameters = {key.strip(): value for key, value in _PARAMETER.findall(match[2])}
    return partial(_add_settings, {"nThread": match[1], **parameters})


def _add_settings(settings: dict[str, str], facts: TableFacts) -> bool:
    facts.settings |= settings
    return True


def _parse_version(text: str) -> _AddContent | None:
    match = _VERSION.match(text)
    if match is None:
        return None
    library = _LIBRARY_CODE.search(match[2])
    library_version = library_text(int(library[1])) if library else None
    if busbw_version := _BUSBW_VERSION.search(match[2]):
        return partial(_add_version, f"busbw {busbw_version[1]}", library_version, busbw_version[2])
    return partial(_add_version, f"nccl-tests {match[1]}", library_version, None)


def _add_version(version: str, library: str | None, backend: str | None, facts: TableFacts) -> bool:
    facts.version = version
    facts.library = library or facts.library or backend
    return True


def _parse_rccl_version(text: str) -> _AddContent:
    return _make_setter("version", f"rccl-tests {text.partition('Version')[2].strip()}")


def _parse_start(text: str) -> _AddContent | None:
    match = _STARTING.match(text)
    name, _, suffix = match[1].partition("_perf") if match else ("", "", "")
    if not _PROGRAM_NAME.match(name):
        return None
    return partial(_add_program, f"{name}_perf{suffix}", collectives.single_collective_in(name))


def _add_program(program: str, collective: str | None, facts: TableFacts) -> bool:
    facts.program, facts.stated_collective = program, collective
    return True


def _parse_conclusion(_text: str) -> _AddContent:
    return _make_setter("has_conclusion", True)


def _parse_group(text: str) -> _AddContent | None:
    match = _GROUP.match(text)
    return partial(_add_group, int(match[1]), int(match[2])) if match else None


def _add_group(group: int, rank_count: int, facts: TableFacts) -> bool:
    facts.group = group
    if len(facts.group_ranks) < MAX_RANKS:
        facts.group_ranks[group] = rank_count
    return True


def _parse_average(text: str) -> _AddContent | None:
    match = _AVERAGE.match(text)
    return _make_setter("average", match[1]) if match else None


def _parse_out_of_bounds(text: str) -> _AddContent | None:
    match = _OUT_OF_BOUNDS.match(text)
    return _make_setter("out_of_bounds", int(match[1])) if match else None


def _parse_one_sided(_text: str) -> _AddContent:
    return partial(_add_settings, {"one_sided": "True"})


def _parse_end_reason(text: str) -> _AddContent:
    return partial(_add_end_reason, text.partition(":")[2].strip()[:300])


def _add_end_reason(reason: str, facts: TableFacts) -> bool:
    facts.end_reason = facts.end_reason or reason
    return True


def _parse_warning(text: str) -> _AddContent:
    return partial(_add_warning, text.removeprefix("Warning: ").strip())


def _add_warning(warning: str, facts: TableFacts) -> bool:
    if len(facts.warnings) < 100:
        facts.warnings.append(warning)
    return True


def _accept_without_content(_text: str) -> _AddContent:
    return _accept


_LINE_PARSERS: tuple[tuple[str, Callable[[str], _AddContent | None]], ...] = (
    ("Rank", _parse_rank),
    ("nThread", _parse_parameters),
    ("nccl-tests version", _parse_version),
    ("rccl-tests: Version", _parse_rccl_version),
    ("Collective test starting: ", _parse_start),
    ("Collective test concluded", _parse_conclusion),
    ("Group ", _parse_group),
    ("Avg", _parse_average),
    ("Average bus", _parse_average),
    ("Out of bounds values", _parse_out_of_bounds),
    ("Run ended early:", _parse_end_reason),
    ("error: ", _parse_end_reason),
    ("Warning: ", _parse_warning),
    ("Reducing maxBytes", _parse_warning),
    ("One-sided: ", _parse_one_sided),
    ("Using devices", _accept_without_content),
    ("Writing JSON output", _accept_without_content),
    ("skipping json output", _accept_without_content),
    ("Blocking Enabled", _accept_without_content),
    ("Parallel Init Enabled", _accept_without_content),
    ("Per-Iteration Report", _accept_without_content),
    ("GPU memory usage", _accept_without_content),
    ("Wrong data: ", _accept_without_content),
    ("Check of ", _accept_without_content),
    ("Sum over ", _accept_without_content),
)
"""Beginning of a line after its '#', and the function that parses it.

The function returns None if only the beginning matches.
"""

LINE_BEGINNINGS = tuple(beginning for beginning, _ in _LINE_PARSERS)
"""Beginnings of all header and footer lines, after their '#'."""

_PARSERS_BY_FIRST_WORD: dict[str, list[tuple[str, Callable[[str], _AddContent | None]]]] = {}
for _line_parser in _LINE_PARSERS:
    _PARSERS_BY_FIRST_WORD.setdefault(_line_parser[0].split()[0], []).append(_line_parser)


def library_text(code: int) -> str:
    """Returns NCCL's version code as text. Since NCCL 2.9 the minor version has two digits."""
    if code >= 10000:
        return f"NCCL {code // 10000}.{code // 100 % 100}.{code % 100}"
    if code >= 2000:
        return f"NCCL {code // 1000}.{code // 100 % 10}.{code % 100}"
    return f"a library with version code {code}"


def _make_rank(match: "re.Match[str]") -> Rank:
    return Rank(
        rank=int(match[1]),
        group=int(match[2] or 0),
        pid=int(match[3]),
        host=match[4],
        device=int(match[5]),
        bus_id=match[6],
        device_name=match[7].strip() or None,
    )


def split_header(text: str) -> list[str]:
    """Splits a column header into lower-case words. A unit in parentheses is a word of its own."""
    return text.lower().replace("(", " (").split()


@lru_cache(maxsize=64)
def is_column_header(text: str) -> bool:
    """True if a line names the columns of a table."""
    if "algbw" not in text.lower():
        return False
    words = split_header(text)
    return "algbw" in words and "busbw" in words and ("size" in words or "bytes" in words)


def _parse_placements(text: str) -> tuple[Placement, ...] | None:
    """Returns the placements that a line above the column header names. None for any other line."""
    match = _PLACEMENTS.match(text)
    if match is None or match[1] == match[2]:
        return None
    return BOTH if match[1] == "out-of-place" else ("in_place", "out_of_place")


def _parse_columns(text: str) -> _AddContent | None:
    """Parses a line above the rows that names placements, columns or units."""
    if not ("algbw" in text or "-place" in text or "GB/s)" in text):
        return None
    if is_column_header(text):
        return partial(_add_column_names, tuple(split_header(text)))
    if named := _parse_placements(text):
        return partial(_name_placements, named)
    unit = _parse_units(split_header(text))
    return partial(_add_unit, unit) if unit else None


def _name_placements(placements: tuple[Placement, ...], facts: TableFacts) -> bool:
    facts.named_placements = placements
    return True


def _add_unit(unit: str, facts: TableFacts) -> bool:
    facts.columns = facts.columns._replace(unit=unit)
    return True


def _add_column_names(words: tuple[str, ...], facts: TableFacts) -> bool:
    facts.has_header = True
    placement_count = words.count("algbw")
    # Programs that print an operator and a root print two placements.
    is_cut = "redop" in words and "root" in words and placement_count < len(BOTH)
    has_one_placement = placement_count == 1 and not is_cut
    placements: tuple[Placement, ...] = BOTH
    if placement_count == 2:
        placements = facts.named_placements or BOTH
    elif has_one_placement:
        placements = ("unstated",)
    facts.columns = facts.columns._replace(
        has_type="type" in words,
        has_root="root" in words,
        has_cpu_time="cputime" in words,
        shows_error="error" in words or "res" in words,
        has_one_placement=has_one_placement,
        placements=placements,
        unit=time_unit(words),
    )
    facts.named_placements = None
    # Backends side by side have one wrong column at the end for all. A cut header ends before it.
    has_backends = placement_count > 1 and words.count("#wrong") == 1 and words[-1] == "#wrong"
    if has_backends:
        backends = tuple(f"backend {number}" for number in range(1, placement_count + 1))
        facts.columns = facts.columns._replace(backends=backends)
    return True


def _parse_units(header_words: Sequence[str]) -> str:
    return time_unit(header_words) if "(gb/s)" in header_words else ""


def time_unit(header_words: Sequence[str]) -> str:
    """Unit of the times in a header. Empty if it names none."""
    if "(us)" in header_words:
        return "us"
    return "ms" if "(ms)" in header_words else ""
