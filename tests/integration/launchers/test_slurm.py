"""`busbw launch slurm`, and srun alone, with the real programs on a real Slurm of four virtual nodes."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from command_lines import command_lines
from polling import HANG_GUARD_S, send_signal, wait_until

from busbw.cli.main import main

from ..programs import Finished, Programs
from .launching import BUSBW, Launched, Launching
from .slurm import CPUS, Slurm
from .test_launched import phases_seen

SWEEP = ["-b", "8", "-e", "4K", "-f", "8", "-n", "2"]
ROWS = 4
LONG = ["-b", "8", "-e", "8", "-n", "20", "-N", "0"]
"""A measurement without end."""
SLOW = ["-b", "8", "-e", "8", "-n", "5000", "-N", "0"]
"""The same with so few rows that a pipe takes all that come while nobody reads it."""
ALL_REDUCE = ["--", "all_reduce", *SWEEP]


class Cluster:
    """Runs things on the cluster as a user who sits in an empty folder."""

    def __init__(self, slurm: Slurm, programs: Programs) -> None:
        self.slurm = slurm
        self.programs = programs
        self.here = programs.folder
        self._opened = ExitStack()

    def environment(self, more: dict[str, str] | None = None) -> dict[str, str]:
        kept = {name: value for name, value in self.slurm.with_slurm().items() if not name.startswith("BUSBW_")}
        return {**kept, "BUSBW_PROGRAMS": str(self.programs.installed_in), **(more or {})}

    def launching(
        self, *words: str, folder: Path | None = None, environment: dict[str, str] | None = None
    ) -> Launching:
        launching = Launching(list(words), folder or self.here, self.environment(environment))
        return self._opened.enter_context(launching)

    def launch(self, *words: str, environment: dict[str, str] | None = None) -> Launched:
        launched = self.launching("slurm", *words, environment=environment).finish()
        assert self.slurm.jobs() == []
        return launched

    def run(self, *words: str, environment: dict[str, str] | None = None) -> Finished:
        done = subprocess.run(
            words,
            cwd=self.here,
            env=self.environment(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANG_GUARD_S,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def program(self, name: str = "all_reduce") -> str:
        return str(self.programs.path(f"{name}_perf"))

    def wait_for_state(self, state: str) -> str:
        """Until the one job is in that state; its id."""
        wait_until(lambda: self.slurm.run("squeue", "--noheader", "--format=%T").stdout.split() == [state], state, 0.05)
        return self.slurm.jobs()[0]

    def busbw_in(self, *words: str) -> list[str]:
        """A command line that runs `busbw launch` somewhere else."""
        return [*BUSBW, "launch", *words]

    def close(self) -> None:
        self._opened.close()


@pytest.fixture
def cluster(slurm: Slurm, programs: Programs) -> Iterator[Cluster]:
    cluster = Cluster(slurm, programs)
    yield cluster
    cluster.close()


def hosts_of(launched: Launched) -> list[str]:
    (header,) = [line for line in launched.records if line["kind"] == "run"]
    return [rank["host"] for rank in header["ranks"]]


def expect_table(launched: Launched, ranks: int) -> None:
    assert launched.code == 0, launched.stderr
    assert len(launched.rows) == ROWS
    assert "# Out of bounds values : 0 OK" in launched.stdout
    assert len(hosts_of(launched)) == ranks


def expect_nothing_left(cluster: Cluster) -> None:
    assert cluster.slurm.jobs() == []
    assert not (cluster.here / "busbw-slurm").exists()


# ---- it goes well ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "each"), [(2, 2), (4, 1)])
def test_a_batch_job(cluster: Cluster, nodes: int, each: int) -> None:
    done = cluster.launch("--nodes", str(nodes), "--processes-per-node", str(each), *ALL_REDUCE)
    expect_table(done, nodes * each)
    assert len(set(hosts_of(done))) == nodes
    assert f"Launched by slurm: {nodes * each} processes on {nodes} hosts" in done.stdout
    assert done.records[-1]["kind"] == "end"
    expect_nothing_left(cluster)


def test_srun_from_here_needs_no_shared_folder(cluster: Cluster) -> None:
    done = cluster.launch("--submit-with", "srun", "--nodes", "2", *ALL_REDUCE)
    expect_table(done, 2)
    assert [path.name for path in cluster.here.iterdir()] == ["busbw-records"]


BY_DEFAULT = {
    "SBATCH_PARTITION": "closed",
    "SBATCH_REQUEUE": "1",
    "SBATCH_ARRAY_INX": "1-2",
    "SBATCH_OUTPUT": "elsewhere",
    "SBATCH_WAIT": "1",
    "SLURM_PARTITION": "closed",
    "SLURM_LABELIO": "1",
    "SLURM_STDOUTMODE": "none",
}
"""Defaults that a site or a shell may set for Slurm."""


@pytest.mark.parametrize("by", ["sbatch", "srun"])
def test_our_options_override_variables(cluster: Cluster, by: str) -> None:
    more = {"SLURM_MEM_PER_CPU": "999999"} if by == "sbatch" else {}  # as an allocation around may leave it
    where = ["--submit-with", by, "--partition", "main", "--nodes", "2"]
    expect_table(cluster.launch(*where, *ALL_REDUCE, environment={**BY_DEFAULT, **more}), 2)
    expect_nothing_left(cluster)


def test_a_job_of_srun_has_all_processors_of_its_nodes(cluster: Cluster) -> None:
    """By default the step of a job of its own is confined to one processor for each of its tasks."""
    with cluster.launching("slurm", "--submit-with", "srun", "--nodes", "2", "--", "all_reduce", *LONG) as launching:
        launching.wait_for_rows()
        (step,) = cluster.slurm.run("squeue", "--noheader", "--steps", "--format=%i").stdout.split()
        assert f" CPUs={2 * CPUS} " in cluster.slurm.run("scontrol", "--oneliner", "show", "step", step).stdout
        launching.interrupt()
        assert launching.finish().code == 130


def test_several_steps_in_one_job_are_runs_of_their_own(cluster: Cluster) -> None:
    done = cluster.launching("slurm", "--nodes", "2", "--repeat", "2", *ALL_REDUCE).finish()
    assert done.code == 0, done.stderr
    assert len(done.rows) == 2 * ROWS
    assert len(list(cluster.here.glob("busbw-records/*/records.jsonl"))) == 2
    assert "step 2 of 2" in done.stderr
    expect_nothing_left(cluster)


def test_steps_in_an_allocation(cluster: Cluster) -> None:
    words = cluster.busbw_in("slurm", "--repeat", "2", "--processes-per-node", "2", *ALL_REDUCE)
    done = cluster.run("salloc", "--nodes=2", "--exclusive", *words)
    assert done.code == 0, done.stderr
    assert done.stdout.count("Launched by slurm: 4 processes on 2 hosts") == 2
    assert len(list(cluster.here.glob("busbw-records/*/records.jsonl"))) == 2


def test_groups_of_one_node_name_the_slow_node(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """As docs/guides/slow-node.md describes. Rank 5 is on the third node."""
    slow = ["--sizes", "64,1K", "-n", "6", "-c", "0", "--fault", "delay:rank=5,us=20000"]
    split = ["--env", "NCCL_TESTS_SPLIT=DIV 2"]
    done = cluster.launch("--nodes", "4", "--processes-per-node", "2", *split, "--", "all_reduce", *slow)
    assert done.code == 0, done.stderr
    (record,) = (cluster.here / "busbw-records").glob("*/records.jsonl")
    assert main(["check", "--json", str(record)]) == 5
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    assert [verdict["hosts"] for verdict in verdicts] == [["n1"], ["n2"], ["n3"], ["n4"]]
    assert [verdict["grade"] == "SLOW" for verdict in verdicts] == [False, False, True, False]
    assert "group 2 on n3 is slower" in verdicts[2]["reasons"][0]
    assert [late["rank"] for late in verdicts[2]["late_ranks"]] == [5]


def test_the_nodes_of_a_host_file_are_filled_in_its_order(cluster: Cluster) -> None:
    (cluster.here / "hosts").write_text("n3 slots=1\nn2:2\n")
    done = cluster.launch("--hostfile", "hosts", *ALL_REDUCE)
    expect_table(done, 3)
    assert hosts_of(done) == ["n3", "n2", "n2"]


def test_a_host_file_with_srun_from_here(cluster: Cluster) -> None:
    (cluster.here / "hosts").write_text("n4\nn1\n")
    done = cluster.launch("--submit-with", "srun", "--hostfile", "hosts", *ALL_REDUCE)
    expect_table(done, 2)
    assert hosts_of(done) == ["n4", "n1"]


def test_ranks_go_switch_by_switch(cluster: Cluster) -> None:
    done = cluster.launch("--nodes", "4", "--topology-order", *ALL_REDUCE)
    expect_table(done, 4)
    assert hosts_of(done) == ["n1", "n3", "n2", "n4"]


def test_ranks_go_switch_by_switch_in_an_allocation(cluster: Cluster) -> None:
    words = cluster.busbw_in("slurm", "--topology-order", "--records", "out.jsonl", *ALL_REDUCE)
    done = cluster.run("salloc", "--nodes=4", "--exclusive", *words)
    assert done.code == 0, done.stderr
    devices = [line for line in done.stdout.splitlines() if line.startswith("#  Rank")]
    assert [line.split(" on ")[1].split()[0] for line in devices] == ["n1", "n3", "n2", "n4"]


def test_gpus_are_asked_of_slurm(cluster: Cluster) -> None:
    # Slurm counts two GPUs per node although the machine has no GPU: one host process for each.
    done = cluster.launch("--nodes", "2", "--gpus-per-node", "2", *ALL_REDUCE, "--backend", "host")
    expect_table(done, 4)


def test_requested_gpus_that_the_engine_cannot_use_are_an_error(cluster: Cluster) -> None:
    # --program-path names a build that only the nodes can examine.
    folder = str(cluster.programs.installed_in)
    done = cluster.launch("--program-path", folder, "--gpus-per-node", "2", "--nodes", "2", *ALL_REDUCE)
    assert (done.code, done.stdout) == (3, "")
    assert "all_reduce_perf: GPUs are requested (BUSBW_REQUESTED_GPUS=2), but " in done.stderr
    assert "or use --backend host" in done.stderr


@pytest.mark.parametrize(("flags", "code"), [([], 3), (["--backend", "host"], 0)])
def test_a_step_with_gpus_measures_the_host_only_by_request(cluster: Cluster, flags: list[str], code: int) -> None:
    done = cluster.run("srun", "--nodes=1", "--gpus-per-node=1", cluster.program(), *SWEEP, *flags)
    assert done.code == code, done.stderr
    assert ("GPUs are requested (SLURM_GPUS_ON_NODE=1), but " in done.stderr) == (code == 3)


# A site-wide default that starts jobs with an empty environment.
NOTHING_HANDED_ON = {"SBATCH_EXPORT": "NONE", "SLURM_EXPORT_ENV": "NONE"}


@pytest.mark.parametrize("by", ["sbatch", "srun"])
def test_a_site_that_exports_no_environment(cluster: Cluster, by: str) -> None:
    # The variable reaches the program: more than that is demanded of it.
    variables = {**NOTHING_HANDED_ON, "NCCL_TESTS_MIN_BW": "1e6"}
    done = cluster.launch("--submit-with", by, "--nodes", "2", *ALL_REDUCE, environment=variables)
    assert done.code == 5, done.stderr
    assert len(done.rows) == ROWS


def test_a_manual_script_at_a_site_that_exports_no_environment(cluster: Cluster) -> None:
    printed = cluster.launching("slurm", "--nodes", "2", "--print-script", *ALL_REDUCE).finish()
    (cluster.here / "job.sbatch").write_text(printed.stdout)
    job = cluster.run("sbatch", "--parsable", "--wait", "job.sbatch", environment=NOTHING_HANDED_ON)
    assert job.code == 0, job.stderr
    assert "# Out of bounds values : 0 OK" in (cluster.here / f"busbw-{job.stdout.strip()}.log").read_text()


# ---- srun and sbatch by hand -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mpi", ["none", "pmi2", "pmix"])
def test_srun_alone_makes_one_job_of_its_tasks(cluster: Cluster, mpi: str) -> None:
    if mpi == "pmix" and cluster.run("srun", "--mpi=pmix", "true").code != 0:
        pytest.skip("this Slurm finds no PMIx (Debian: libpmix-dev)")
    done = cluster.run("srun", f"--mpi={mpi}", "--nodes=2", "--ntasks=4", cluster.program(), *SWEEP)
    assert done.code == 0, done.stderr
    assert "Launched by slurm: 4 processes on 2 hosts" in done.stdout
    assert "# Out of bounds values : 0 OK" in done.stdout


def test_srun_of_busbw_run_points_to_launch(cluster: Cluster) -> None:
    done = cluster.run("srun", "--nodes=2", "--ntasks=2", *BUSBW, "run", "all_reduce", "-e", "64")
    assert done.code == 2
    assert "slurm started it as process 1 of 2; use busbw launch, or start all_reduce_perf instead" in done.stderr
    assert list(cluster.here.iterdir()) == []


def test_two_parallel_steps_do_not_connect(cluster: Cluster) -> None:
    step = f"srun --exact --nodes=1 --ntasks=2 {cluster.program()} {' '.join(SWEEP)}"
    done = cluster.run("salloc", "--nodes=2", "--ntasks-per-node=2", "sh", "-c", f"{step} & {step}; wait")
    assert done.code == 0, done.stderr
    assert done.stdout.count("Launched by slurm: 2 processes on 1 host") == 2
    assert done.stdout.count("# Out of bounds values : 0 OK") == 2


def test_a_program_that_srun_did_not_start_does_not_measure_alone(cluster: Cluster) -> None:
    (cluster.here / "job.sh").write_text(f"#!/bin/sh\n{cluster.program()} -b 8 -e 8\n")
    done = cluster.run("sbatch", "--wait", "--nodes=2", "--ntasks=2", "--output=log", "job.sh")
    assert done.code == 2
    (sentence,) = (cluster.here / "log").read_text().splitlines()
    assert "so it would run alone; type srun before the program" in sentence


def test_a_script_that_is_submitted_by_hand(cluster: Cluster) -> None:
    printed = cluster.launching("slurm", "--nodes", "2", "--print-script", *ALL_REDUCE).finish()
    assert printed.code == 0, printed.stderr
    assert list(cluster.here.iterdir()) == []
    (cluster.here / "job.sbatch").write_text(printed.stdout)
    job = cluster.run("sbatch", "--parsable", "--wait", "job.sbatch")
    assert job.code == 0, job.stderr
    number = job.stdout.strip()
    assert "# Out of bounds values : 0 OK" in (cluster.here / f"busbw-{number}.log").read_text()
    done = cluster.launching("attach", f"busbw-{number}").finish()
    expect_table(done, 2)
    assert not (cluster.here / f"busbw-{number}").exists()


# ---- it is left, and come back to ------------------------------------------------------------------------------------


def test_detach_and_attach(cluster: Cluster) -> None:
    left = cluster.launching("slurm", "--nodes", "2", "--output-folder", "kept", "--detach", *ALL_REDUCE).finish()
    assert left.code == 0, left.stderr
    assert f"busbw launch attach {cluster.here / 'kept'}" in left.stdout
    assert not (cluster.here / "busbw-records").exists()
    done = cluster.launching("attach", "kept").finish()
    expect_table(done, 2)
    assert not (cluster.here / "kept").exists()


def test_a_job_outlives_the_terminal(cluster: Cluster) -> None:
    launching = cluster.launching("slurm", "--nodes", "2", "--output-folder", "kept", "--", "all_reduce", *LONG)
    launching.wait_for_rows()
    launching.process.send_signal(signal.SIGHUP)
    assert launching.finish().code == 128 + signal.SIGHUP
    assert len(cluster.slurm.jobs()) == 1
    again = cluster.launching("attach", "kept", "--records", "again.jsonl")
    record = cluster.here / "again.jsonl"
    wait_until(lambda: record.exists() and '"row"' in record.read_text(), "rows", 0.05)
    again.interrupt()
    assert again.finish().code == 130
    assert cluster.slurm.jobs() == []


def test_a_folder_that_holds_no_job(cluster: Cluster) -> None:
    done = cluster.launching("attach", ".").finish()
    assert (done.code, done.stderr.count("\n")) == (2, 1)
    assert "is not the folder of a Slurm job" in done.stderr


# ---- the end of the program ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["sbatch", "srun"])
@pytest.mark.parametrize(
    ("flags", "variables", "code"),
    [
        (["--fault", "flip:rank=1,index=0,bit=3"], {}, 1),
        (["-n", "0"], {}, 2),
        ([], {"NCCL_TESTS_MIN_BW": "1e6"}, 5),
    ],
)
def test_the_exit_code_is_the_programs(
    cluster: Cluster, by: str, flags: list[str], variables: dict[str, str], code: int
) -> None:
    done = cluster.launch("--submit-with", by, "--nodes", "2", *ALL_REDUCE, *flags, environment=variables)
    assert done.code == code, done.stderr
    expect_nothing_left(cluster)


PHASES = ["rendezvous", "initialisation", "warmup", "timing", "check", "report"]
DEATHS = [("sbatch", 1, phase) for phase in PHASES] + [("sbatch", 0, "timing"), ("srun", 1, "timing")]


def test_a_lost_rank_is_named_whatever_slurm_does(cluster: Cluster) -> None:
    # Side by side: two tasks each fill the cluster.
    launched = []
    for index, (by, rank, phase) in enumerate(DEATHS):
        folder = cluster.here / str(index)
        folder.mkdir()
        words = [
            "--submit-with",
            by,
            "--nodes",
            "2",
            "--shared",
            *ALL_REDUCE,
            "--fault",
            f"die:rank={rank},phase={phase}",
        ]
        launched.append(cluster.launching("slurm", *words, folder=folder))
    for launching, (by, rank, phase) in zip(launched, DEATHS, strict=True):
        done = launching.finish()
        assert done.code == 4, (by, rank, phase, done.stderr)
        assert f"rank {rank} (process {rank}" in done.stderr, (by, phase)
        assert any(f"was lost in phase {seen}" in done.stderr for seen in phases_seen(rank, phase)), (by, rank)
    (kept,) = (cluster.here / "5").rglob("records.jsonl")
    assert '"row"' in kept.read_text()  # it died in the report, when all had been measured
    assert cluster.slurm.jobs() == []


def test_a_rank_that_hangs_does_not_hold_the_others(cluster: Cluster) -> None:
    where = ["--nodes", "2", "--srun-arg=--wait=2"]
    # Tasks of two nodes may start seconds apart on a busy machine, and have to meet within that limit.
    done = cluster.launch(*where, *ALL_REDUCE, "-T", "10", "--fault", "hang:rank=1,phase=timing")
    assert done.code == 4, done.stderr
    assert "rank 1" in done.stderr


@pytest.mark.parametrize("node", ["n2", "n4"])
def test_a_node_that_dies(cluster: Cluster, node: str) -> None:
    where = ["--nodelist", "n2,n4", "--nodes", "2", "--srun-arg=--wait=2"]
    launching = cluster.launching("slurm", *where, "--", "all_reduce", *LONG)
    launching.wait_for_rows()
    cluster.slurm.crash_node(node)
    try:
        if node == "n2":  # the batch script's: Slurm finds out in its own time, or is told
            cluster.slurm.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=died")
        done = launching.finish()
    finally:
        cluster.slurm.recover(node)
    assert done.code == 4, done.stderr
    assert node in done.stderr
    assert len(done.rows) >= 1


@pytest.mark.parametrize("by", ["sbatch", "srun"])
def test_another_user_cancels_the_job(cluster: Cluster, by: str) -> None:
    launching = cluster.launching("slurm", "--submit-with", by, "--nodes", "2", "--", "all_reduce", *LONG)
    launching.wait_for_rows()
    cluster.run("scancel", *cluster.slurm.jobs())
    done = launching.finish()
    assert done.code in {4, 143}, done.stderr
    assert "CANCELLED" in done.stderr
    assert done.rows


@pytest.mark.parametrize("by", ["sbatch", "srun"])
def test_a_closed_reader_ends_the_job(cluster: Cluster, by: str) -> None:
    launching = cluster.launching("slurm", "--submit-with", by, "--nodes", "2", "--", "all_reduce", *LONG)
    assert launching.process.stdout is not None
    launching.process.stdout.readline()
    launching.process.stdout.close()
    launching.process.stdout = None
    assert launching.finish().code == 141
    wait_until(lambda: cluster.slurm.jobs() == [], "the end of the job", 0.05)


# ---- interrupts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["sbatch", "srun"])
def test_an_interrupt_cancels_the_job_and_keeps_the_rows(cluster: Cluster, by: str) -> None:
    launching = cluster.launching("slurm", "--submit-with", by, "--nodes", "2", "--", "all_reduce", *LONG)
    launching.wait_for_rows()
    launching.interrupt()
    done = launching.finish()
    assert done.code == 130, done.stderr
    assert done.rows
    assert done.records[-1]["exit_code"] == 130
    wait_until(lambda: cluster.slurm.jobs() == [], "the end of the job", 0.05)
    expect_nothing_left(cluster)


def test_an_interrupt_reaches_a_batch_job_after_slurm_returns(cluster: Cluster) -> None:
    launching = cluster.launching("slurm", "--nodes", "2", "--", "all_reduce", *SLOW)
    launching.wait_for_rows()
    with cluster.slurm.without_controller():
        launching.interrupt()
        said_by(launching, "; retrying")
        assert launching.process.poll() is None
    done = launching.finish()
    assert done.code == 130, done.stderr
    assert done.records[-1]["exit_code"] == 130  # in good order
    wait_until(lambda: cluster.slurm.jobs() == [], "the end of the job", 0.05)
    expect_nothing_left(cluster)


def test_a_closed_reader_ends_the_ranks_of_srun_without_slurm(cluster: Cluster) -> None:
    launching = cluster.launching("slurm", "--submit-with", "srun", "--nodes", "2", "--", "all_reduce", *SLOW)
    launching.wait_for_rows()
    assert len(cluster.slurm.ranks()) == 2
    with cluster.slurm.without_controller():
        assert launching.process.stdout is not None
        launching.process.stdout.close()
        launching.process.stdout = None
        done = launching.finish()
        assert cluster.slurm.ranks() == []
    assert done.code == 141, done.stderr
    assert "all processes have ended, but Slurm did not answer" in done.stderr  # and not killed
    cluster.slurm.restart_nodes()
    expect_nothing_left(cluster)


def test_an_interrupt_ends_the_ranks_of_srun_without_slurm(cluster: Cluster) -> None:
    launching = cluster.launching("slurm", "--submit-with", "srun", "--nodes", "2", "--", "all_reduce", *SLOW)
    launching.wait_for_rows()
    assert len(cluster.slurm.ranks()) == 2
    with cluster.slurm.without_controller():
        launching.interrupt()
        done = launching.finish()
        assert cluster.slurm.ranks() == []
    assert done.code == 130, done.stderr
    assert done.records[-1]["exit_code"] == 130  # in good order
    assert "all processes have ended, but Slurm did not answer" in done.stderr
    cluster.slurm.restart_nodes()
    expect_nothing_left(cluster)


def test_ranks_that_ignore_an_interrupt_are_killed_without_slurm(cluster: Cluster) -> None:
    launching = cluster.launching("slurm", "--submit-with", "srun", "--nodes", "2", "--", "all_reduce", *SLOW)
    launching.wait_for_rows()
    ranks = cluster.slurm.ranks()
    assert len(ranks) == 2
    for pid in ranks:
        send_signal(pid, signal.SIGSTOP)
    with cluster.slurm.without_controller():
        launching.interrupt()
        done = launching.finish()
        assert cluster.slurm.ranks() == []
    assert done.code == 130, done.stderr
    assert "check `squeue --steps` for running steps" in done.stderr
    cluster.slurm.restart_nodes()
    expect_nothing_left(cluster)


@pytest.mark.parametrize("by", ["sbatch", "srun"])
def test_an_interrupt_cancels_a_job_that_waits(cluster: Cluster, by: str) -> None:
    cluster.run("sbatch", "--exclusive", "--nodes=4", "--output=/dev/null", "--wrap", "sleep 1000")
    cluster.wait_for_state("RUNNING")
    launching = cluster.launching("slurm", "--submit-with", by, "--nodes", "2", *ALL_REDUCE)
    wait_until(lambda: len(cluster.slurm.jobs()) == 2, "a second job", 0.05)
    launching.interrupt()
    done = launching.finish()
    assert done.code == 130, done.stderr
    assert len(cluster.slurm.jobs()) == 1
    assert not (cluster.here / "busbw-slurm").exists()


def test_a_launcher_that_is_killed_leaves_no_step(cluster: Cluster) -> None:
    launching = cluster.launching("slurm", "--submit-with", "srun", "--nodes", "2", "--", "all_reduce", *LONG)
    launching.wait_for_rows()
    launching.process.kill()
    wait_until(lambda: cluster.slurm.jobs() == [], "the end of the job", 0.05)


# ---- waiting ---------------------------------------------------------------------------------------------------------


def said_by(launching: Launching, text: str) -> None:
    """Reads stderr up to a line with the text."""
    assert launching.process.stderr is not None
    for line in launching.process.stderr:
        if text in line:
            return
    pytest.fail(f"it never said {text}")


def test_a_held_job_reports_it_and_runs_after_its_release(cluster: Cluster) -> None:
    launching = cluster.launching("slurm", "--nodes", "2", "--slurm-arg=--hold", *ALL_REDUCE)
    said_by(launching, "waits for 2 nodes: JobHeldUser; release it: `scontrol release")
    cluster.run("scontrol", "release", cluster.slurm.jobs()[0])
    expect_table(launching.finish(), 2)


@pytest.mark.parametrize("by", ["sbatch", "srun"])
def test_a_job_that_waits_for_nodes_reports_it(cluster: Cluster, by: str) -> None:
    cluster.run("sbatch", "--exclusive", "--nodes=4", "--output=/dev/null", "--wrap", "sleep 1000")
    other = cluster.wait_for_state("RUNNING")
    launching = cluster.launching("slurm", "--submit-with", by, "--nodes", "2", *ALL_REDUCE)
    said_by(launching, "waits for 2 nodes: Resources (its nodes are in use)")
    cluster.run("scancel", other)
    expect_table(launching.finish(), 2)


def test_more_nodes_than_there_are(cluster: Cluster) -> None:
    launching = cluster.launching("slurm", "--nodes", "9", *ALL_REDUCE)
    said_by(launching, "waits for 9 nodes: PartitionNodeLimit (more nodes than the partition allows or has)")
    launching.interrupt()
    assert launching.finish().code == 130


@pytest.mark.parametrize("by", ["sbatch", "srun"])
def test_a_job_that_its_partition_does_not_allow_ends_after_the_limit(cluster: Cluster, by: str) -> None:
    done = cluster.launch("--submit-with", by, "--pending-timeout", "1", "--nodes", "9", *ALL_REDUCE)
    assert done.code == 3
    reason = "PartitionNodeLimit" if by == "sbatch" else "PartitionConfig"  # Slurm's word for the same
    assert f"could not start for 1 s and was canceled: {reason} (" in done.stderr.splitlines()[-1]
    expect_nothing_left(cluster)


# ---- refusals --------------------------------------------------------------------------------------------------------

REFUSED = {
    "--partition=nope": ("Invalid partition name specified", "sinfo -s"),
    "--reservation=nope": ("Requested reservation is invalid", "scontrol show reservation"),
    "--constraint=nope": ("Invalid feature specification", "set --constraint to a feature"),
    "--nodelist=n9": ("Invalid node name specified", "sinfo -N"),
    "--gpus-per-node=8": ("Requested node configuration is not available", "--gpus-per-node"),
    "--container-image=busbw.sqsh": ("unrecognized option", "Pyxis"),
    "--slurm-arg=--nonsense": ("unrecognized option", "--slurm-arg"),
    "--mpi=nonsense": ("Invalid MPI type 'nonsense'", "srun --mpi=list"),
    "--program-path=/nowhere/all_reduce_perf": ("program not found on the nodes", "--program-path"),
}


BY_SRUN = ["--partition=nope", "--container-image=busbw.sqsh", "--mpi=nonsense", next(reversed(REFUSED))]


@pytest.mark.parametrize(
    ("by", "option"), [*(("sbatch", option) for option in REFUSED), *(("srun", option) for option in BY_SRUN)]
)
def test_rejections_quote_slurm(cluster: Cluster, option: str, by: str) -> None:
    words, remedy = REFUSED[option]
    done = cluster.launch("--submit-with", by, option, *ALL_REDUCE, "--backend", "host")
    assert done.code == 3, done.stderr
    sentence = done.stderr.splitlines()[-1]
    assert words in sentence, done.stderr
    assert remedy in sentence
    expect_nothing_left(cluster)


def test_a_folder_that_the_nodes_do_not_share(cluster: Cluster) -> None:
    folder = cluster.slurm.private / "job"
    done = cluster.launch("--nodes", "2", "--output-folder", str(folder), *ALL_REDUCE)
    assert done.code == 3
    assert "set --output-folder to one shared with the nodes, or use --submit-with srun" in done.stderr
    assert f"waiting up to 75 s for {folder} to show step-1.code" in done.stderr
    assert (folder / "job.json").exists()  # what was not seen is not removed


def test_options_of_the_job_are_refused_in_an_allocation(cluster: Cluster) -> None:
    words = cluster.busbw_in("slurm", "--partition", "main", *ALL_REDUCE)
    done = cluster.run("salloc", "--nodes=1", *words)
    assert done.code == 2
    assert "--partition=main conflicts with the allocation" in done.stderr


# ---- the token -------------------------------------------------------------------------------------------------------


def tokens_of(pids: list[int]) -> set[str]:
    """The tokens in the environments of these processes. A process that ended since has none."""
    found = set()
    for pid in pids:
        with suppress(OSError):
            entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            found |= {entry.decode()[len("BUSBW_TOKEN=") :] for entry in entries if entry.startswith(b"BUSBW_TOKEN=")}
    return found


@pytest.mark.parametrize("by", ["sbatch", "srun"])
def test_the_token_is_not_readable(cluster: Cluster, by: str) -> None:
    launching = cluster.launching("slurm", "--submit-with", by, "--nodes", "2", "--", "all_reduce", *LONG)
    launching.wait_for_rows()
    (token,) = tokens_of(cluster.slurm.ranks())
    assert len(token) == 64
    (job,) = cluster.slurm.jobs()
    assert not any(token.encode() in line for line in command_lines())
    assert token not in cluster.run("scontrol", "show", "--details", "job", job).stdout
    assert token not in cluster.run("scontrol", "write", "batch_script", job, "-").stdout
    state = [path.read_bytes() for path in (cluster.slurm.folder / "state").rglob("*") if path.is_file()]
    assert state
    assert not any(token.encode() in content for content in state)
    launching.interrupt()
    done = launching.finish()
    kept = [path.read_text() for path in cluster.here.rglob("*") if path.is_file()]
    assert not any(token in text for text in [*kept, done.stdout, done.stderr])
