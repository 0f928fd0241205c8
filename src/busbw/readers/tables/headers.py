"""Parses the lines around the rows of a table: header, device list, footer and warnings.

Each line adds to the `TableFacts` of its table. assembly.py decides which table a line belongs to.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

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


def begins_run(text: str) -> bool:
    """True if a line begins the header of a run, so that earlier rows belong to another table."""
    content = text.lstrip("# ")
    return content.startswith(
        ("nccl-tests version", "Collective test starting", "nThread", "Using devices", "rccl-tests:")
    )


def parse_header_line(text: str, facts: TableFacts) -> bool:
    """Adds the content of a header or footer line to the facts. Returns false if the line is neither."""
    content = text.lstrip("# ")
    if not content:
        return True
    for beginning, parse in _PARSERS_BY_FIRST_WORD.get(content.split(None, 1)[0], ()):
        if content.startswith(beginning) and parse(content, facts):
            return True
    if "CCL version" in text and (match := _LIBRARY.search(text)):
        facts.library = f"{match[1]}CCL {match[2]}"
        return True
    if ("Test " in text or "Invalid number" in text) and (match := _FAILURE.search(text)):
        # After the footer, the line only repeats that data were wrong or the run was slower than required.
        if not facts.has_footer:
            facts.end_reason = facts.end_reason or match.group().strip()
        return True
    if text.startswith("#") and text.endswith("...") and facts.ranks:
        facts.list_is_cut = True
        return True
    return _parse_columns(text, facts)


def _parse_rank(text: str, facts: TableFacts) -> bool:
    match = _RANK.match(text)
    if match and len(facts.ranks) < MAX_RANKS:
        facts.ranks.append(_make_rank(match))
    elif not match and text.rstrip().endswith("..."):
        facts.list_is_cut = True
        return True
    return match is not None


def _parse_parameters(text: str, facts: TableFacts) -> bool:
    match = _NTHREAD.match(text)
    if match:
        facts.settings["nThread"] = match[1]
        for key, value in _PARAMETER.findall(match[2]):
            facts.settings[key.strip()] = value
    return match is not None


def _parse_version(text: str, facts: TableFacts) -> bool:
    match = _VERSION.match(text)
    if match:
        facts.version = f"nccl-tests {match[1]}"
        if library := _LIBRARY_CODE.search(match[2]):
            facts.library = library_text(int(library[1]))
        if busbw_version := _BUSBW_VERSION.search(match[2]):
            facts.version = f"busbw {busbw_version[1]}"
            facts.library = facts.library or busbw_version[2]
    return match is not None


def _parse_rccl_version(text: str, facts: TableFacts) -> bool:
    facts.version = f"rccl-tests {text.partition('Version')[2].strip()}"
    return True


def _parse_start(text: str, facts: TableFacts) -> bool:
    match = _STARTING.match(text)
    name, _, suffix = match[1].partition("_perf") if match else ("", "", "")
    if not _PROGRAM_NAME.match(name):
        return False
    facts.program = f"{name}_perf{suffix}"
    facts.stated_collective = collectives.single_collective_in(name)
    return True


def _parse_conclusion(_text: str, facts: TableFacts) -> bool:
    facts.has_conclusion = True
    return True


def _parse_group(text: str, facts: TableFacts) -> bool:
    match = _GROUP.match(text)
    if match:
        facts.group = int(match[1])
        if len(facts.group_ranks) < MAX_RANKS:
            facts.group_ranks[facts.group] = int(match[2])
    return match is not None


def _parse_average(text: str, facts: TableFacts) -> bool:
    match = _AVERAGE.match(text)
    if match:
        facts.average = match[1]
    return match is not None


def _parse_out_of_bounds(text: str, facts: TableFacts) -> bool:
    match = _OUT_OF_BOUNDS.match(text)
    if match:
        facts.out_of_bounds = int(match[1])
    return match is not None


def _parse_one_sided(_text: str, facts: TableFacts) -> bool:
    facts.settings["one_sided"] = "True"
    return True


def _parse_end_reason(text: str, facts: TableFacts) -> bool:
    facts.end_reason = facts.end_reason or text.partition(":")[2].strip()[:300]
    return True


def _parse_warning(text: str, facts: TableFacts) -> bool:
    if len(facts.warnings) < 100:
        facts.warnings.append(text.removeprefix("Warning: ").strip())
    return True


def _accept_without_content(_text: str, _facts: TableFacts) -> bool:
    return True


_LINE_PARSERS: tuple[tuple[str, Callable[[str, TableFacts], bool]], ...] = (
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

The function returns false if only the beginning matches.
"""

LINE_BEGINNINGS = tuple(beginning for beginning, _ in _LINE_PARSERS)
"""Beginnings of all header and footer lines, after their '#'."""

_PARSERS_BY_FIRST_WORD: dict[str, list[tuple[str, Callable[[str, TableFacts], bool]]]] = {}
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


def begins_columns(text: str) -> bool:
    """True if a line begins the header above rows, so that earlier rows belong to another table."""
    return is_column_header(text) or _parse_placements(text) is not None


def _parse_columns(text: str, facts: TableFacts) -> bool:
    """Parses a line above the rows that names placements, columns or units."""
    if not ("algbw" in text or "-place" in text or "GB/s)" in text):
        return False
    if is_column_header(text):
        _parse_column_names(split_header(text), facts)
        return True
    if named := _parse_placements(text):
        facts.named_placements = named
        return True
    if unit := _parse_units(split_header(text)):
        facts.columns = facts.columns._replace(unit=unit)
        return True
    return False


def _parse_column_names(words: list[str], facts: TableFacts) -> None:
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


def is_units_line(text: str) -> bool:
    """True if a line has the units of columns, below their names."""
    return "GB/s)" in text and not is_column_header(text) and bool(_parse_units(split_header(text)))


def _parse_units(header_words: list[str]) -> str:
    return time_unit(header_words) if "(gb/s)" in header_words else ""


def time_unit(header_words: list[str]) -> str:
    """Unit of the times in a header. Empty if it names none."""
    if "(us)" in header_words:
        return "us"
    return "ms" if "(ms)" in header_words else ""
