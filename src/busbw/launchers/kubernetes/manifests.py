"""The objects that make up a job in the cluster: pure functions of what runs and where.

Three kinds of workload, each the owner of whatever else belongs to it:
- an Indexed Job, which every cluster has, with a headless Service that gives its pods names;
- a JobSet, which makes its Service itself;
- an MPIJob, in which mpirun starts the processes over ssh.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.launchers.job.job import Job
from busbw.launchers.kubernetes import pods
from busbw.launchers.kubernetes.pods import CONTAINER, INSTANCE, TOKEN_KEY, Manifest
from busbw.launchers.kubernetes.target import KubernetesTarget

_JOIN_LIMIT_S = "600"
"""Pods start minutes apart where some nodes have the image and others pull it."""
_QUEUE = "kueue.x-k8s.io/queue-name"
_RANKS = "ranks"
_HOSTFILE = "/etc/mpi/hostfile"


@dataclass(frozen=True)
class Manifests:
    """All that a job is in the cluster."""

    workload: Manifest
    """Owns the others: deleting it deletes them and its pods."""
    owned: tuple[Manifest, ...]
    suspend_path: tuple[str, ...]
    """Where the workload says that it must not start yet; empty for one that starts at once."""
    pods: int
    """How many pods it makes."""
    requests: Mapping[str, str]
    """What each of the pods that measure asks for."""


def manifests(job: Job, where: KubernetesTarget) -> Manifests:
    """The objects of a job."""
    make = {"job": _job, "jobset": _jobset, "mpijob": _mpijob}[where.kind]
    workload, services, suspend_path, count = make(job, where)
    return Manifests(workload, (*services, _secret(job, where)), suspend_path, count, pods.requests(where))


def suspended(made: Manifests) -> Manifest:
    """The workload as it is created: nothing that needs its Secret and Service starts before they are there."""
    if not made.suspend_path:
        return made.workload
    return _with(made.workload, made.suspend_path, True)


def suspension(made: Manifests) -> Manifest:
    """What `suspended` adds."""
    return _with({}, made.suspend_path, True)


def resumption(made: Manifests) -> Manifest:
    """The patch that lets it start; empty for one that has started."""
    if not made.suspend_path:
        return {}
    return _with({}, made.suspend_path, False)


def patch_text(change: Manifest) -> str:
    """A change as `kubectl patch -p` takes it."""
    return json.dumps(change, separators=(",", ":"))


def owned_by(manifest: Manifest, workload: Manifest, uid: str) -> Manifest:
    """The object with the workload as its owner, so that it goes when the workload goes."""
    owner = {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
        "uid": uid,
    }
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}


def _job(job: Job, where: KubernetesTarget) -> tuple[Manifest, list[Manifest], tuple[str, ...], int]:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(job.name, job, where),
        "spec": {
            "clusterIP": "None",
            # Ranks look for each other before their pods count as ready.
            "publishNotReadyAddresses": True,
            "selector": {INSTANCE: job.name},
            "ports": [{"name": "rendezvous", "port": where.port}],
        },
    }
    workload = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(job.name, job, where, is_workload=True),
        "spec": _indexed(job, where, root=f"{job.name}-0.{job.name}", subdomain=job.name)
        | {"ttlSecondsAfterFinished": where.ttl_s},
    }
    return workload, [service], ("spec", "suspend"), job.nodes


def _jobset(job: Job, where: KubernetesTarget) -> tuple[Manifest, list[Manifest], tuple[str, ...], int]:
    workload = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _metadata(job.name, job, where, is_workload=True),
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": job.name, "publishNotReadyAddresses": True},
            "failurePolicy": {"maxRestarts": 0},
            "ttlSecondsAfterFinished": where.ttl_s,
            "replicatedJobs": [
                {
                    "name": _RANKS,
                    "replicas": 1,
                    "template": {"spec": _indexed(job, where, root=f"{job.name}-{_RANKS}-0-0.{job.name}")},
                }
            ],
        },
    }
    return workload, [], ("spec", "suspend"), job.nodes


def _mpijob(job: Job, where: KubernetesTarget) -> tuple[Manifest, list[Manifest], tuple[str, ...], int]:
    per_node = str(job.processes_per_node)
    environment = {
        "BUSBW_JOIN_TIMEOUT_S": _JOIN_LIMIT_S,
        **dict(job.environment),
        "BUSBW_LAUNCHER": "openmpi",
        "BUSBW_RENDEZVOUS": f"tcp://{job.name}-worker-0.{job.name}:{where.port}",
    }
    # By name only: mpirun takes the values from its own environment, so none stands on a command line.
    passed_on = [word for name in (*environment, "BUSBW_TOKEN") for word in ("-x", name)]
    mpirun = ["mpirun", "-np", str(job.processes), "--map-by", f"ppr:{per_node}:node", "--bind-to", "none"]
    root_may = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    launcher = pods.pod_template(
        job,
        where,
        {
            "name": CONTAINER,
            **pods.image(where),
            "command": [*mpirun, "--hostfile", _HOSTFILE, *passed_on, *map(pods.escape_variables, job.command)],
            "env": pods.env({**environment, **root_may}, job),
        },
        measures=False,
    )
    worker = pods.pod_template(
        job,
        where,
        {
            "name": CONTAINER,
            **pods.image(where),
            **pods.resources(where),
            **pods.worker_security(where),
            **pods.mounts(where),
        },
        measures=True,
    )
    workload = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": _metadata(job.name, job, where, is_workload=True),
        "spec": {
            "slotsPerWorker": job.processes_per_node,
            "sshAuthMountPath": where.ssh_folder,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {
                "cleanPodPolicy": "Running",
                "backoffLimit": 0,
                "ttlSecondsAfterFinished": where.ttl_s,
            },
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
                "Worker": {"replicas": job.nodes, "restartPolicy": "Never", "template": worker},
            },
        },
    }
    # Not suspended: the operator would make the launcher at once then, and resume it whether its workers run or not. It
    # makes it last, and only the launcher needs the Secret.
    return workload, [], (), job.nodes + 1


def _indexed(job: Job, where: KubernetesTarget, *, root: str, subdomain: str = "") -> Manifest:
    """An Indexed Job's specification: a pod for each node, which knows its number and where number 0 listens."""
    environment = {
        "BUSBW_JOIN_TIMEOUT_S": _JOIN_LIMIT_S,
        **dict(job.environment),
        "BUSBW_LAUNCHER": "kubernetes",
        "BUSBW_SIZE": str(job.nodes),
        "BUSBW_RENDEZVOUS": f"tcp://{root}:{where.port}",
    }
    container = {
        "name": CONTAINER,
        **pods.image(where),
        "command": [pods.escape_variables(job.command[0])],
        "args": [pods.escape_variables(word) for word in job.command[1:]],
        "env": pods.env(environment, job),
        **pods.resources(where),
        **pods.security(where),
        **pods.mounts(where),
    }
    return {
        "completionMode": "Indexed",
        "completions": job.nodes,
        "parallelism": job.nodes,
        # A pod that fails is not tried again, and the others are left to say what they know and to end by themselves:
        # a limit for the whole job (backoffLimit 0) would kill them, and their logs, at once.
        "backoffLimitPerIndex": 0,
        "template": pods.pod_template(job, where, container, measures=True, subdomain=subdomain),
    }


def _secret(job: Job, where: KubernetesTarget) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(job.name, job, where),
        "type": "Opaque",
        "immutable": True,
        "stringData": {TOKEN_KEY: job.token},
    }


def _metadata(name: str, job: Job, where: KubernetesTarget, *, is_workload: bool = False) -> Manifest:
    labels = pods.labels(job) | ({_QUEUE: where.queue} if is_workload and where.queue else {})
    return {"name": name} | ({"namespace": where.namespace} if where.namespace else {}) | {"labels": labels}


def _with(manifest: Manifest, path: tuple[str, ...], value: object) -> Manifest:
    first, *rest = path
    inner = _with(manifest.get(first, {}), tuple(rest), value) if rest else value
    return {**manifest, first: inner}
