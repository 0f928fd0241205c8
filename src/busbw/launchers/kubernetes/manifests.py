"""Builds the Kubernetes objects of a job: pure functions of the job and the target.

The workload owns all other objects of the job. It has one of three kinds:
- an Indexed Job, which every cluster supports, with a headless Service for the names of its pods;
- a JobSet, which creates its Service itself;
- an MPIJob, in which mpirun starts the processes over ssh.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from busbw.engine import NODE_NAME_VARIABLE
from busbw.launchers.job.job import Job
from busbw.launchers.kubernetes import pods
from busbw.launchers.kubernetes.pods import CONTAINER, INSTANCE_LABEL, Manifest
from busbw.launchers.kubernetes.target import KubernetesTarget

_JOIN_LIMIT_S = "600"
"""Seconds that a process waits for the others. Pods start minutes apart if some nodes must pull the image."""
_TTL_S = 3600
"""How long the cluster keeps a finished job that was not deleted."""
_NODE_NAME: Manifest = {"name": NODE_NAME_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
_SSHD_WITH_NODE_NAME = f'exec /usr/sbin/sshd -De -o "SetEnv PATH=$PATH {NODE_NAME_VARIABLE}=${NODE_NAME_VARIABLE}"'
"""Shell command of an MPIJob worker. sshd gives a login only the variables of SetEnv, and only the first SetEnv counts.
So this one replaces that of an image that sets PATH."""
_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_REPLICATED_JOB = "ranks"
"""Name of the only Job in a JobSet. Its pods are NAME-ranks-0-0, NAME-ranks-0-1 and so on."""
_HOSTFILE = "/etc/mpi/hostfile"
"""File that the operator of MPIJobs writes into the launcher pod."""


@dataclass(frozen=True)
class Manifests:
    """All objects of a job."""

    workload: Manifest
    """Owner of the other objects: deleting it deletes them and its pods."""
    owned: tuple[Manifest, ...]
    starts_suspended: bool
    """True if the workload is created suspended, so that no pod starts before the Secret and the Service exist."""
    pod_count: int
    """Number of pods of the workload."""
    requests: Mapping[str, str]
    """Resource requests of each measuring pod."""


def build_manifests(job: Job, target: KubernetesTarget) -> Manifests:
    """Builds the objects of a job."""
    build = {"job": _build_job, "jobset": _build_jobset, "mpijob": _build_mpijob}[target.kind]
    services = [_build_service(job, target)] if target.kind == "job" else []
    is_mpijob = target.kind == "mpijob"
    return Manifests(
        workload=build(job, target),
        owned=(*services, _build_secret(job, target)),
        # The operator of a suspended MPIJob would resume its launcher pod without waiting for the workers. The Secret
        # need not exist first, because only the launcher pod needs it, and that pod comes last.
        starts_suspended=not is_mpijob,
        pod_count=job.nodes + (1 if is_mpijob else 0),
        requests=pods.requests(job, target),
    )


def created_workload(job_manifests: Manifests) -> Manifest:
    """The workload at its creation, with a field that suspends it if it starts suspended."""
    workload = job_manifests.workload
    if not job_manifests.starts_suspended:
        return workload
    return {**workload, "spec": {**workload["spec"], "suspend": True}}


def resume_patch() -> Manifest:
    """The patch that resumes a suspended workload."""
    return {"spec": {"suspend": False}}


def with_owner(manifest: Manifest, workload: Manifest, uid: str) -> Manifest:
    """The object with the workload as its owner, so that both are deleted together."""
    owner = {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
        "uid": uid,
    }
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}


def _build_service(job: Job, target: KubernetesTarget) -> Manifest:
    """Headless Service for the names of the pods of an Indexed Job."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(job.name, job, target),
        "spec": {
            "clusterIP": "None",
            # Ranks connect to each other before their pods count as ready.
            "publishNotReadyAddresses": True,
            "selector": {INSTANCE_LABEL: job.name},
            "ports": [{"name": "rendezvous", "port": target.port}],
        },
    }


def _build_job(job: Job, target: KubernetesTarget) -> Manifest:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(job.name, job, target, is_workload=True),
        "spec": _indexed_job_spec(job, target, leader_host=f"{job.name}-0.{job.name}", subdomain=job.name)
        | {"ttlSecondsAfterFinished": _TTL_S},
    }


def _build_jobset(job: Job, target: KubernetesTarget) -> Manifest:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _metadata(job.name, job, target, is_workload=True),
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": job.name, "publishNotReadyAddresses": True},
            "failurePolicy": {"maxRestarts": 0},
            "ttlSecondsAfterFinished": _TTL_S,
            "replicatedJobs": [
                {
                    "name": _REPLICATED_JOB,
                    "replicas": 1,
                    "template": {
                        "spec": _indexed_job_spec(
                            job, target, leader_host=f"{job.name}-{_REPLICATED_JOB}-0-0.{job.name}"
                        )
                    },
                }
            ],
        },
    }


def _mpi_launcher_template(job: Job, target: KubernetesTarget) -> Manifest:
    """Template of the pod that runs mpirun."""
    environment = {
        "BUSBW_JOIN_TIMEOUT_S": _JOIN_LIMIT_S,
        **job.plain_environment,
        "BUSBW_LAUNCHER": "openmpi",
        "BUSBW_RENDEZVOUS": f"tcp://{job.name}-worker-0.{job.name}:{target.port}",
    }
    # -x has only the names. mpirun takes the values from its environment, so the token is not on a command line.
    exported = [argument for name in (*environment, *pods.secret_values(job)) for argument in ("-x", name)]
    distribution = ["--map-by", f"ppr:{job.processes_per_node}:node", "--bind-to", "none", "--hostfile", _HOSTFILE]
    mpirun = ["mpirun", "-np", str(job.processes), *distribution, *exported]
    allow_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    container = {
        "name": CONTAINER,
        **pods.image(target),
        "command": [*mpirun, *map(pods.escape_variables, job.command)],
        "env": pods.env({**environment, **allow_root}, job),
        **pods.launcher_resources(),
    }
    return pods.pod_template(job, target, container, measures=False)


def _mpi_worker_template(job: Job, target: KubernetesTarget) -> Manifest:
    """Template of the pods in which mpirun starts the processes. The operator adds the command, an sshd, if missing."""
    node_name = {"command": ["/bin/sh", "-c", _SSHD_WITH_NODE_NAME], "env": [_NODE_NAME]} if job.names_nodes else {}
    container = {
        "name": CONTAINER,
        **pods.image(target),
        **node_name,
        **pods.resources(job, target),
        **pods.worker_security(target),
        **pods.mounts(),
    }
    return pods.pod_template(job, target, container, measures=True)


def _build_mpijob(job: Job, target: KubernetesTarget) -> Manifest:
    launcher, worker = _mpi_launcher_template(job, target), _mpi_worker_template(job, target)
    return {
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
                "activeDeadlineSeconds": target.active_limit_s,
                "ttlSecondsAfterFinished": _TTL_S,
            },
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
                "Worker": {"replicas": job.nodes, "restartPolicy": "Never", "template": worker},
            },
        },
    }


def _indexed_job_spec(job: Job, target: KubernetesTarget, *, leader_host: str, subdomain: str = "") -> Manifest:
    """Specification of an Indexed Job with one pod per node. Kubernetes gives each pod its index.

    Args:
        job: The job.
        target: Settings of the pods.
        leader_host: Host name of the pod with index 0, which runs process 0.
        subdomain: Name of the headless Service of the pods. Empty: the owner of the Job sets it.
    """
    environment = {
        "BUSBW_JOIN_TIMEOUT_S": _JOIN_LIMIT_S,
        **job.plain_environment,
        "BUSBW_LAUNCHER": "kubernetes",
        "BUSBW_SIZE": str(job.nodes),
        "BUSBW_RENDEZVOUS": f"tcp://{leader_host}:{target.port}",
    }
    container = {
        "name": CONTAINER,
        **pods.image(target),
        "command": [pods.escape_variables(job.command[0])],
        "args": [pods.escape_variables(word) for word in job.command[1:]],
        "env": [*pods.env(environment, job), *([_NODE_NAME] if job.names_nodes else [])],
        **pods.resources(job, target),
        **pods.security(target),
        **pods.mounts(),
    }
    return {
        "completionMode": "Indexed",
        "completions": job.nodes,
        "parallelism": job.nodes,
        # Failed pods are not retried, and the other pods keep running to report their results. A limit for the whole
        # job (backoffLimit 0) would kill them and delete their logs at once.
        "backoffLimitPerIndex": 0,
        "activeDeadlineSeconds": target.active_limit_s,
        "template": pods.pod_template(job, target, container, measures=True, subdomain=subdomain),
    }


def _build_secret(job: Job, target: KubernetesTarget) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(job.name, job, target),
        "type": "Opaque",
        "immutable": True,
        "stringData": pods.secret_values(job),
    }


def _metadata(name: str, job: Job, target: KubernetesTarget, *, is_workload: bool = False) -> Manifest:
    metadata: Manifest = {"name": name}
    if target.namespace:
        metadata["namespace"] = target.namespace
    metadata["labels"] = pods.labels(job)
    if is_workload and target.queue:
        metadata["labels"] |= {_QUEUE_LABEL: target.queue}
    return metadata
