"""Parses the lines around the rows of a table: header, device list, footer and warnings.

Each line adds to the `TableFacts` of its table. assembly.py decides which table a line belongs to. A long log repeats
its lines, so the meaning of a line does not depend on its table: `parse_header_line` returns it as a `HeaderLine`.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

from busbw.logs import Rank
from busbw.readers.tables import collectives
from busbw.readers.tables.column_headers import (
    AddContent,
    begins_columns,
    is_units_line,
    parse_column_line,
)
from busbw.readers.tables.facts import MAX_RANKS, TableFacts

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

_RUN_BEGINNINGS = ("nccl-tests version", "Collective test starting", "nThread", "Using devices", "rccl-tests:")
"""Beginnings of the lines of which each begins the header of a run, after their '#'."""

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
    add_content: tuple[AddContent, ...]
    """Possible contents. The first function that returns true has added the content."""

    def add_to(self, facts: TableFacts) -> bool:
        """Adds the content to the facts. Returns false if the line belongs to no header or footer."""
        return any(add_content(facts) for add_content in self.add_content)


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
        add_content=tuple(_parse_contents(text)),
    )


def _parse_contents(text: str) -> Iterator[AddContent]:
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
    if add_columns := parse_column_line(text):
        yield add_columns


def _make_setter(name: str, value: str | int | bool) -> AddContent:
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
    return facts.has_footer or _add_end_reason(reason, facts)


def _parse_rank(text: str) -> AddContent | None:
    if match := _RANK.match(text):
        return partial(_add_rank, _make_rank(match))
    return _make_setter("list_is_cut", True) if text.rstrip().endswith("...") else None


def _add_rank(rank: Rank, facts: TableFacts) -> bool:
    if len(facts.ranks) < MAX_RANKS:
        facts.ranks.append(rank)
    return True


def _parse_parameters(text: str) -> AddContent | None:
    match = _NTHREAD.match(text)
    if match is None:
        return None
    parameters = {key.strip(): value for key, value in _PARAMETER.findall(match[2])}
    return partial(_add_settings, {"nThread": match[1], **parameters})


def _add_settings(settings: dict[str, str], facts: TableFacts) -> bool:
    facts.settings |= settings
    return True


def _parse_version(text: str) -> AddContent | None:
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


def _parse_rccl_version(text: str) -> AddContent:
    return _make_setter("version", f"rccl-tests {text.partition('Version')[2].strip()}")


def _parse_start(text: str) -> AddContent | None:
    match = _STARTING.match(text)
    name, _, suffix = match[1].partition("_perf") if match else ("", "", "")
    if not _PROGRAM_NAME.match(name):
        return None
    return partial(_add_program, f"{name}_perf{suffix}", collectives.single_collective_in(name))


def _add_program(program: str, collective: str | None, facts: TableFacts) -> bool:
    facts.program, facts.stated_collective = program, collective
    return True


def _parse_conclusion(_text: str) -> AddContent:
    return _make_setter("has_conclusion", True)


def _parse_group(text: str) -> AddContent | None:
    match = _GROUP.match(text)
    return partial(_add_group, int(match[1]), int(match[2])) if match else None


def _add_group(group: int, rank_count: int, facts: TableFacts) -> bool:
    facts.group = group
    if len(facts.group_ranks) < MAX_RANKS:
        facts.group_ranks[group] = rank_count
    return True


def _parse_average(text: str) -> AddContent | None:
    match = _AVERAGE.match(text)
    return _make_setter("average", match[1]) if match else None


def _parse_out_of_bounds(text: str) -> AddContent | None:
    match = _OUT_OF_BOUNDS.match(text)
    return _make_setter("out_of_bounds", int(match[1])) if match else None


def _parse_one_sided(_text: str) -> AddContent:
    return partial(_add_settings, {"one_sided": "True"})


def _parse_end_reason(text: str) -> AddContent:
    return partial(_add_end_reason, text.partition(":")[2].strip()[:300])


def _add_end_reason(reason: str, facts: TableFacts) -> bool:
    facts.end_reason = facts.end_reason or reason
    return True


def _parse_warning(text: str) -> AddContent:
    return partial(_add_warning, text.removeprefix("Warning: ").strip())


def _add_warning(warning: str, facts: TableFacts) -> bool:
    if len(facts.warnings) < 100:
        facts.warnings.append(warning)
    return True


def _accept_without_content(_text: str) -> AddContent:
    return _accept


_LINE_PARSERS: tuple[tuple[str, Callable[[str], AddContent | None]], ...] = (
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

_PARSERS_BY_FIRST_WORD: dict[str, list[tuple[str, Callable[[str], AddContent | None]]]] = {}
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
