"""Wrappers of logs, as launchers, log collectors and web pages add them. Each makes a log of the lines of a log."""

import csv
import html
import io
import json
from collections.abc import Callable, Sequence

Wrapper = Callable[[Sequence[str]], str]


def _clock(index: int) -> str:
    seconds = 37_310 + index // 3
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _join(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _prefixed(prefix: Callable[[int], str]) -> Wrapper:
    return lambda lines: _join([prefix(index) + line for index, line in enumerate(lines)])


def _constant(prefix: str) -> Wrapper:
    return _prefixed(lambda _index: prefix)


PREFIXES: dict[str, Wrapper] = {
    "pdsh": _constant("gpu012: "),
    "Ray": _constant("(run pid=1, ip=10.0.0.7) "),
    "Ray and mpirun": _constant("(head, rank=0, pid=3808) [1,0]<stdout>:"),
    "compose": _constant("web-1  | "),
    "Open MPI 5": _constant("[prterun-gpu012-1234@1,0]<stdout>: "),
    "srun -l": _constant(" 0: "),
    "hydra": _constant("[0] "),
    "torchrun": _constant("[default0]:"),
    "grep -H": _constant("logs/run-7.log:"),
    "syslog": _prefixed(lambda index: f"Nov 26 {_clock(index)} gpu012 srun[4242]: "),
    "RFC 5424": _prefixed(lambda index: f"<14>1 2026-11-26T{_clock(index)}.{index:06}+01:00 gpu012 srun 4242 - - "),
    "journald": _prefixed(lambda index: f"2026-11-26T{_clock(index)}+0100 gpu012 slurmstepd[17]: "),
    "CRI": _prefixed(lambda index: f"2026-11-26T{_clock(index)}.{index * 7919 % 1000:03}456789Z stdout F "),
    "kubectl": _prefixed(lambda index: f"[pod/nccl-7/main] 2026-11-26T{_clock(index)}.5-07:00 "),
    "Python logging": _prefixed(lambda index: f"2026-11-26 {_clock(index)},{index % 1000:03} INFO nccl: "),
    "Python logging, short": _constant("INFO:nccl.runner:"),
    "loguru": _prefixed(lambda index: f"2026-11-26 {_clock(index)}.{index:03} | INFO     | __main__:run:42 - "),
    "klog": _prefixed(lambda index: f"I1126 {_clock(index)}.{index:06}    4242 run.go:12] "),
    "slog": _prefixed(lambda index: f"time=2026-11-26T{_clock(index)}Z level=INFO source=run.go:12 "),
}
"""Prefixes that are constant or hold times."""

COUNTERS: dict[str, Wrapper] = {
    "cat -n": _prefixed(lambda index: f"{index + 1:>6}\t"),
    "grep -n": _prefixed(lambda index: f"{index + 1}:"),
    "grep -Hn": _prefixed(lambda index: f"run.log:{index + 1}:"),
    "epoch seconds": _prefixed(lambda index: f"{1_764_150_000 + index // 4} "),
    "epoch with fraction": _prefixed(lambda index: f"{1_764_150_000 + index // 4}.{index % 4 * 25:02}0 "),
    "dmesg": _prefixed(lambda index: f"[{98 + index * 0.137:12.6f}] "),
    "BuildKit": _prefixed(lambda index: f"#12 {0.5 + index * 0.031:.3f} "),
    "identifier": _prefixed(lambda index: f"[{index * 2654435761 % 2**32:08x}] "),
}
"""Prefixes with a number that changes from line to line."""


def _docker(lines: Sequence[str]) -> str:
    return _join(
        [
            json.dumps({"log": line + "\n", "stream": "stdout", "time": f"2026-11-26T{_clock(index)}.{index:09}Z"})
            for index, line in enumerate(lines)
        ]
    )


def _text_payload(lines: Sequence[str]) -> str:
    entries = [
        {
            "insertId": f"{index * 2654435761 % 2**32:08x}x{index % 7}",
            "labels": {"k8s-pod/job-name": "nccl"},
            "textPayload": line,
            "timestamp": f"2026-11-26T{_clock(index)}.{index:06}Z",
        }
        for index, line in enumerate(lines)
    ]
    return json.dumps(entries, indent=2) + "\n"


def _text_payload_lines(lines: Sequence[str]) -> str:
    return _join(
        [
            json.dumps(
                {"insertId": f"{index * 2654435761 % 2**32:08x}", "resource": {"pod": "a-0"}, "textPayload": line}
            )
            for index, line in enumerate(lines)
        ]
    )


def _journald_json(lines: Sequence[str]) -> str:
    return _join(
        [
            json.dumps(
                {"__REALTIME_TIMESTAMP": str(1_764_150_000_000_000 + index * 731), "_PID": "17", "MESSAGE": line}
            )
            for index, line in enumerate(lines)
        ]
    )


def _notebook(lines: Sequence[str]) -> str:
    cell = {
        "cell_type": "code",
        "outputs": [{"name": "stdout", "output_type": "stream", "text": [line + "\n" for line in lines]}],
        "source": ["!all_reduce_perf -b 8\n"],
    }
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}, indent=1) + "\n"


def _ansible(lines: Sequence[str]) -> str:
    result = {
        "changed": True,
        "cmd": ["bash", "run.sh"],
        "rc": 0,
        "stdout": "\n".join(lines),
        "stdout_lines": list(lines),
    }
    return "TASK [nccl-tests] ****\nok: [gpu012] => " + json.dumps(result) + "\n"


def _ansible_loop(lines: Sequence[str]) -> str:
    result = {"version": 2, "results": [{"item": "gpu012", "stdout": "\n".join(lines), "stdout_lines": list(lines)}]}
    return json.dumps(result) + "\n"


def _ansible_debug(lines: Sequence[str]) -> str:
    return "ok: [gpu012] => " + json.dumps({"out.stdout_lines": list(lines)}, indent=4) + "\n"


def _logfmt(lines: Sequence[str]) -> str:
    return _join(
        [f"ts=2026-11-26T{_clock(index)}Z level=info msg={json.dumps(line)}" for index, line in enumerate(lines)]
    )


QUOTES: dict[str, Wrapper] = {
    "Docker json-file": _docker,
    "textPayload": _text_payload,
    "textPayload lines": _text_payload_lines,
    "journald -o json": _journald_json,
    ".ipynb": _notebook,
    "Ansible": _ansible,
    "Ansible loop": _ansible_loop,
    "Ansible debug": _ansible_debug,
    "logfmt": _logfmt,
    "quoted": lambda lines: _join([f"'{line}'," for line in lines]),
}
"""Strings that hold lines."""

PYTHON: dict[str, Wrapper] = {
    "Python list": lambda lines: repr(list(lines)) + "\n",
    "Python list of bytes": lambda lines: repr([f"{line}\n".encode() for line in lines]) + "\n",
    "Python bytes": lambda lines: repr(_join(lines).encode()) + "\n",
    "Python bytes per line": lambda lines: _join([repr(f"{line}\n".encode()) for line in lines]),
    "Python process": lambda lines: f"CompletedProcess(args=['run'], returncode=0, stdout={_join(lines)!r})\n",
    "Python dictionary": lambda lines: repr({"host": "gpu012", "stdout": _join(lines), "rc": 0}) + "\n",
    "Ansible one-line": lambda lines: "gpu012 | CHANGED | rc=0 | (stdout) " + "\\n".join(lines) + "\n",
}
"""Strings that Python prints, and the escaped line feeds of Ansible."""


def _columns(delimiter: str, cells: Callable[[int, str], list[str]]) -> Wrapper:
    def wrap(lines: Sequence[str]) -> str:
        out = io.StringIO()
        writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
        writer.writerows([cells(index, line) for index, line in enumerate(lines)])
        return out.getvalue()

    return wrap


def _event(index: int, line: str, *, is_filtered: bool) -> str:
    stamp = 1_764_150_000_000 + index * 37
    before = ["EVENTS", f"3{index * 2654435761 % 2**32:032}", str(stamp + 5), "nccl/a"] if is_filtered else ["EVENTS"]
    return "\t".join([*before, str(stamp + 5), line, str(stamp)])


COLUMNS: dict[str, Wrapper] = {
    "CSV": _columns(",", lambda index, line: [f"2026-11-26T{_clock(index)}Z", line, "gpu012", "nccl-7"]),
    "CSV, line first": _columns(",", lambda index, line: [line, f"2026-11-26T{_clock(index)}Z"]),
    "CSV, semicolons": _columns(";", lambda index, line: [str(index), line, "gpu012"]),
    "tabs": lambda lines: _join([f"{line}\tgpu012\t{_clock(index)}" for index, line in enumerate(lines)]),
    "aws get-log-events": lambda lines: _join(
        [_event(index, line, is_filtered=False) for index, line in enumerate(lines)]
    ),
    "aws filter-log-events": lambda lines: _join(
        [_event(index, line, is_filtered=True) for index, line in enumerate(lines)]
    ),
    "Ray, repeated": lambda lines: _join(
        [
            f"(run pid=1, ip=10.0.0.7) {line}" + " [repeated 3x across cluster]" * (index % 5 == 3)
            for index, line in enumerate(lines)
        ]
    ),
}
"""Text after every line, or after some."""


def _table_rows(lines: Sequence[str]) -> str:
    cells = [f'<tr><td data-line="{index}"></td><td>{html.escape(line)}</td></tr>' for index, line in enumerate(lines)]
    return "<table>\n" + _join(cells) + "</table>\n"


MARKUP: dict[str, Wrapper] = {
    "HTML paragraphs": lambda lines: _join([f"<p>{html.escape(line)}</p>" for line in lines]),
    "HTML spans": lambda lines: _join(
        [f'<span id="L{index}">{html.escape(line)}</span>' for index, line in enumerate(lines)]
    ),
    "HTML table": _table_rows,
    "HTML breaks": lambda lines: "<br>".join(map(html.escape, lines)) + "<br>\n",
    "HTML blanks": lambda lines: _join([html.escape(line).replace(" ", "&nbsp;") + "<br/>" for line in lines]),
    "ANSI colors": lambda lines: _join([f"\x1b[32m{line}\x1b[0m" for line in lines]),
    "CR": lambda lines: "".join(f"{line}\r" for line in lines),
    "CR LF": lambda lines: "".join(f"{line}\r\n" for line in lines),
}
"""Markup, colors and line ends."""

WRAPPERS: dict[str, Wrapper] = {**PREFIXES, **COUNTERS, **QUOTES, **MARKUP}

ALL_WRAPPERS: dict[str, Wrapper] = {**WRAPPERS, **PYTHON, **COLUMNS}
"""Those too that do not work within each other."""
