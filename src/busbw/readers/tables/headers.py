"""Parses the lines around the rows: header, device list, footer and warnings."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from busbw.logs import Placement, Rank
from busbw.readers.tables import collectives
from busbw.readers.tables.layouts import BOTH, ColumnLayout

_RANK = re.compile(
    r"Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+(\d+)\s+on\s+(\S+)\s+device\s+(\d+)\s+\[([^\]]*)\]\s*(.*)$"
)
_NTHREAD = re.compile(r"nThreads?:?\s+(\d+)\s+(.*)$")
_PARAMETER = re.compile(r"([A-Za-z][A-Za-z ]*?):?\s+([\d.]+(?:\([a-z]+\))?)(?=\s|$)")
_VERSION = re.compile(r"nccl-tests version (\S+)(.*)$")
_LIBRARY = re.compile(r"\b(N|R)CCL version\s*:?\s*([\d.]+\S*)")
_STARTING = re.compile(r"Collective test starting: ([a-z_]+?)(_perf[\w.-]*)?\s*$")
"""A suffix after `_perf` names the build variant, as in all_reduce_perf_mpi."""
_GROUP = re.compile(r"Group (\d+): (\d+) ranks")
_AVERAGE = re.compile(r"Avg(?:erage)? bus bandwidth\s*:\s*(\S+?)(?:GB/s)?\s*(?:OK|FAILED)?\s*$")
_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d{1,18})\b")
_FAILED = re.compile(r"(?:Test timeout|Test (?:NCCL|CUDA) failure|Test failure|Invalid number of GPUs: .*)[^\n]{0,200}")

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
    """Collective according to a heading or a command line."""
    title: str | None = None
    command: str | None = None
    version: str | None = None
    library: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    ranks: list[Rank] = field(default_factory=list)
    list_is_cut: bool = False
    claimed_gpus: int | None = None
    """Number of GPUs according to `claimed_by`, for example "32x H800" or "1 node, 8 gpus/node" in a heading."""
    claimed_by: str = "the heading"
    columns: ColumnLayout = field(default_factory=ColumnLayout)
    has_header: bool = False
    group: int = 0
    group_ranks: dict[int, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    average: str | None = None
    out_of_bounds: int | None = None
    has_conclusion: bool = False
    end_reason: str | None = None

    @property
    def has_footer(self) -> bool:
        """True if the end of the table was read."""
        return self.average is not None or self.has_conclusion

    @property
    def leaders(self) -> list[Rank]:
        """Processes that report rank 0. More than one means that the processes did not find each other."""
        firsts = {(rank.pid, rank.host): rank for rank in self.ranks if rank.rank == 0}
        return list(firsts.values())


def begins_run(text: str) -> bool:
    """True if a line begins the header of a run, so that earlier rows belong to another table."""
    bare = text.lstrip("# ")
    return bare.startswith(
        ("nccl-tests version", "Collective test starting", "nThread", "Using devices", "rccl-tests:")
    )


def parse_header_line(text: str, facts: TableFacts) -> bool:
    """Adds the content of a header or footer line to the facts. Returns false if the line is neither."""
    bare = text.lstrip("# ")
    if not bare:
        return True
    for beginning, reader in _BY_WORD.get(bare.split(None, 1)[0], ()):
        if bare.startswith(beginning) and reader(bare, facts):
            return True
    if "CCL version" in text and (found := _LIBRARY.search(text)):
        facts.library = f"{found[1]}CCL {found[2]}"
        return True
    if ("Test " in text or "Invalid number" in text) and (found := _FAILED.search(text)):
        # After the footer, the line only repeats that data were wrong or the run was slower than required.
        if not facts.has_footer:
            facts.end_reason = facts.end_reason or found.group().strip()
        return True
    if text.startswith("#") and text.endswith("...") and facts.ranks:
        facts.list_is_cut = True
        return True
    return _columns(text, facts)


def _take_rank(text: str, facts: TableFacts) -> bool:
    found = _RANK.match(text)
    if found and len(facts.ranks) < MAX_RANKS:
        facts.ranks.append(_rank(found))
    elif not found and text.rstrip().endswith("..."):
        facts.list_is_cut = True
        return True
    return found is not None


def _take_parameters(text: str, facts: TableFacts) -> bool:
    found = _NTHREAD.match(text)
    if found:
        facts.settings["nThread"] = found[1]
        for key, value in _PARAMETER.findall(found[2]):
            facts.settings[key.strip()] = value
    return found is not None


def _take_version(text: str, facts: TableFacts) -> bool:
    found = _VERSION.match(text)
    if found:
        facts.version = f"nccl-tests {found[1]}"
        if library := re.search(r"nccl-library=(\d{1,9})\b", found[2]):
            facts.library = library_text(int(library[1]))
        if ours := re.search(r"\bbusbw=(\S+) backend=(\S+)", found[2]):
            facts.version = f"busbw {ours[1]}"
            facts.library = facts.library or ours[2]
    return found is not None


def _take_rccl_version(text: str, facts: TableFacts) -> bool:
    facts.version = f"rccl-tests {text.partition('Version')[2].strip()}"
    return True


def _take_start(text: str, facts: TableFacts) -> bool:
    found = _STARTING.match(text)
    if found:
        facts.program, facts.stated_collective = (
            f"{found[1]}{found[2] or '_perf'}",
            collectives.single_collective_in(found[1]),
        )
    return found is not None


def _take_end(_text: str, facts: TableFacts) -> bool:
    facts.has_conclusion = True
    return True


def _take_group(text: str, facts: TableFacts) -> bool:
    found = _GROUP.match(text)
    if found:
        facts.group = int(found[1])
        if len(facts.group_ranks) < MAX_RANKS:
            facts.group_ranks[facts.group] = int(found[2])
    return found is not None


def _take_average(text: str, facts: TableFacts) -> bool:
    found = _AVERAGE.match(text)
    if found:
        facts.average = found[1]
    return found is not None


def _take_bounds(text: str, facts: TableFacts) -> bool:
    found = _BOUNDS.match(text)
    if found:
        facts.out_of_bounds = int(found[1])
    return found is not None


def _take_reason(text: str, facts: TableFacts) -> bool:
    facts.end_reason = facts.end_reason or text.partition(":")[2].strip()[:300]
    return True


def _take_warning(text: str, facts: TableFacts) -> bool:
    if len(facts.warnings) < 100:
        facts.warnings.append(text.removeprefix("Warning: ").strip())
    return True


def _ignore(_text: str, _facts: TableFacts) -> bool:
    return True


_READERS: tuple[tuple[str, Callable[[str, TableFacts], bool]], ...] = (
    ("Rank", _take_rank),
    ("nThread", _take_parameters),
    ("nccl-tests version", _take_version),
    ("rccl-tests: Version", _take_rccl_version),
    ("Collective test starting: ", _take_start),
    ("Collective test concluded", _take_end),
    ("Group ", _take_group),
    ("Avg", _take_average),
    ("Average bus", _take_average),
    ("Out of bounds values", _take_bounds),
    ("Run ended early:", _take_reason),
    ("error: ", _take_reason),
    ("Warning: ", _take_warning),
    ("Reducing maxBytes", _take_warning),
    ("Using devices", _ignore),
    ("Writing JSON output", _ignore),
    ("skipping json output", _ignore),
    ("Blocking Enabled", _ignore),
    ("Parallel Init Enabled", _ignore),
    ("Per-Iteration Report", _ignore),
    ("GPU memory usage", _ignore),
    ("Wrong data: ", _ignore),
    ("Check of ", _ignore),
    ("Sum over ", _ignore),
)
"""Beginning of a line after its '#', and the function that parses it."""

_BY_WORD: dict[str, list[tuple[str, Callable[[str, TableFacts], bool]]]] = {}
for _entry in _READERS:
    _BY_WORD.setdefault(_entry[0].split()[0], []).append(_entry)


def library_text(code: int) -> str:
    """Returns NCCL's version code as text. Since NCCL 2.9 the minor version has two digits."""
    if code >= 10000:
        return f"NCCL {code // 10000}.{code // 100 % 100}.{code % 100}"
    if code >= 2000:
        return f"NCCL {code // 1000}.{code // 100 % 10}.{code % 100}"
    return f"a library with version code {code}"


def _rank(found: "re.Match[str]") -> Rank:
    return Rank(
        rank=int(found[1]),
        group=int(found[2] or 0),
        pid=int(found[3]),
        host=found[4],
        device=int(found[5]),
        bus_id=found[6],
        device_name=found[7].strip() or None,
    )


def is_column_header(text: str) -> bool:
    """True if a line names the columns of a table."""
    if "algbw" not in text.lower():
        return False
    words = text.lower().replace("(", " (").split()
    return "algbw" in words and "busbw" in words and ("size" in words or "bytes" in words)


def _columns(text: str, facts: TableFacts) -> bool:
    if not ("algbw" in text or "-place" in text or "GB/s)" in text):
        return False
    words = text.lower().replace("(", " (").split()
    if is_column_header(text):
        facts.has_header = True
        sides = words.count("algbw")
        facts.columns = facts.columns._replace(
            has_type="type" in words,
            cpu_time="cputime" in words,
            shows_error="error" in words or "res" in words,
            single=sides == 1,
            placements=facts.columns.placements if sides == 2 else ("unstated",) if sides == 1 else BOTH,
            unit="us" if "(us)" in words else "ms" if "(ms)" in words else "",
        )
        if sides > 1 and words.count("#wrong") == 1:  # one check for all backends side by side
            facts.columns = facts.columns._replace(backends=tuple(f"backend {at + 1}" for at in range(sides)))
        return True
    placements = re.findall(r"in-place|out-of-place", text)
    if len(placements) == 2 and len(set(placements)) == 2 and not re.search(r"\d", text):
        order: tuple[Placement, ...] = BOTH if placements[0] == "out-of-place" else ("in_place", "out_of_place")
        facts.columns = facts.columns._replace(placements=order)
        return True
    if "(gb/s)" in words and ("(us)" in words or "(ms)" in words):
        facts.columns = facts.columns._replace(unit="us" if "(us)" in words else "ms")
        return True
    return False
