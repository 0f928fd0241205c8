"""Redacts a log for sharing: removes names of hosts, people and folders, and keeps measurements and methods.

In texts, `replace_in_text` finds three kinds of names: hosts of rank lists, values of variables such as HOSTNAME
(`_VARIABLE_WITH_NAME`), and texts of a known form (accounts, paths, ids, addresses). A value of a setting such as
`user` (`_SETTING_WITH_NAME`) is replaced in this setting only.

Replacements are consistent: the same host is `host-1` in every table of every log that is redacted together. Free text
(a heading, a refused line) is removed completely, because it may contain any name.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath

from msgspec.structs import replace

from busbw.logs.log import Figure, Log, Rank, Refusal, Row, Table
from busbw.logs.sequences import map_sequence

_REDACTED = "(redacted)"

# Paths: "/data/run.log" and "~/run.log", then "data/runs/log" with two or more slashes, then "C:\data" of Windows.
_PATH = re.compile(
    r"(?<![\w/.])(?:~[\w.-]*|\.{1,2})?/[^\s:;,'\"()\[\]]+|(?<![\w.-])[\w.-]+(?:/[\w.-]+){2,}/?"
    r"|\b[A-Za-z]:\\[^\s:;,'\"]+"
)
# Accounts and mail addresses, name@host. Anchored at the beginning of a word, because a search from each letter of a
# long word takes quadratic time.
_ACCOUNT = re.compile(r"(?<![\w.+-])[\w.+-]+(?:@[\w.+-]+)+")
# IPv4 and IPv6: 10.0.0.1, fe80::1:2.
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b|(?<![\w:])(?:[0-9a-fA-F]{0,4}:){3,7}[0-9a-fA-F]{1,4}(?![\w:])")
# 0000:0f:00.0 on PCI.
_BUS_ID = re.compile(r"\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?\b")
# GPU-3fa85f64-5717-4562-b3fc-2c963f66afa6, or the same without "GPU-".
_UUID = re.compile(r"(?:GPU-|MIG-)?\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
# Process ids: "pid 4711", "process 4711" and "host-1:4711". NCCL begins its messages with host:pid, and the name of the
# host is already replaced.
_PID = re.compile(r"(\bpid(?:\s+|=|:\s*)|\bprocess\s+|\bhost-\d+[:-])\d+", re.IGNORECASE)

_VARIABLE_WITH_NAME = re.compile(r"HOST|NODE|USER|LOGNAME|ACCOUNT|MAIL|HOME|ADDR|JOB_NAME|MASTER")
"""Environment variables with values that name users or hosts. These names are also replaced in all other texts."""

_KEPT_VARIABLE = re.compile(r"(?:NCCL|RCCL|UCX|FI|CUDA|HSA|HIP|OMPI_MCA|MSCCL|BUSBW)_")
"""Environment variables that keep their name; their value is replaced. All other variables are removed."""

# Programs of nccl-tests, with or without their folder: all_reduce_perf, ./build/all_reduce_perf_mpi.
_KNOWN_PROGRAM = re.compile(r"^(?:\S*/)?(\w+_perf(?:_mpi)?)$")
_SAFE_ARGUMENT = re.compile(
    r"-{1,2}[a-z][a-z-]*(?:=?\d+[KMGT]?)?|\d+(?:\.\d+)?[KMGT]?|all|sum|prod|max|min|avg|mulsum|in|out|both"
    r"|u?int(?:8|32|64)|half|float|double|bfloat16|f8e4m3|f8e5m2|fp8_e4m3|fp8_e5m2|host|nccl|mpi",
)
"""Arguments of a command line that describe only the measurement, such as "-b", "-e1G", "--iters=20" and "float"."""

_SETTING_WITH_NAME = re.compile(
    r"host|node_?name|user|path|dir|file|pid|address|kernel|uuid|serial|job|_id$", re.IGNORECASE
)
"""Settings that identify a machine, a file or a person. `nodes` is only a number and does not match."""


def redact(log: Log) -> Log:
    """Returns the log without names of hosts and people, paths, bus ids, process ids, and values of the environment."""
    return redact_all([log])[0]


def redact_all(logs: Sequence[Log]) -> tuple[Log, ...]:
    """Redacts several logs with the same replacement for the same name."""
    replacements = _Replacements(logs)
    return tuple(_redact_log(log, log_number, replacements) for log_number, log in enumerate(logs, start=1))


def with_expectation_fields(redacted: Log, original: Log) -> Log:
    """Restores the fields that the expectation needs: the title may name the system, the environment the algorithm.

    The returned log is for verdicts only, and no output may show these fields. Each access to a table makes it again.
    """

    def make_table(index: int) -> Table:
        table = original.tables[index]
        return replace(redacted.tables[index], title=table.title, environment=table.environment)

    return replace(redacted, tables=map_sequence(make_table, range(len(original.tables))))


class _Replacements:
    """Replaces names consistently. A replacement is a kind and a number in order of appearance: `host-1`, `path-2`."""

    def __init__(self, logs: Sequence[Log]) -> None:
        self._by_kind: dict[str, dict[str, str]] = {}
        """Replacements by kind and name, so that a name is replaced in the same way everywhere."""
        self._replacement_by_name: dict[str, str] = {}
        """Replacements of the names that are also replaced within texts."""
        hosts: dict[str, None] = {}
        environments: list[dict[str, str]] = []
        for log in logs:
            for table in log.tables:
                hosts |= dict.fromkeys(rank.host for rank in table.rank_list if rank.host)
                # Tables of one log usually share the environment, so a comparison with the last one is enough.
                if table.environment and table.environment not in environments[-1:]:
                    environments.append(table.environment)
        self._add_hosts(hosts)
        for environment in environments:
            self._add_variables(environment)
        self._replacement_by_lower_name = {
            name.lower(): replacement for name, replacement in self._replacement_by_name.items()
        }
        # The longest name first, because a regular expression takes the first alternative that matches.
        longest_first = sorted(self._replacement_by_name, key=len, reverse=True)
        alternatives = "|".join(re.escape(name) for name in longest_first)
        self._names_pattern = (
            re.compile(rf"(?<![A-Za-z0-9])(?:{alternatives})(?![A-Za-z0-9])", re.IGNORECASE) if longest_first else None
        )

    def _add_hosts(self, hosts: Iterable[str]) -> None:
        """Adds host names, each with and without its domain."""
        for host in hosts:
            replacement = self.replace_name("host", host)
            self._replacement_by_name[host] = replacement
            self._replacement_by_name.setdefault(host.partition(".")[0], replacement)

    def _add_variables(self, environment: Mapping[str, str]) -> None:
        """Adds the values of variables that name users or hosts. Numbers and single characters are no names."""
        for variable, value in environment.items():
            is_name = len(value) > 1 and not value.isdigit()
            if is_name and _VARIABLE_WITH_NAME.search(variable.upper()):
                self._replacement_by_name.setdefault(value, self.replace_name("name", value))

    def replace_name(self, kind: str, name: str) -> str:
        """Returns the replacement of a name: its kind and number, such as `host-1`."""
        replacements_of_kind = self._by_kind.setdefault(kind, {})
        return replacements_of_kind.setdefault(name, f"{kind}-{len(replacements_of_kind) + 1}")

    def replace_number(self, kind: str, name: int) -> int:
        """Returns the number that replaces a number of this kind: the first process id becomes 1, the second 2."""
        return int(self.replace_name(kind, str(name)).rpartition("-")[2])

    def replace_in_text(self, text: str) -> str:
        """Replaces the known names and the texts of a known form. For texts of busbw, such as a warning."""
        if self._names_pattern:
            text = self._names_pattern.sub(lambda match: self._replacement_by_lower_name[match[0].lower()], text)
        for kind, pattern in (
            ("account", _ACCOUNT),
            ("path", _PATH),
            ("id", _UUID),
            ("bus", _BUS_ID),
            ("address", _ADDRESS),
        ):
            text = pattern.sub(self._replacer(kind), text)
        # Last, because the pattern needs the replaced host names.
        return _PID.sub(rf"\1{_REDACTED}", text)

    def _replacer(self, kind: str) -> Callable[[re.Match[str]], str]:
        """Returns a function that replaces a match, for `re.sub`."""
        return lambda match: self.replace_name(kind, match[0])


def _redact_log(log: Log, log_number: int, replacements: _Replacements) -> Log:
    return replace(
        log,
        source=f"log-{log_number}{_known_suffix(log.source)}",
        tables=map_sequence(lambda table: _redact_table(table, replacements), log.tables),
        refused=map_sequence(lambda refusal: _redact_refusal(refusal, replacements), log.refused),
        warnings=tuple(map(replacements.replace_in_text, log.warnings)),
    )


def _redact_refusal(refusal: Refusal, replacements: _Replacements) -> Refusal:
    return Refusal(line=refusal.line, text=_REDACTED, reason=replacements.replace_in_text(refusal.reason))


def _known_suffix(source: str) -> str:
    suffix = PurePath(source).suffix
    return suffix if suffix in {".jsonl", ".json", ".txt", ".log", ".md", ".html", ".csv", ".out"} else ""


def _redact_table(table: Table, replacements: _Replacements) -> Table:
    return replace(
        table,
        title=_REDACTED if table.title else None,
        program=_redact_program(table.program),
        command=_redact_command(table.command),
        library=_replace_if_stated(table.library, replacements.replace_in_text),
        program_version=_replace_if_stated(table.program_version, replacements.replace_in_text),
        rank_list=tuple(_redact_rank(rank, replacements) for rank in table.rank_list),
        settings={
            replacements.replace_in_text(key): _redact_setting(key, value, replacements)
            for key, value in table.settings.items()
        },
        environment={
            key: replacements.replace_name("value", value)
            for key, value in table.environment.items()
            if _KEPT_VARIABLE.match(key)
        },
        rows=map_sequence(lambda row: _redact_row(row, replacements), table.rows),
        end_reason=_replace_if_stated(table.end_reason, replacements.replace_in_text),
        warnings=tuple(map(replacements.replace_in_text, table.warnings)),
    )


def _replace_if_stated(text: str | None, replace_text: Callable[[str], str]) -> str | None:
    return None if text is None else replace_text(text)


def _redact_program(program: str | None) -> str | None:
    """Returns the program's name without its folder. A name of unknown form is removed."""
    if program is None:
        return None
    match = _KNOWN_PROGRAM.match(program)
    return match[1] if match else _REDACTED


def _redact_command(command: str | None) -> str | None:
    """Returns the program and its safe arguments. The launcher and its options before the program are removed."""
    if command is None:
        return None
    arguments = command.split()
    program_index = next((index for index, argument in enumerate(arguments) if _KNOWN_PROGRAM.match(argument)), None)
    if program_index is None:
        return _REDACTED
    safe_arguments = [
        argument if _SAFE_ARGUMENT.fullmatch(argument) else _REDACTED for argument in arguments[program_index + 1 :]
    ]
    return " ".join([_redact_program(arguments[program_index]) or _REDACTED, *safe_arguments])


def _redact_setting(key: str, value: str, replacements: _Replacements) -> str:
    is_number = re.fullmatch(r"[\d.]*", value)
    if _SETTING_WITH_NAME.search(key) and not is_number:
        return replacements.replace_name("value", value)
    return replacements.replace_in_text(value)


def _redact_rank(rank: Rank, replacements: _Replacements) -> Rank:
    return replace(
        rank,
        host=_replace_if_stated(rank.host, lambda host: replacements.replace_name("host", host)),
        pid=None if rank.pid is None else replacements.replace_number("pid", rank.pid),
        bus_id=_redact_bus_id(rank.bus_id, replacements),
        device_name=_replace_if_stated(rank.device_name, replacements.replace_in_text),
    )


def _redact_bus_id(bus_id: str | None, replacements: _Replacements) -> str | None:
    """Replaces the bus id of a GPU. The host backend writes "cpu" instead of a bus id."""
    if bus_id is None or bus_id == "cpu":
        return bus_id
    return replacements.replace_name("bus", bus_id)


def _redact_row(row: Row, replacements: _Replacements) -> Row:
    has_text = any(figure.warnings or figure.first_wrong or figure.late_ranks for figure in row.figures.values())
    if row.variant is None and not has_text:
        return row
    return replace(
        row,
        variant=_replace_if_stated(row.variant, replacements.replace_in_text),
        figures={placement: _redact_figure(figure, replacements) for placement, figure in row.figures.items()},
    )


def _redact_figure(figure: Figure, replacements: _Replacements) -> Figure:
    return replace(
        figure,
        warnings=tuple(map(replacements.replace_in_text, figure.warnings)),
        late_ranks=tuple(
            replace(
                late,
                host=replacements.replace_name("host", late.host),
                message=replacements.replace_in_text(late.message),
            )
            for late in figure.late_ranks
        ),
        first_wrong=tuple(
            replace(
                wrong,
                place=replacements.replace_in_text(wrong.place),
                expected=replacements.replace_in_text(wrong.expected),
                got=replacements.replace_in_text(wrong.got),
            )
            for wrong in figure.first_wrong
        ),
    )
