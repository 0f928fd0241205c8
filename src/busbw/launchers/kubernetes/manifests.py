"""Builds the Kubernetes objects of a job: pure functions of the job and the target.

The workload owns all other objects of the job. It has one of three kinds:
- an Indexed Job, which every cluster supports, with a headless Service for the names of its pods;
- a JobSet, which creates its Service itself;
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
"""Time limit of joining. Pods start minutes apart if some nodes must pull the image."""
_QUEUE = "kueue.x-k8s.io/queue-name"
_RANKS = "ranks"
_HOSTFILE = "/etc/mpi/hostfile"


@dataclass(frozen=True)
class Manifests:
    """All objects of a job."""

    workload: Manifest
    """Owner of the other objects: deleting it deletes them and its pods."""
    owned: tuple[Manifest, ...]
    suspend_path: tuple[str, ...]
    """Path of the field that suspends the workload. Empty if it starts at once."""
    pods: int
    """Number of pods of the workload."""
    requests: Mapping[str, str]
    """Resource requests of each measuring pod."""


def manifests(job: Job, target: KubernetesTarget) -> Manifests:
    """Builds the objects of a job."""
    make = {"job": _job, "jobset": _jobset, "mpijob": _mpijob}[target.kind]
    workload, services, suspend_path, count = make(job, target)
    return Manifests(workload, (*services, _secret(job, target)), suspend_path, count, pods.requests(target))


def suspended(job_manifests: Manifests) -> Manifest:
    """The workload at its creation, suspended so that no pod starts before the Secret and the Service exist."""
    if not job_manifests.suspend_path:
        return job_manifests.workload
    return _with(job_manifests.workload, job_manifests.suspend_path, True)


def suspension(job_manifests: Manifests) -> Manifest:
    """The fields that `suspended` adds."""
    return _with({}, job_manifests.suspend_path, True)


def resumption(job_manifests: Manifests) -> Manifest:
    """The patch that resumes the workload. Empty if it was not suspended."""
    if not job_manifests.suspend_path:
        return {}
    return _with({}, job_manifests.suspend_path, False)


def patch_text(change: Manifest) -> str:
    """A change in the syntax of `kubectl patch -p`."""
    return json.dumps(change, separators=(",", ":"))


def owned_by(manifest: Manifest, workload: Manifest, uid: str) -> Manifest:
    """The object with the workload as its owner, so that both are deleted together."""
    owner = {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
        "uid": uid,
    }
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}


def _job(job: Job, target: KubernetesTarget) -> tuple[Manifest, list[Manifest], tuple[str, ...], int]:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(job.name, job, target),
        "spec": {
            "clusterIP": "None",
            # Ranks connect to each other before their pods count as ready.
            "publishNotReadyAddresses": True,
            "selector": {INSTANCE: job.name},
            "ports": [{"name": "rendezvous", "port": target.port}],
        },
    }
    workload = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(job.name, job, target, is_workload=True),
        "spec": _indexed(job, target, root=f"{job.name}-0.{job.name}", subdomain=job.name)
        | {"ttlSecondsAfterFinished": target.ttl_s},
    }
    return workload, [service], ("spec", "suspend"), job.nodes


def _jobset(job: Job, target: KubernetesTarget) -> tuple[Manifest, list[Manifest], tuple[str, ...], int]:
    workload = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _metadata(job.name, job, target, is_workload=True),
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": job.name, "publishNotReadyAddresses": True},
            "failurePolicy": {"maxRestarts": 0},
            "ttlSecondsAfterFinished": target.ttl_s,
            "replicatedJobs": [
                {
                    "name": _RANKS,
                    "replicas": 1,
                    "template": {"spec": _indexed(job, target, root=f"{job.name}-{_RANKS}-0-0.{job.name}")},
                }
            ],
        },
    }
    return workload, [], ("spec", "suspend"), job.nodes


def _mpijob(job: Job, target: KubernetesTarget) -> tuple[Manifest, list[Manifest], tuple[str, ...], int]:
    per_node = str(job.processes_per_node)
    environment = {
        "BUSBW_JOIN_TIMEOUT_S": _JOIN_LIMIT_S,
        **dict(job.environment),
        "BUSBW_LAUNCHER": "openmpi",
        "BUSBW_RENDEZVOUS": f"tcp://{job.name}-worker-0.{job.name}:{target.port}",
    }
    # Only names: mpirun takes the values from its environment, so the token is not on a command line.
    exported = [word for name in (*environment, "BUSBW_TOKEN") for word in ("-x", name)]
    mpirun = ["mpirun", "-np", str(job.processes), "--map-by", f"ppr:{per_node}:node", "--bind-to", "none"]
    allow_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    launcher = pods.pod_template(
        job,
        target,
        {
            "name": CONTAINER,
            **pods.image(target),
            "command": [*mpirun, "--hostfile", _HOSTFILE, *exported, *map(pods.escape_variables, job.command)],
            "env": pods.env({**environment, **allow_root}, job),
        },
        measures=False,
    )
    worker = pods.pod_template(
        job,
        target,
        {
            "name": CONTAINER,
            **pods.image(target),
            **pods.resources(target),
            **pods.worker_security(target),
            **pods.mounts(target),
        },
        measures=True,
    )
    workload = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": _metadata(job.name, job, target, is_workload=True),
        "spec": {
            "slotsPerWorker": job.processes_per_node,
            "sshAuthMountPath": target.ssh_folder,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {
                "cleanPodPolicy": "Running",
                "backoffLimit": 0,
                "ttlSecondsAfterFinished": target.ttl_s,
            },
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
                "Worker": {"replicas": job.nodes, "restartPolicy": "Never", "template": worker},
            },
        },
    }
    # Not suspended: otherwise the operator creates the launcher pod at once, and resumes it without waiting for the
    # workers. Unsuspended, it creates the launcher last, and only the launcher needs the Secret.
    return workload, [], (), job.nodes + 1


def _indexed(job: Job, target: KubernetesTarget, *, root: str, subdomain: str = "") -> Manifest:
    """Specification of an Indexed Job with one pod per node. Each pod gets its index and the address of index 0."""
    environment = {
        "BUSBW_JOIN_TIMEOUT_S": _JOIN_LIMIT_S,
        **dict(job.environment),
        "BUSBW_LAUNCHER": "kubernetes",
        "BUSBW_SIZE": str(job.nodes),
        "BUSBW_RENDEZVOUS": f"tcp://{root}:{target.port}",
    }
    container = {
        "name": CONTAINER,
        **pods.image(target),
        "command": [pods.escape_variables(job.command[0])],
        "args": [pods.escape_variables(word) for word in job.command[1:]],
        "env": pods.env(environment, job),
        **pods.resources(target),
        **pods.security(target),
        **pods.mounts(target),
    }
    return {
        "completionMode": "Indexed",
        "completions": job.nodes,
        "parallelism": job.nodes,
        # Failed pods are not retried, and the other pods keep running to report their results. A limit for the whole
        # job (backoffLimit 0) would kill them and delete their logs at once.
        "backoffLimitPerIndex": 0,
        "template": pods.pod_template(job, target, container, measures=True, subdomain=subdomain),
    }


def _secret(job: Job, target: KubernetesTarget) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(job.name, job, target),
        "type": "Opaque",
        "immutable": True,
        "stringData": {TOKEN_KEY: job.token},
    }


def _metadata(name: str, job: Job, target: KubernetesTarget, *, is_workload: bool = False) -> Manifest:
    labels = pods.labels(job) | ({_QUEUE: target.queue} if is_workload and target.queue else {})
    return {"name": name} | ({"namespace": target.namespace} if target.namespace else {}) | {"labels": labels}


def _with(manifest: Manifest, path: tuple[str, ...], value: object) -> Manifest:
    first, *rest = path
    inner = _with(manifest.get(first, {}), tuple(rest), value) if rest else value
    return {**manifest, first: inner}
