"""Parses the lines around the rows of a table: header, device list, footer and warnings.

Each line adds to the `TableFacts` of its table. assembly.py decides which table a line belongs to. `HeaderLine` is the
meaning of a line. It does not depend on the table, so it is cached: a long log repeats its lines.
"""

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

from busbw.logs.log import Rank
from busbw.readers.tables import collectives
from busbw.readers.tables.column_headers import (
    AddContent,
    begins_columns,
    is_units_line,
    parse_column_line,
)
from busbw.readers.tables.facts import MAX_RANKS, TableFacts

_PARAMETER = re.compile(r"([A-Za-z][A-Za-z ]{0,40}?):?\s{1,40}([\d.]{1,40}(?:\([a-z]{1,40}\))?)(?=\s|$)")
"""Name and value, as in `step: 2(factor)`.

Repetitions are limited, because a search from each letter of a long text takes quadratic time.
"""
_LIBRARY_CODE = re.compile(r"nccl-library=(?P<code>\d{1,9})\b")
_BUSBW_VERSION = re.compile(r"\bbusbw=(?P<version>\S+) backend=(?P<backend>\S+)")
_LIBRARY = re.compile(r"\b(?P<name>NCCL|RCCL) version\s*(?::\s*)?(?P<version>[\d.]+\S*)")
_FAILURE = re.compile(
    r"(?:Test timeout|Test (?:NCCL|CUDA) failure|Test failure|Invalid number of GPUs: .*)[^\n]{0,200}"
)

_RUN_BEGINNINGS = ("nccl-tests version", "Collective test starting", "nThread", "Using devices", "rccl-tests:")
"""Beginnings, after the '#', of lines that begin the header of a run."""

MAX_REMARK_LENGTH = 4000
"""Maximum number of characters of a line outside of rows. A longer line belongs to no header or footer."""


class HeaderLine(NamedTuple):
    """Meaning of a line, which may belong to a header or a footer."""

    begins_table: bool
    """True if earlier rows belong to another table."""
    begins_columns: bool
    """True if the line begins the header above rows."""
    is_units_line: bool
    """True if the line has the units of columns, below their names."""
    add_content: AddContent | None
    """None if the line has no content by itself."""
    may_cut_device_list: bool
    """True if the line says that ranks are left out, in case it follows a device list."""

    def add_to(self, facts: TableFacts) -> bool:
        """Adds the content to the facts. Returns false if the line belongs to no header or footer."""
        if self.add_content:
            self.add_content(facts)
        elif self.may_cut_device_list and facts.ranks:
            facts.list_is_cut = True
        else:
            return False
        return True


def begins_table(text: str) -> bool:
    """True if a line begins the header of a run or of columns, so that earlier rows belong to another table."""
    return text.lstrip("# ").startswith(_RUN_BEGINNINGS) or begins_columns(text)


@lru_cache(maxsize=1024)  # a long log repeats most lines of its headers and footers
def parse_header_line(text: str) -> HeaderLine:
    """Returns the meaning of a line, which must not be longer than `MAX_REMARK_LENGTH`."""
    return HeaderLine(
        begins_table=begins_table(text),
        begins_columns=begins_columns(text),
        is_units_line=is_units_line(text),
        add_content=_parse_content(text),
        may_cut_device_list=text.startswith("#") and text.endswith("..."),
    )


def _parse_content(text: str) -> AddContent | None:
    content = text.lstrip("# ")
    if not content:
        return _add_nothing
    for beginning, pattern, add in _LINES:
        if content.startswith(beginning) and (match := pattern.match(content)):
            return partial(add, match)
    if match := _LIBRARY.search(text):
        return partial(_add_library, match)
    if match := _FAILURE.search(text):
        return partial(_add_failure, match)
    return parse_column_line(text)


def _add_nothing(*_: object) -> None:
    """For a line of a header or footer without a fact for the table."""


def _add_rank(match: "re.Match[str]", facts: TableFacts) -> None:
    if len(facts.ranks) < MAX_RANKS:
        rank = Rank(
            rank=int(match["rank"]),
            group=int(match["group"] or 0),
            pid=int(match["pid"]),
            host=match["host"],
            device=int(match["device"]),
            bus_id=match["bus_id"],
            device_name=match["device_name"].strip() or None,
        )
        facts.ranks.append(rank)


def _cut_device_list(_match: "re.Match[str]", facts: TableFacts) -> None:
    facts.list_is_cut = True


def _add_parameters(match: "re.Match[str]", facts: TableFacts) -> None:
    others = {key.strip(): value for key, value in _PARAMETER.findall(match["others"])}
    facts.settings |= {"nThread": match["threads"], **others}


def _add_version(match: "re.Match[str]", facts: TableFacts) -> None:
    library = _LIBRARY_CODE.search(match["others"])
    busbw = _BUSBW_VERSION.search(match["others"])
    facts.version = f"busbw {busbw['version']}" if busbw else f"nccl-tests {match['version']}"
    if library:
        facts.library = library_text(int(library["code"]))
    elif busbw:
        facts.library = facts.library or busbw["backend"]


def _add_rccl_version(match: "re.Match[str]", facts: TableFacts) -> None:
    facts.version = f"rccl-tests {match['version'].strip()}"


def _add_library(match: "re.Match[str]", facts: TableFacts) -> None:
    facts.library = f"{match['name']} {match['version']}"


def _add_program(match: "re.Match[str]", facts: TableFacts) -> None:
    facts.program = f"{match['collective']}_perf{match['variant'] or ''}"
    facts.stated_collective = collectives.single_collective_in(match["collective"])


def _add_conclusion(_match: "re.Match[str]", facts: TableFacts) -> None:
    facts.has_conclusion = True


def _add_group(match: "re.Match[str]", facts: TableFacts) -> None:
    facts.group = int(match["group"])
    if len(facts.group_ranks) < MAX_RANKS:
        facts.group_ranks[facts.group] = int(match["ranks"])


def _add_average(match: "re.Match[str]", facts: TableFacts) -> None:
    facts.average = match["gbps"]


def _add_out_of_bounds(match: "re.Match[str]", facts: TableFacts) -> None:
    facts.out_of_bounds = int(match["count"])


def _add_one_sided(_match: "re.Match[str]", facts: TableFacts) -> None:
    facts.settings["one_sided"] = "True"


def _add_end_reason(match: "re.Match[str]", facts: TableFacts) -> None:
    facts.end_reason = facts.end_reason or match["text"].strip()[:300]


def _add_failure(match: "re.Match[str]", facts: TableFacts) -> None:
    # After the footer, the line only repeats that data were wrong or the run was slower than required.
    if not facts.has_footer:
        facts.end_reason = facts.end_reason or match[0].strip()


def _add_warning(match: "re.Match[str]", facts: TableFacts) -> None:
    if len(facts.warnings) < 100:
        facts.warnings.append(match["text"].strip())


_TEXT = re.compile("(?P<text>.*)")
_AVERAGE = re.compile(r"Avg(?:erage)? bus bandwidth\s*:\s*(?P<gbps>\S+?)(?:GB/s)?(?:\s*(?:OK|FAILED))?\s*$")
_LINES: tuple[tuple[str, "re.Pattern[str]", Callable[["re.Match[str]", TableFacts], None]], ...] = (
    (
        "Rank",
        re.compile(
            r"Rank\s+(?P<rank>\d+)\s+(?:Group\s+(?P<group>\d+)\s+)?Pid\s+(?P<pid>\d+)\s+on\s+(?P<host>\S+)\s+"
            r"device\s+(?P<device>\d+)\s+\[(?P<bus_id>[^\]]*)\]\s*(?P<device_name>.*)$"
        ),
        _add_rank,
    ),
    ("Rank", re.compile(r"Rank.*\.\.\.\s*$"), _cut_device_list),
    ("nThread", re.compile(r"nThreads?:?\s+(?P<threads>\d+)\s+(?P<others>.*)$"), _add_parameters),
    ("nccl-tests version", re.compile(r"nccl-tests version (?P<version>\S+)(?P<others>.*)$"), _add_version),
    ("rccl-tests: Version", re.compile("rccl-tests: Version(?P<version>.*)"), _add_rccl_version),
    # A suffix after `_perf` names the build variant, as in all_reduce_perf_mpi.
    (
        "Collective test starting: ",
        re.compile(r"Collective test starting: (?P<collective>(?:(?!_perf)[a-z_])+)(?:_perf(?P<variant>[\w.-]*))?\s*$"),
        _add_program,
    ),
    ("Collective test concluded", _TEXT, _add_conclusion),
    ("Group ", re.compile(r"Group (?P<group>\d+): (?P<ranks>\d+) ranks"), _add_group),
    ("Avg", _AVERAGE, _add_average),
    ("Average bus", _AVERAGE, _add_average),
    ("Out of bounds values", re.compile(r"Out of bounds values\s*:\s*(?P<count>\d{1,18})\b"), _add_out_of_bounds),
    ("Run ended early:", re.compile("Run ended early:(?P<text>.*)"), _add_end_reason),
    ("error: ", re.compile("error:(?P<text>.*)"), _add_end_reason),
    ("Warning: ", re.compile("Warning:(?P<text>.*)"), _add_warning),
    ("Reducing maxBytes", _TEXT, _add_warning),
    ("One-sided: ", _TEXT, _add_one_sided),
    ("Using devices", _TEXT, _add_nothing),
    ("Writing JSON output", _TEXT, _add_nothing),
    ("skipping json output", _TEXT, _add_nothing),
    ("Blocking Enabled", _TEXT, _add_nothing),
    ("Parallel Init Enabled", _TEXT, _add_nothing),
    ("Per-Iteration Report", _TEXT, _add_nothing),
    ("GPU memory usage", _TEXT, _add_nothing),
    ("Wrong data: ", _TEXT, _add_nothing),
    ("Check of ", _TEXT, _add_nothing),
    ("Sum over ", _TEXT, _add_nothing),
)
"""Beginning of a line after its '#', pattern of the whole line, and the function that adds its content."""

LINE_BEGINNINGS = tuple(dict.fromkeys(beginning for beginning, _, _ in _LINES))
"""Beginnings of all header and footer lines, after their '#'."""


def library_text(code: int) -> str:
    """Returns NCCL's version code as text. Since NCCL 2.9 the minor version has two digits."""
    if code >= 10000:
        return f"NCCL {code // 10000}.{code // 100 % 100}.{code % 100}"
    if code >= 2000:
        return f"NCCL {code // 1000}.{code // 100 % 10}.{code % 100}"
    return f"a library with version code {code}"
