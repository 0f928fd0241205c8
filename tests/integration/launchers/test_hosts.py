"""A job on several hosts that are network namespaces: is it one table, and do all others name a rank that is lost?"""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from installed import installed_in, plain_environment
from polling import HANG_GUARD_S, send_signal, wait_until

from ..programs import complaints
from ..table import footer, rows_by_pattern
from ..test_faults import PHASES
from .namespaces import Host, Network, network, skip_reason

pytestmark = pytest.mark.skipif(bool(reason := skip_reason()), reason=reason)

PORT = 29400
TOKEN = "0123456789abcdef0123456789abcdef"
# The faults of all jobs that run side by side must hang before the first job ends by this limit.
LIMIT_S = 60
# A process without a message for this time is lost, regardless of its limit (engine/run/launched_run.cpp).
SILENCE_S = 30
# Delay that a busy machine may add. A process that no limit ends stays until HANG_GUARD_S, which is much longer.
GRACE_S = 15
Way = TypeVar("Way")
SWEEP = ["-b", "8", "-e", "64K", "-f", "8", "-n", "5"]


@dataclass
class ProcessResult:
    """Exit code and output of one process of a job."""

    code: int
    stdout: str
    stderr: str
    after_s: float
    """From the moment that was asked about to its end."""

    @property
    def table(self) -> str:
        return "".join(line for line in self.stdout.splitlines(keepends=True) if not line.startswith("{"))

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines() if line.startswith("{")]

    def rows(self) -> list[dict[str, Any]]:
        return [record for record in self.records if record["kind"] == "row"]


class Launched:
    """One job, a process on each host."""

    def __init__(self, hosts: list[Host], folder: Path, *arguments: object, store: str = "") -> None:
        self.hosts = hosts
        self.folder = folder
        self.store = store or f"tcp://{hosts[0].addresses[0]}:{PORT}"
        self.arguments = [str(word) for word in arguments]
        self.processes: list[subprocess.Popen[str]] = []
        self.token = folder / "token"
        self.token.write_text(TOKEN)
        self.token.chmod(0o600)

    def start(self, *ranks: int) -> "Launched":
        """Starts these processes, or all."""
        for rank in ranks or range(len(self.hosts)):
            environment = plain_environment() | {
                "BUSBW_RANK": str(rank),
                "BUSBW_SIZE": str(len(self.hosts)),
                "BUSBW_RENDEZVOUS": self.store,
                "BUSBW_TOKEN_FILE": str(self.token),
            }
            command: list[str | Path] = [installed_in() / "all_reduce_perf", "--records", "-", *self.arguments]
            process = self.hosts[rank].start(
                command, folder=self.folder, environment=environment, output=self.output(rank)
            )
            self.processes.append(process)
        return self

    def output(self, rank: int) -> Path:
        """Where the process's stdout goes: a file, since a job waits for the reader of a pipe."""
        return self.folder / f"stdout-{rank}"

    def ended(self, times: dict[int, float], since: float = 0.0) -> list[ProcessResult]:
        """How each process ended."""
        found = []
        for rank, process in enumerate(self.processes):
            _, stderr = process.communicate()
            found.append(
                ProcessResult(process.returncode, self.output(rank).read_text(), stderr, times[process.pid] - since)
            )
        return found

    def finish(self) -> list[ProcessResult]:
        """Waits for its end."""
        since = time.monotonic()
        return self.ended(end_times([self]), since)


def end_times(jobs: Iterable[Launched], but_not: Collection[int] = ()) -> dict[int, float]:
    """When each process ended; those that cannot end by themselves are killed at last."""
    times: dict[int, float] = {}
    processes = [process for job in jobs for process in job.processes]

    def all_ended() -> bool:
        for process in processes:
            if process.pid not in times and process.poll() is not None:
                times[process.pid] = time.monotonic()
        return all(process.pid in times for process in processes if process.pid not in but_not)

    wait_until(all_ended, "the end of all processes", pause_s=0.02)
    for process in processes:
        if process.pid not in times:
            process.kill()
            times[process.pid] = math.nan
    return times


def expect_good(ended: list[ProcessResult]) -> None:
    assert [(one.code, complaints(one.stderr)) for one in ended] == [(0, [])] * len(ended)
    assert footer(ended[0].table)["Out of bounds values"] == "0 OK"
    assert all(one.stdout == "" for one in ended[1:])
    assert ended[0].rows()


# ---- runs that go well ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hosts", [2, 3])
def test_hosts_make_one_table(tmp_path: Path, hosts: int) -> None:
    with network(hosts) as net:
        ended = Launched(net.hosts, tmp_path, *SWEEP).start().finish()
    expect_good(ended)
    assert len(rows_by_pattern(ended[0].table)) == 5
    (run,) = (record for record in ended[0].records if record["kind"] == "run")
    assert [rank["host"] for rank in run["ranks"]] == [host.name for host in net.hosts]
    assert len({rank["pid"] for rank in run["ranks"]}) == hosts


def test_every_time_includes_a_network_delay(tmp_path: Path) -> None:
    with network(2, delay_ms=3) as net:
        ended = Launched(net.hosts, tmp_path, "-b", "8", "-e", "4K", "-f", "8", "-n", "3").start().finish()
    expect_good(ended)
    # From one host to the other a frame is delayed twice, and no all-reduce is done before something has come.
    assert all(row["time_us"] >= 6000 for row in ended[0].rows())


def test_frames_are_lost_and_no_data(tmp_path: Path) -> None:
    with network(2, delay_ms=0.5, loss=0.01) as net:
        ended = Launched(net.hosts, tmp_path, "-b", "8", "-e", "256K", "-f", "8", "-n", "3").start().finish()
    expect_good(ended)


@pytest.mark.parametrize("dead", [0, 1])
def test_unreachable_addresses_are_skipped(tmp_path: Path, dead: int) -> None:
    """Each host has two interfaces that are up, and nothing gets through one of them."""
    with network(2, switches=2) as net:
        for host in net.hosts:
            net.cut(host, switch=dead)
        ended = Launched(net.hosts, tmp_path, *SWEEP, store=f"file://{tmp_path}").start().finish()
    expect_good(ended)
    (run,) = (record for record in ended[0].records if record["kind"] == "run")
    message = json.dumps(run)
    assert f"10.78.{1 - dead}." in message
    assert f"10.78.{dead}." not in message


# ---- ranks that are lost --------------------------------------------------------------------------------------------


def injure(net: Network, job: Launched, how: str, victim: int) -> float:
    """Does it to a process, and says when."""
    if how == "cut":
        net.cut(net.hosts[victim])
    else:
        send_signal(job.processes[victim].pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
    return time.monotonic()


def hangs(process: "subprocess.Popen[str]") -> bool:
    """True if a thread is in pause(), that is in the fault that never returns."""
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        with suppress(OSError):  # a thread may just have ended
            if "pause" in (task / "wchan").read_text() or (task / "syscall").read_text().startswith("34 "):
                return True
    return False


def wait_until_rank_1_hangs(jobs: Collection[Launched]) -> None:
    wait_until(lambda: all(hangs(job.processes[1]) for job in jobs), "the faults of all jobs", pause_s=0.05)
    time.sleep(1.5)  # what process 0 hears of the others' phases is half a second old


def expect_named(ended: ProcessResult, victim: int, host: str, phase: str | None) -> None:
    """Exit 4, one sentence, and in it the rank, its host and the phase."""
    assert ended.code == 4, ended.stderr
    (sentence,) = complaints(ended.stderr)
    assert f"rank {victim} " in sentence
    assert host in sentence
    phases = [phase] if phase else PHASES
    assert any(f"phase {one}" in sentence for one in phases), sentence


@contextmanager
def networks(ways: list[Way], hosts: int) -> Iterator[dict[Way, Network]]:
    with ExitStack() as stack:
        yield {way: stack.enter_context(network(hosts)) for way in ways}


HOWS = ["killed", "stopped", "cut"]


@pytest.fixture(scope="module")
def lost_in_every_phase(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[ProcessResult]]:
    """Rank 1 of three hangs in each phase, and while it does it is lost in each way; all at the same time."""
    ways = [(how, phase) for how in HOWS for phase in PHASES]
    jobs = {}
    with networks(ways, 3) as nets:
        for (how, phase), net in nets.items():
            folder = tmp_path_factory.mktemp(f"{how}-{phase}")
            words = ["-b", 64, "-e", 256, "-f", 2, "-n", 2, "-T", LIMIT_S, "--fault", f"hang:rank=1,phase={phase}"]
            jobs[how, phase] = Launched(net.hosts, folder, *words).start()
        wait_until_rank_1_hangs(jobs.values())
        since = {way: injure(nets[way], jobs[way], way[0], 1) for way in ways}
        times = end_times(jobs.values(), [jobs["stopped", phase].processes[1].pid for phase in PHASES])
        return {way: jobs[way].ended(times, since[way]) for way in ways}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("how", HOWS)
def test_all_other_ranks_name_a_lost_rank(
    lost_in_every_phase: dict[tuple[str, str], list[ProcessResult]], how: str, phase: str
) -> None:
    first, lost, last = lost_in_every_phase[how, phase]
    for survivor in (first, last):
        expect_named(survivor, 1, "host1", phase)
        assert survivor.after_s < SILENCE_S + GRACE_S
    # Of the last row something may still be on its way when a rank is lost behind it.
    kept = len(rows_by_pattern(first.table))
    assert kept in ({2, 3} if phase == "report" else {0})
    assert len(first.rows()) == 2 * kept
    if how == "cut":
        # It is well, but alone, and must not stay behind for ever.
        expect_named(lost, 0, "host0", None)
        assert lost.after_s < SILENCE_S + GRACE_S


@pytest.fixture(scope="module")
def lost_in_the_middle(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], list[ProcessResult]]:
    """A sweep without end, in which process 0 or 1 is lost after some rows."""
    ways = [(how, victim) for how in HOWS for victim in (0, 1)]
    jobs = {}
    with networks(ways, 3) as nets:
        for (how, victim), net in nets.items():
            folder = tmp_path_factory.mktemp(f"{how}-{victim}")
            words = ["-b", "1K", "-e", "1K", "-n", 2, "-N", 0, "-T", LIMIT_S]
            jobs[how, victim] = Launched(net.hosts, folder, *words).start()
        outputs = [job.output(0) for job in jobs.values()]
        wait_until(lambda: all('"kind":"row"' in output.read_text() for output in outputs), "a row of each job")
        since = {way: injure(nets[way], jobs[way], *way) for way in ways}
        times = end_times(jobs.values(), [jobs["stopped", victim].processes[victim].pid for victim in (0, 1)])
        return {way: jobs[way].ended(times, since[way]) for way in ways}


@pytest.mark.parametrize("how", HOWS)
def test_the_rows_so_far_are_kept(lost_in_the_middle: dict[tuple[str, int], list[ProcessResult]], how: str) -> None:
    ended = lost_in_the_middle[how, 1]
    first = ended[0]
    for survivor in (first, ended[2]):
        expect_named(survivor, 1, "host1", None)
        assert survivor.after_s < SILENCE_S + GRACE_S
    rows = rows_by_pattern(first.table)
    assert len(rows) >= 1
    assert (end := first.records[-1])["kind"] == "end"
    assert end["exit_code"] == 4
    assert f"# error: {end['message']}\n# Test failure: " in first.table


@pytest.mark.parametrize("how", HOWS)
def test_the_loss_of_process_0_ends_the_others(
    lost_in_the_middle: dict[tuple[str, int], list[ProcessResult]], how: str
) -> None:
    for survivor in lost_in_the_middle[how, 0][1:]:
        expect_named(survivor, 0, "host0", None)
        assert survivor.after_s < SILENCE_S + GRACE_S


def test_a_missing_process_is_named(tmp_path: Path) -> None:
    with network(3) as net:
        first, second = Launched(net.hosts, tmp_path, *SWEEP, "-T", 8).start(0, 1).finish()
    for ended in (first, second):
        assert ended.code == 4
        (sentence,) = [line for line in ended.stderr.splitlines() if "not joined" in line][-1:]
        assert "1 of 3 processes has not joined: 2" in sentence
    assert first.after_s < 8 + GRACE_S


# ---- rogue clients --------------------------------------------------------------------------------------------------

ROGUE_CLIENT = r'''
import hmac, random, socket, struct, sys, time
host, port = sys.argv[1], int(sys.argv[2])
dice = random.Random(int(sys.argv[3]))

HELLO, CHALLENGE, GREETING, REFUSED = 0, 1, 2, 4

def frame(kind, body):
    return struct.pack("<IB", len(body) + 1, kind) + body

def greeting(peer, token):
    """A greeting that process 0 would accept if it had this token."""
    mine = dice.randbytes(16)
    peer.sendall(frame(HELLO, struct.pack("<Q", 0x346C6F7262777362) + mine))
    challenge = peer.recv(21, socket.MSG_WAITALL)
    if challenge[:5] != struct.pack("<IB", 17, CHALLENGE):
        raise OSError("no challenge")
    who = bytes([1]) + struct.pack("<iiiq", 1, 2, 1, 4711) + struct.pack("<Q", 5) + b"host1"
    proof = hmac.digest(token, bytes([GREETING]) + mine + challenge[5:] + who, "sha256")
    return frame(GREETING, proof + who)

half_open, turned_away = [], 0
print("begun", flush=True)
while True:
    try:
        peer = socket.create_connection((host, port), 5)
    except OSError:
        break  # the job is over
    peer.settimeout(5)
    try:
        kind = dice.randrange(7)
        if kind == 0:
            pass  # a port scan
        elif kind == 1:
            peer.sendall(dice.randbytes(dice.randrange(1, 4096)))
        elif kind == 2:
            half_open.append(peer)
            continue
        elif kind == 3:
            peer.sendall(struct.pack("<I", 0xFFFFFFFF) + bytes(100))
        elif kind == 4:
            peer.sendall(greeting(peer, b"f" * 32))
            turned_away += peer.recv(4096) == frame(REFUSED, b"")
        elif kind == 5:
            whole = greeting(peer, b"f" * 32)
            for byte in whole[: dice.randrange(1, len(whole))]:
                peer.send(bytes([byte]))
                time.sleep(0.002)
        else:
            peer.sendall(b"GET / HTTP/1.0\r\n\r\n")
    except OSError:
        pass
    peer.close()
    if len(half_open) > 200:
        half_open.pop(0).close()
print(turned_away, flush=True)
'''


def test_rogue_clients_at_the_port_of_process_0_change_nothing(tmp_path: Path) -> None:
    """They come before the others do, and go on while the job runs."""
    with network(3) as net:
        *hosts, other = net.hosts
        job = Launched(hosts, tmp_path, "-b", 8, "-e", "64K", "-f", 2, "-n", 100, "-N", 20).start(0)
        wait_until_listening(hosts[0])
        words = [sys.executable, "-c", ROGUE_CLIENT, hosts[0].addresses[0], str(PORT)]
        rogues = [other.start([*words, str(seed)], folder=tmp_path, environment=dict(os.environ)) for seed in (1, 2)]
        for rogue in rogues:
            assert rogue.stdout is not None
            assert rogue.stdout.readline() == "begun\n"
        errors = job.processes[0].stderr
        assert errors is not None
        (message,) = complaints(next(line for line in errors if complaints(line)))
        assert "process 1 on host1 has another token" in message  # and nothing follows from it
        ended = job.start(1).finish()
        rejected = 0
        for rogue in rogues:
            counted, error = rogue.communicate(timeout=HANG_GUARD_S)
            assert (rogue.returncode, error) == (0, "")
            rejected += int(counted)
    assert rejected >= 1, "none came as far as being told that its token differs"
    assert [one.code for one in ended] == [0, 0]
    assert complaints(ended[1].stderr) == []


def wait_until_listening(host: Host) -> None:
    """Until somebody listens at the port, as the kernel of that host tells."""
    command = ["ip", "netns", "exec", host.namespace, "cat", "/proc/net/tcp"]

    def listens() -> bool:
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
        return any(line.split()[1].endswith(f":{PORT:04X}") and line.split()[3] == "0A" for line in lines)

    wait_until(listens, "process 0 listens", pause_s=0.05)
