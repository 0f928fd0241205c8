"""Redacts a log for sharing: removes people, places and machines, and keeps measurements and methods.

Replacements are consistent: the same host is `host-1` in every table of every log that is redacted together. Free text
(a heading, a refused line) is removed completely, because it may contain any name.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import PurePath

from msgspec.structs import replace

from busbw.logs import Figure, Log, Rank, Refusal, Row, Table

LEFT_OUT = "(redacted)"

_PATH = re.compile(
    r"(?<![\w/.])(?:~[\w.-]*|\.{1,2})?/[^\s:;,'\"()\[\]]+|(?<![\w.-])[\w.-]+(?:/[\w.-]+){2,}/?"
    r"|\b[A-Za-z]:\\[^\s:;,'\"]+"
)
# Anchored at the beginning of a word, because a search from each letter of a long word takes quadratic time.
_ACCOUNT = re.compile(r"(?<![\w.+-])[\w.+-]+(?:@[\w.+-]+)+")
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b|(?<![\w:])(?:[0-9a-fA-F]{0,4}:){3,7}[0-9a-fA-F]{1,4}(?![\w:])")
_BUS_ID = re.compile(r"\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?\b")
_UUID = re.compile(r"(?:GPU-|MIG-)?\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_PID = re.compile(r"(\bpid(?:\s+|=|:\s*)|\bprocess\s+|\bhost-\d+[:-])\d+", re.IGNORECASE)

_NAMING_VARIABLE = re.compile(r"HOST|NODE|USER|LOGNAME|ACCOUNT|MAIL|HOME|ADDR|JOB_NAME|MASTER")
"""Variables with names of users or hosts as values. These values are also replaced in all other texts."""

_SHARED_VARIABLE = re.compile(r"(?:NCCL|RCCL|UCX|FI|CUDA|HSA|HIP|OMPI_MCA|MSCCL|BUSBW)_")
"""Variables that keep their name, with a replaced value. All other variables are removed."""

_PROGRAM = re.compile(r"^(?:\S*/)?(\w+_perf(?:_mpi)?)$")
_PLAIN_WORD = re.compile(
    r"-{1,2}[a-z][a-z-]*(?:=?\d+[KMGT]?)?|\d+(?:\.\d+)?[KMGT]?|all|sum|prod|max|min|avg|mulsum|in|out|both"
    r"|u?int(?:8|32|64)|half|float|double|bfloat16|f8e4m3|f8e5m2|fp8_e4m3|fp8_e5m2|host|nccl|mpi",
)
"""Words of a command line that describe only the measurement."""

_NAMING_SETTING = re.compile(
    r"host|node_?name|user|path|dir|file|pid|address|kernel|uuid|serial|job|_id$", re.IGNORECASE
)
"""Settings that identify a place or a person. `nodes` alone is a number and does not match."""


def redact(log: Log) -> Log:
    """Returns the log without names of hosts and people, paths, bus and process ids, and environment values."""
    return redact_all([log])[0]


def redact_all(logs: Sequence[Log]) -> tuple[Log, ...]:
    """Redacts several logs with the same replacement for the same name."""
    names = _Replacements(logs)
    return tuple(_log(log, number, names) for number, log in enumerate(logs, start=1))


class _Replacements:
    """Replacement of each name, numbered in order of appearance."""

    def __init__(self, logs: Sequence[Log]) -> None:
        self._by_kind: dict[str, dict[str, str]] = {}
        hosts = [rank.host for log in logs for table in log.tables for rank in table.rank_list if rank.host]
        known: dict[str, str] = {}
        for host in hosts:
            known[host] = self.replacement("host", host)
            known.setdefault(host.partition(".")[0], known[host])  # the host name without its domain
        for log in logs:
            for table in log.tables:
                for key, value in table.environment.items():
                    if _NAMING_VARIABLE.search(key.upper()) and len(value) > 1 and not value.isdigit():
                        known.setdefault(value, self.replacement("name", value))
        self._known = known
        longest_first = sorted(known, key=len, reverse=True)
        joined = "|".join(re.escape(name) for name in longest_first)
        self._pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{joined})(?![A-Za-z0-9])", re.IGNORECASE) if known else None

    def replacement(self, kind: str, name: str) -> str:
        known = self._by_kind.setdefault(kind, {})
        return known.setdefault(name, f"{kind}-{len(known) + 1}")

    def number(self, kind: str, name: int) -> int:
        return int(self.replacement(kind, str(name)).rpartition("-")[2])

    def text(self, text: str) -> str:
        """Replaces every name in text of a known form, such as warnings of busbw."""
        if self._pattern:
            known = {name.lower(): replacement for name, replacement in self._known.items()}
            text = self._pattern.sub(lambda found: known[found[0].lower()], text)
        for kind, pattern in (
            ("account", _ACCOUNT),
            ("path", _PATH),
            ("id", _UUID),
            ("bus", _BUS_ID),
            ("address", _ADDRESS),
        ):
            text = pattern.sub(self._replace(kind), text)
        return _PID.sub(rf"\1{LEFT_OUT}", text)

    def _replace(self, kind: str) -> Callable[[re.Match[str]], str]:
        return lambda found: self.replacement(kind, found[0])


def _log(log: Log, number: int, names: _Replacements) -> Log:
    return replace(
        log,
        source=f"log-{number}{_suffix(log.source)}",
        tables=tuple(_table(table, names) for table in log.tables),
        refused=tuple(Refusal(line=line.line, text=LEFT_OUT, reason=names.text(line.reason)) for line in log.refused),
        warnings=tuple(map(names.text, log.warnings)),
    )


def _suffix(source: str) -> str:
    suffix = PurePath(source).suffix
    return suffix if suffix in {".jsonl", ".json", ".txt", ".log", ".md", ".html", ".csv", ".out"} else ""


def _table(table: Table, names: _Replacements) -> Table:
    return replace(
        table,
        title=LEFT_OUT if table.title else None,
        program=_program(table.program),
        command=_command(table.command),
        library=_optional(table.library, names.text),
        program_version=_optional(table.program_version, names.text),
        rank_list=tuple(_rank(rank, names) for rank in table.rank_list),
        settings={names.text(key): _setting(key, value, names) for key, value in table.settings.items()},
        environment={
            key: names.replacement("value", value)
            for key, value in table.environment.items()
            if _SHARED_VARIABLE.match(key)
        },
        rows=tuple(_row(row, names) for row in table.rows),
        end_reason=_optional(table.end_reason, names.text),
        warnings=tuple(map(names.text, table.warnings)),
    )


def _optional(text: str | None, change: Callable[[str], str]) -> str | None:
    return None if text is None else change(text)


def _program(program: str | None) -> str | None:
    """Returns the program's name without its folder. A name of unknown form is removed."""
    if program is None:
        return None
    known = _PROGRAM.match(program)
    return known[1] if known else LEFT_OUT


def _command(command: str | None) -> str | None:
    """Returns the program and the words that describe only the measurement. Launcher options may name hosts."""
    if command is None:
        return None
    words = command.split()
    begin = next((number for number, word in enumerate(words) if _PROGRAM.match(word)), None)
    if begin is None:
        return LEFT_OUT
    kept = [word if _PLAIN_WORD.fullmatch(word) else LEFT_OUT for word in words[begin + 1 :]]
    return " ".join([_program(words[begin]) or LEFT_OUT, *kept])


def _setting(key: str, value: str, names: _Replacements) -> str:
    if _NAMING_SETTING.search(key) and not re.fullmatch(r"[\d.]*", value):
        return names.replacement("value", value)
    return names.text(value)


def _rank(rank: Rank, names: _Replacements) -> Rank:
    return replace(
        rank,
        host=_optional(rank.host, lambda host: names.replacement("host", host)),
        pid=None if rank.pid is None else names.number("pid", rank.pid),
        bus_id=_optional(rank.bus_id, lambda bus_id: bus_id if bus_id == "cpu" else names.replacement("bus", bus_id)),
        device_name=_optional(rank.device_name, names.text),
    )


def _row(row: Row, names: _Replacements) -> Row:
    if row.variant is None and not any(figure.warnings or figure.first_wrong for figure in row.figures.values()):
        return row
    return replace(
        row,
        variant=_optional(row.variant, names.text),
        figures={placement: _figure(figure, names) for placement, figure in row.figures.items()},
    )


def _figure(figure: Figure, names: _Replacements) -> Figure:
    return replace(
        figure,
        warnings=tuple(map(names.text, figure.warnings)),
        first_wrong=tuple(
            replace(
                wrong, place=names.text(wrong.place), expected=names.text(wrong.expected), got=names.text(wrong.got)
            )
            for wrong in figure.first_wrong
        ),
    )
