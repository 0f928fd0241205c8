"""Starts the installed programs as a user does: real processes in an empty folder, real files."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from installed import plain_environment
from polling import HANG_GUARD_S, wait_until

from busbw.collectives import COLLECTIVES, collectives
from busbw.records import Record

REDUCING = [name for name, collective in collectives().items() if collective.reduces]
ROOTED = [name for name, collective in collectives().items() if collective.has_root]

OUTPUTS = ["-J", "out.json", "--records", "out.jsonl"]

_WAITS = re.compile(
    r"\w+: (\d+ of \d+ processes ha(s|ve) not joined: [^;]*; process 0 listens at .*|"
    r"process \d+ is waiting for process 0 \(.*)"
)
"""Status line that a process prints every few seconds while another one is missing; not the error at the end."""


def complaints(stderr: str) -> list[str]:
    """Lines of stderr without status lines about missing processes, which depend on the machine's load."""
    return [line for line in stderr.splitlines() if not _WAITS.fullmatch(line)]


@dataclass(frozen=True)
class Finished:
    """Exit code and output of a finished program."""

    code: int
    stdout: str
    stderr: str

    def sentence(self) -> str:
        """The only line on stderr, beside those of a wait that came to its end."""
        lines = complaints(self.stderr)
        assert len(lines) == 1, self.stderr
        return lines[0]


class Running:
    """A program that has been started, in a process group of its own so that Ctrl-C can be sent to all of it."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self.process = process
        self.pid = process.pid
        self.folder = folder

    def finish(self) -> Finished:
        try:
            stdout, stderr = self.process.communicate(timeout=HANG_GUARD_S)
        except subprocess.TimeoutExpired:
            self.kill_group()
            raise
        return Finished(self.process.returncode, stdout, stderr)

    def interrupt_group(self) -> None:
        """Sends the signal that Ctrl-C in a terminal sends."""
        os.killpg(self.pid, signal.SIGINT)

    def kill_group(self) -> None:
        if self.process.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()

    def json_path(self) -> Path:
        return self.folder / "out.json"

    def records_path(self) -> Path:
        return self.folder / "out.jsonl"


class Programs:
    """The programs of one folder, run in another one."""

    def __init__(self, installed_in: Path, folder: Path) -> None:
        self.installed_in = installed_in
        self.folder = folder
        self.started: list[Running] = []

    def path(self, name: str) -> Path:
        return self.installed_in / name

    def start(
        self,
        name: str,
        *arguments: object,
        environment: dict[str, str] | None = None,
        folder: Path | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> Running:
        """Starts a program. `name` may leave out "_perf"."""
        program = f"{name}_perf" if name in COLLECTIVES else name
        where = folder or self.folder
        process = subprocess.Popen(
            [str(self.path(program)), *map(str, arguments)],
            cwd=where,
            env={**plain_environment(), **(environment or {})},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running = Running(process, where)
        self.started.append(running)
        return running

    def run(self, name: str, *arguments: object, environment: dict[str, str] | None = None) -> Finished:
        return self.start(name, *arguments, environment=environment).finish()

    def stop_all(self) -> None:
        """Nothing that a failed test has started goes on."""
        for running in self.started:
            running.kill_group()

    def subfolder(self, name: str) -> Path:
        """A new empty folder, for one of several programs that run at the same time."""
        folder = self.folder / name
        folder.mkdir()
        return folder


PRETENDED_ENGINE = "busbw-engine-pretended"
"""The engine over a fake CUDA (bench/programs/fake_cuda.cpp). `pretended` has it."""
PRETENDED_NCCL = "libpretended_nccl.so"
"""A fake NCCL in the same folder (bench/programs/fake_nccl.cpp)."""


def used_from(installed_in: Path, scratch: Path) -> Iterator[Programs]:
    """For a fixture: the programs of a folder, to run in an empty one; what they started ends with the test."""
    here = scratch / "here"
    here.mkdir()
    found = Programs(installed_in, here)
    yield found
    found.stop_all()


def compile_fake(source: str, to: Path, **definitions: object) -> None:
    """Makes a library of a C file in this folder, which stands for a real one."""
    defined = [f"-D{name.upper()}={value}" for name, value in definitions.items()]
    file = Path(__file__).parent / source
    subprocess.run(["c++", "-x", "c", "-shared", "-fPIC", *defined, "-o", to, file], check=True)


def run_and_record(programs: Programs, *arguments: object, environment: dict[str, str] | None = None) -> Finished:
    """A run that goes well and writes both files."""
    finished = programs.run(str(arguments[0]), *arguments[1:], *OUTPUTS, environment=environment)
    assert (finished.code, finished.stderr) == (0, "")
    return finished


def document_of(programs: Programs) -> dict[str, Any]:
    return read_json(programs.folder / "out.json")


def records_of(programs: Programs) -> list[dict[str, Any]]:
    return read_records(programs.folder / "out.jsonl")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON document, by a strict reader: NaN and Infinity are not JSON."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    document = json.loads(path.read_text(), parse_constant=refuse)
    assert isinstance(document, dict)
    return document


def read_records(path: Path, killed: bool = False) -> list[dict[str, Any]]:
    """The whole lines of a record. Only a killed run may leave half a line behind the last of them.

    Each line has exactly the fields of its Python type, from which the schema is generated.
    """
    *lines, rest = path.read_text().split("\n")
    assert killed or not rest
    records = [json.loads(line) for line in lines]
    for record in records:
        assert _names_in(msgspec.to_builtins(msgspec.convert(record, Record))) == _names_in(record)
    return records


def _names_in(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _names_in(content) for name, content in value.items()}
    if isinstance(value, list | tuple):
        return [_names_in(element) for element in value if isinstance(element, dict)]
    return None


def of_kind(records: Iterable[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in records if line["kind"] == kind]


def wait_for_rows(running: Running, rows: int) -> None:
    """Waits until the record holds so many rows."""

    def enough() -> bool:
        path = running.records_path()
        return path.exists() and path.read_text().count('"kind":"row"') >= rows

    wait_until(lambda: enough() or running.process.poll() is not None, f"{rows} rows")
    assert enough(), running.process.communicate()


def wait_for_text(path: Path) -> None:
    wait_until(lambda: path.exists() and path.stat().st_size > 0, f"something in {path.name}")


def wait_for_ranks(running: Running) -> None:
    """Until the outputs have been opened, and there is a thread or a process of a rank beside the first thread.

    Before, there is a thread that watches over the look for GPUs.
    """
    wait_for_text(running.json_path())

    def there() -> bool:
        threads = len(list(Path(f"/proc/{running.pid}/task").iterdir()))
        return threads > 1 or len(group_members(running.pid)) > 1

    wait_until(there, "the ranks")


def group_members(group: int) -> set[int]:
    """The running processes of a process group: a program's own and all that it forked."""
    members = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == group and fields[0] not in {"Z", "X"}:
            members.add(int(entry.name))
    return members


def expect_no_process_left(running: Running) -> None:
    """A killed process needs a moment to go; one that is forgotten stays."""
    wait_until(lambda: not group_members(running.pid), f"the end of all processes of group {running.pid}")


def first_record(path: Path) -> dict[str, Any]:
    """The record's first line, which may be read while the program runs."""
    line = path.read_text().split("\n", 1)[0]
    record = json.loads(line)
    assert record["kind"] == "run"
    return dict(record)
