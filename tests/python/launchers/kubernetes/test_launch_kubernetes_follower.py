"""A job in the cluster from its creation to its end, against a kubectl that plays what a real one answered."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import BUSBW, GOLDEN_RECORD
from polling import HANG_GUARD_S, wait_until

from busbw.launchers.kubernetes.pods import INSTANCE_LABEL
from busbw.launchers.kubernetes.status import INDEX_ANNOTATION

ANSWERS = Path(__file__).resolve().parents[3] / "golden" / "launch" / "kubernetes" / "answers"

# Answers `get` with the next file of that kind, the last one again and again; whatever has an .err file fails with it.
KUBECTL = f"""#!{sys.executable}
import json, os, subprocess, sys, time
from pathlib import Path
folder = Path(os.environ["FAKE_CLUSTER"])
words = [word for word in sys.argv[1:] if not word.startswith("--request-timeout")]
while words[0] in ("--context", "--namespace"):
    words = words[2:]
given = sys.stdin.read() if "-f" in words and words[0] == "create" else ""
with (folder / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps([words, given]) + "\\n")
what = f"{{words[0]}}-{{words[1]}}" if words[0] == "get" else words[0]
for suffix in ("", f".{{sum(1 for _ in (folder / 'calls.jsonl').open())}}"):
    if (folder / f"{{what}}{{suffix}}.err").exists():
        sys.stderr.write((folder / f"{{what}}{{suffix}}.err").read_text())
        sys.exit(1)
if (folder / f"{{what}}.hang").exists():
    # A plugin that logs in and never comes back; it has kubectl's pipes.
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep({2 * HANG_GUARD_S})"])
    (folder / f"{{what}}.hanging").touch()
    time.sleep({2 * HANG_GUARD_S})
if what == "create":
    for document in given.splitlines():
        made = json.loads(document)
        made["metadata"]["uid"] = "0a1b"
        if (folder / "old").exists():
            made.get("spec", {{}}).pop("backoffLimitPerIndex", None)
        print(json.dumps(made))
elif words[0] == "get":
    files = sorted(folder.glob(f"{{what}}.*.json"))
    if not files:
        print('{{"items": []}}')
    else:
        print(files[0].read_text())
        if len(files) > 1:
            files[0].unlink()
elif what == "logs":
    log = folder / "log"
    sys.stdout.buffer.write(log.read_bytes() if log.exists() else b"")
    sys.stdout.flush()
    while "-f" in words and (folder / "open").exists():
        time.sleep(0.05)
elif what == "delete":
    (folder / "open").unlink(missing_ok=True)
"""

RECORD = GOLDEN_RECORD.read_bytes()
LOG = (
    b"2026-11-21T10:00:00.1Z # a table\n"
    + b"".join(b"2026-11-21T10:00:00.2Z " + line for line in RECORD.splitlines(keepends=True))
    + b"2026-11-21T10:00:00.3Z all_reduce_perf: a sentence\n2026-11-21T10:00:00.4Z    8  1.00\n"
)


def pod(index: int, state: dict[str, Any], phase: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"job-{index}-x",
            "annotations": {INDEX_ANNOTATION: str(index)},
            "labels": {INSTANCE_LABEL: "job"},
        },
        "spec": {"nodeName": "n"},
        "status": {"phase": phase, "containerStatuses": [{"name": "busbw", "state": state}]},
    }


def ended(index: int, code: int) -> dict[str, Any]:
    reason = "Error" if code else "Completed"
    terminated = {"exitCode": code, "reason": reason}
    return pod(index, {"terminated": terminated}, "Failed" if code else "Succeeded")


def running(index: int) -> dict[str, Any]:
    return pod(index, {"running": {}}, "Running")


@dataclass
class FakeCluster:
    """Prepared answers of the cluster, and the calls that it received."""

    folder: Path

    def says(self, what: str, *answers: Any) -> None:
        for number, items in enumerate(answers):
            # In one piece: a kubectl may be reading what it said before.
            draft = self.folder / "draft"
            draft.write_text(json.dumps({"items": items}))
            draft.rename(self.folder / f"get-{what}.{number}.json")

    def fails(self, verb: str, words: str) -> None:
        (self.folder / f"{verb}.err").write_text(words)

    def start(self, *options: str, search: bool = False) -> "subprocess.Popen[str]":
        here = self.folder / "here"
        here.mkdir()
        command, collective = ["launch", "kubernetes"], ["--", "all_reduce"]
        if search:
            command, collective = ["find", "kubernetes"], []
        return subprocess.Popen(
            [*BUSBW, *command, "--image", "busbw:1", *options, *collective],
            cwd=here,
            env=os.environ | {"PATH": str(self.folder / "bin"), "FAKE_CLUSTER": str(self.folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *options: str, search: bool = False) -> tuple[int, str, str]:
        process = self.start(*options, search=search)
        out, err = process.communicate(timeout=HANG_GUARD_S)
        return process.returncode, out, err

    def calls(self) -> list[tuple[list[str], str]]:
        path = self.folder / "calls.jsonl"
        return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []

    def verbs(self) -> list[str]:
        return [words[0] for words, _ in self.calls()]

    def record(self) -> bytes:
        (path,) = self.folder.glob("here/busbw-records/*/records.jsonl")
        return path.read_bytes()


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    (tmp_path / "log").write_bytes(LOG)
    return FakeCluster(tmp_path)


def test_a_search_has_its_answer_on_stdout_and_its_messages_on_stderr(cluster: FakeCluster) -> None:
    lines = [
        "busbw-engine flows: 1 of 2 processes has not joined",
        "busbw: measuring: round 3 of 9",
        "SLOW: NIC",
        "    x",
    ]
    (cluster.folder / "log").write_text("".join(f"2026-11-21T10:00:00.1Z {line}\n" for line in lines))
    cluster.says("pods", [], [running(0), running(1)], [ended(0, 5), ended(1, 0)])
    code, out, err = cluster.run(search=True)
    assert (code, out) == (5, "SLOW: NIC\n    x\n")
    assert all(f"[0] {line}" in err for line in lines[:2])
    (job,) = [json.loads(line) for line in cluster.calls()[0][1].splitlines()]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["busbw-engine"]
    assert container["args"][:3] == ["flows", "--search", "busbw find --seed 0"]


def test_a_run_from_its_creation_to_its_end(cluster: FakeCluster) -> None:
    cluster.says("pods", [], [running(0), running(1)], [ended(0, 0), ended(1, 0)])
    code, out, err = cluster.run()
    assert (code, out) == (0, "# a table\n   8  1.00\n")
    assert "[0] all_reduce_perf: a sentence" in err
    assert cluster.record() == RECORD

    calls = cluster.calls()
    (job,) = [json.loads(line) for line in calls[0][1].splitlines()]
    assert (job["kind"], job["spec"]["suspend"]) == ("Job", True)
    owned = [json.loads(line) for line in calls[1][1].splitlines()]
    assert [one["kind"] for one in owned] == ["Service", "Secret"]
    for one in owned:
        assert one["metadata"]["ownerReferences"] == [
            {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": "0a1b"}
        ]
    assert calls[2][0][:2] == ["patch", "job"]
    assert '{"spec":{"suspend":false}}' in calls[2][0]
    assert calls[-1][0][:3] == ["delete", "job", job["metadata"]["name"]]


def test_the_token_is_in_no_command(cluster: FakeCluster) -> None:
    cluster.says("pods", [ended(0, 0), ended(1, 0)])
    _, out, err = cluster.run()
    secret = next(json.loads(line) for line in cluster.calls()[1][1].splitlines() if '"Secret"' in line)
    token = secret["stringData"]["BUSBW_TOKEN"]
    assert len(token) >= 32
    assert token not in json.dumps([words for words, _ in cluster.calls()]) + out + err
    assert token not in (cluster.folder / "here").joinpath("busbw-records").glob("*/run.json").__next__().read_text()


@pytest.mark.parametrize(("codes", "expected"), [((1, 0), 1), ((4, 4), 4), ((0, 3), 3), ((0, 0), 0)])
def test_the_exit_code(cluster: FakeCluster, codes: tuple[int, int], expected: int) -> None:
    cluster.says("pods", [ended(0, codes[0]), ended(1, codes[1])])
    assert cluster.run()[0] == expected


def test_the_end_by_the_time_limit_is_named(cluster: FakeCluster) -> None:
    (cluster.folder / "open").touch()
    cluster.says("pods", [running(0), running(1)])
    process = cluster.start("--active-deadline", "60")
    wait_until(lambda: "logs" in cluster.verbs())
    (job,) = [json.loads(line) for line in cluster.calls()[0][1].splitlines()]
    assert job["spec"]["activeDeadlineSeconds"] == 60
    name = job["metadata"]["name"]
    cluster.says("events", [{"reason": "DeadlineExceeded", "involvedObject": {"kind": "Job", "name": name}}])
    cluster.says("pods", [ended(0, 143), ended(1, 143)])
    (cluster.folder / "open").unlink()
    _, err = process.communicate(timeout=HANG_GUARD_S)
    assert process.returncode == 4
    assert "busbw: the job exceeded its time limit; raise --active-deadline" in err


def test_a_pod_that_ended_by_a_signal_without_the_time_limit_keeps_its_code(cluster: FakeCluster) -> None:
    cluster.says("events", [{"reason": "DeadlineExceeded", "involvedObject": {"kind": "Job", "name": "another"}}])
    cluster.says("pods", [ended(0, 143), ended(1, 143)])
    code, _, err = cluster.run()
    assert code == 143
    assert "time limit" not in err


def test_the_last_lines_of_another_process_are_shown(cluster: FakeCluster) -> None:
    cluster.says("pods", [ended(0, 4), ended(1, 3)])
    _, _, err = cluster.run()
    assert ["logs", "job-1-x", "-c", "busbw", "--tail=20"] in [words for words, _ in cluster.calls()]
    assert "[0-1] all_reduce_perf: a sentence" in err or "[1] " in err


def test_an_evicted_pod_without_container_status_is_named(cluster: FakeCluster) -> None:
    evicted = pod(1, {}, "Failed")
    evicted["status"] = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
    cluster.says("pods", [ended(0, 4), evicted])
    code, _, err = cluster.run()
    assert code == 4
    assert "busbw: pod job-1-x ended: Evicted: The node was low on memory" in err


def test_an_older_cluster_does_not_retry(cluster: FakeCluster) -> None:
    (cluster.folder / "old").touch()
    cluster.says("pods", [ended(0, 0), ended(1, 0)])
    assert cluster.run()[0] == 0
    assert '{"spec":{"suspend":false,"backoffLimit":0}}' in cluster.calls()[2][0]


@pytest.mark.parametrize(("is_old", "patches"), [(True, ['{"spec":{"backoffLimit":0}}']), (False, [])])
def test_an_older_cluster_does_not_retry_a_job_of_a_queue(
    cluster: FakeCluster, *, is_old: bool, patches: list[str]
) -> None:
    if is_old:
        (cluster.folder / "old").touch()
    cluster.says("pods", [ended(0, 0), ended(1, 0)])
    assert cluster.run("--queue", "team")[0] == 0
    assert [words[words.index("-p") + 1] for words, _ in cluster.calls() if words[0] == "patch"] == patches


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("The connection to the server 10.0.0.1:6443 was refused", ["--context"]),
        ('Error from server (Forbidden): jobs.batch is forbidden: User "a" cannot', ["role.yaml"]),
        ("error: You must be logged in to the server (Unauthorized)", ["log in again"]),
        ('error: context "moon" does not exist', ["get-contexts"]),
        (
            'error: no matches for kind "JobSet" in version "jobset.x-k8s.io/v1alpha2"',
            ["--workload-kind job", "operator"],
        ),
        ("Unable to connect to the server: getting credentials: exec: executable aws not found", ["log in again"]),
    ],
)
def test_a_rejection_is_one_sentence_with_a_remedy(cluster: FakeCluster, said: str, words: list[str]) -> None:
    cluster.fails("create", f"Warning: something else\n{said}\n")
    code, out, err = cluster.run()
    assert (code, out) == (3, "")
    # That it waits for the cluster is said after two seconds, on a busy machine.
    (err,) = [line for line in err.splitlines() if not line.startswith("busbw: waiting for the cluster to accept")]
    assert err.startswith("busbw: ")
    for word in [*words, said.removeprefix("error: ").removeprefix("Error from server (Forbidden): ")]:
        assert word in err
    assert not list(cluster.folder.glob("here/*"))


def test_an_incomplete_job_is_removed(cluster: FakeCluster) -> None:
    cluster.fails("patch", "Error from server: etcdserver: request timed out\n")
    code, _, err = cluster.run()
    assert code == 3
    assert "etcdserver: request timed out" in err
    assert cluster.verbs()[-1] == "delete"


def test_a_job_that_cannot_be_removed_is_named(cluster: FakeCluster) -> None:
    cluster.says("pods", [ended(0, 0), ended(1, 0)])
    cluster.fails("delete", "Error from server: no\n")
    code, _, err = cluster.run("-n", "bench")
    assert code == 0
    assert "remove it by hand: kubectl -n bench delete job busbw-all-reduce-" in err


def test_a_short_outage_of_the_api_server_is_tolerated(cluster: FakeCluster) -> None:
    (cluster.folder / "get-pods.4.err").write_text("Error from server (ServiceUnavailable): try again\n")
    cluster.says("pods", [running(0), running(1)], [ended(0, 0), ended(1, 0)])
    assert cluster.run()[0] == 0


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("pods-image", ["ErrImagePull", "missing/busbw:1", "--image-pull-secret"]),
        ("pods-unschedulable", ["0 of the 3 nodes could ever hold 16 nvidia.com/gpu", "Insufficient nvidia.com/gpu"]),
        ("pods-quota", ["exceeded quota: few"]),
    ],
)
def test_a_permanent_problem_ends_the_job(cluster: FakeCluster, answer: str, words: list[str]) -> None:
    cluster.says("pods", json.loads((ANSWERS / f"{answer}.json").read_text())["items"])
    cluster.says("nodes", json.loads((ANSWERS / "nodes.json").read_text())["items"])
    if answer == "pods-quota":
        cluster.says("events", json.loads((ANSWERS / "events-quota.json").read_text())["items"])
    code, _, err = cluster.run("--pending-timeout", "1", "--gpus", "16")
    assert code == 3
    for word in words:
        assert word in err
    assert cluster.verbs()[-1] == "delete"


def test_a_user_without_rights_for_nodes_and_events_waits(cluster: FakeCluster) -> None:
    waiting = json.loads((ANSWERS / "pods-unschedulable.json").read_text())["items"]
    cluster.says("pods", waiting, waiting, [ended(0, 0), ended(1, 0)])
    cluster.fails("get-nodes", "Error from server (Forbidden): nodes is forbidden\n")
    cluster.fails("get-events", "Error from server (Forbidden): events is forbidden\n")
    code, _, err = cluster.run("--pending-timeout", "1")
    assert code == 0
    assert "waiting: 2 of 2 pods pending (0/3 nodes are available" in err
    assert "forbidden" not in err


def test_ctrl_c_deletes_the_job_and_reads_its_log_to_the_end(cluster: FakeCluster) -> None:
    (cluster.folder / "open").touch()
    cluster.says("pods", [running(0), running(1)])
    process = cluster.start()
    wait_until(lambda: "logs" in cluster.verbs(), "the log")
    wait_until(lambda: list(cluster.folder.glob("here/busbw-records/*/records.jsonl")), "the records")
    wait_until(lambda: cluster.record(), "a record")
    cluster.says("pods", [ended(0, 143), ended(1, 143)])
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=HANG_GUARD_S)
    assert process.returncode == 130, err
    assert out == "# a table\n   8  1.00\n"
    assert cluster.record() == RECORD
    assert cluster.verbs().count("delete") == 1
    assert "logs" in cluster.verbs()[cluster.verbs().index("delete") :]


def test_a_missing_leader_pod_is_a_lost_rank(cluster: FakeCluster) -> None:
    evicted = pod(0, {}, "Failed")
    evicted["status"] = {"phase": "Failed", "reason": "Preempted", "message": "by a more important pod"}
    cluster.says("pods", [running(0), running(1)], [evicted, running(1)])
    code, _, err = cluster.run()
    assert code == 4
    assert "Preempted: by a more important pod" in err


def with_conditions(one: dict[str, Any], **conditions: str) -> dict[str, Any]:
    one["status"]["conditions"] = [{"type": name, "status": status} for name, status in conditions.items()]
    return one


def with_sidecar(one: dict[str, Any]) -> dict[str, Any]:
    """As a cluster that injects a proxy lists it: the proxy first, and it runs on."""
    proxy = {"name": "istio-proxy", "state": {"running": {}}}
    one["status"] |= {"phase": "Running", "containerStatuses": [proxy, *one["status"]["containerStatuses"]]}
    return one


@pytest.mark.parametrize("code", [0, 1])
def test_a_sidecar_that_runs_on_does_not_hold_up_the_end(cluster: FakeCluster, code: int) -> None:
    at_end = [with_sidecar(ended(0, code)), with_sidecar(ended(1, 0))]
    cluster.says("pods", [with_sidecar(running(0)), running(1)], at_end)
    found, out, _ = cluster.run()
    assert (found, out) == (code, "# a table\n   8  1.00\n")
    assert cluster.verbs()[-1] == "delete"


def test_a_sidecar_does_not_count_as_the_start(cluster: FakeCluster) -> None:
    starting = with_sidecar(pod(0, {"waiting": {"reason": "ContainerCreating"}}, "Pending"))
    cluster.says("pods", [starting], [starting], [ended(0, 0)])
    assert cluster.run("--nodes", "1")[0] == 0
    verbs = cluster.verbs()
    assert verbs[: verbs.index("logs")].count("get") >= 3


@pytest.mark.parametrize("verb", ["create", "get-pods", "delete"])
def test_a_kubectl_that_hangs_does_not_hold_up_an_interrupt(cluster: FakeCluster, verb: str) -> None:
    (cluster.folder / f"{verb}.hang").touch()
    cluster.says("pods", [running(0), running(1)])
    process = cluster.start()
    if verb == "delete":
        (cluster.folder / "open").touch()
        wait_until(lambda: "logs" in cluster.verbs(), "the log")
        process.send_signal(signal.SIGINT)
    wait_until((cluster.folder / f"{verb}.hanging").exists, "the call that hangs")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANG_GUARD_S)
    assert process.returncode == 130
    assert "delete" in cluster.verbs()
    assert ("remove it by hand: kubectl delete job busbw-all-reduce-" in err) == (verb == "delete")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("NodeLost", "node n does not answer (NodeLost: Node n which was running pod is unresponsive)"),
        ("deleted", "it is being deleted, and node n does not serve its log"),
        ("False", "node n does not answer (Ready is False)"),
        ("Unknown", "node n does not answer (Ready is Unknown)"),
    ],
)
def test_a_lost_node_of_process_0_is_a_lost_rank(cluster: FakeCluster, what: str, words: str) -> None:
    lost = running(0)
    if what == "NodeLost":
        lost["status"] |= {"reason": what, "message": "Node n which was running pod is unresponsive"}
    elif what == "deleted":
        lost["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
        cluster.fails("logs", 'Error from server: Get "https://10.0.0.7:10250/containerLogs": no route to host\n')
    else:
        with_conditions(lost, Ready=what, ContainersReady="True")
        (cluster.folder / "open").touch()
        (cluster.folder / "log").unlink()
    cluster.says("pods", [running(0)], [lost])
    # A node that does not answer is lost after the limit. A busy machine needs seconds until it sees the pod running.
    limit_s = 12 if what in ("False", "Unknown") else 60
    code, _, err = cluster.run("--nodes", "1", "--pending-timeout", str(limit_s))
    assert code == 4, err
    assert f"the pod job-0-x was lost: {words}" in err
    assert cluster.verbs()[-1] == "delete"
    if what in ("False", "Unknown"):
        assert f"busbw: waiting: pod job-0-x: {words}" in err


def test_a_pod_with_an_unready_sidecar_is_not_lost(cluster: FakeCluster) -> None:
    unready = with_conditions(with_sidecar(running(0)), Ready="False", ContainersReady="False")
    cluster.says("pods", *[[unready]] * 5, [ended(0, 0)])
    assert cluster.run("--nodes", "1", "--pending-timeout", "1")[0] == 0


def test_without_kubectl_it_says_where_to_get_it(cluster: FakeCluster) -> None:
    (cluster.folder / "bin" / "kubectl").rename(cluster.folder / "elsewhere")
    code, _, err = cluster.run()
    assert code == 3
    assert "kubectl is not in the PATH" in err
