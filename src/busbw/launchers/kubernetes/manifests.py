"""The objects that make up a job in the cluster: pure functions of what runs and where.

Three kinds of workload, each the owner of whatever else belongs to it:
- an Indexed Job, which every cluster has, with a headless Service that gives its pods names;
- a JobSet, which makes its Service itself;
- an MPIJob, in which mpirun starts the processes over ssh.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from busbw.launchers.kubernetes.where import Where

Manifest = dict[str, Any]

CONTAINER = "busbw"
TOKEN_KEY = "token"
INSTANCE = "app.kubernetes.io/instance"
"""The label that all objects of one job carry, with its name."""

_JOIN_LIMIT_S = "600"
"""Pods start minutes apart where some nodes have the image and others pull it."""
_QUEUE = "kueue.x-k8s.io/queue-name"
_RANKS = "ranks"
_HOSTFILE = "/etc/mpi/hostfile"
_MEMORY_FOR_HUGE_PAGES = "1Gi"


@dataclass(frozen=True)
class Task:
    """What runs in the pods."""

    name: str
    """Of the workload; unique in its namespace."""
    command: tuple[str, ...]
    """The program as the image has it, and its arguments."""
    environment: Mapping[str, str]
    """Tuning variables; those of the rendezvous are added here."""
    nodes: int
    processes_per_node: int = 1
    ranks_per_process: int = 1

    @property
    def processes(self) -> int:
        """Of the whole job."""
        return self.nodes * self.processes_per_node


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


def manifests(task: Task, where: Where, token: str) -> Manifests:
    """The objects of a job."""
    make = {"job": _job, "jobset": _jobset, "mpijob": _mpijob}[where.kind]
    workload, services, suspend_path, pods = make(task, where)
    return Manifests(workload, (*services, _secret(task, where, token)), suspend_path, pods, _requests(where))


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


def _job(task: Task, where: Where) -> tuple[Manifest, list[Manifest], tuple[str, ...], int]:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(task.name, task, where),
        "spec": {
            "clusterIP": "None",
            # Ranks look for each other before their pods count as ready.
            "publishNotReadyAddresses": True,
            "selector": {INSTANCE: task.name},
            "ports": [{"name": "rendezvous", "port": where.port}],
        },
    }
    workload = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(task.name, task, where, is_workload=True),
        "spec": _indexed(task, where, root=f"{task.name}-0.{task.name}", subdomain=task.name)
        | {"ttlSecondsAfterFinished": where.ttl_s},
    }
    return workload, [service], ("spec", "suspend"), task.nodes


def _jobset(task: Task, where: Where) -> tuple[Manifest, list[Manifest], tuple[str, ...], int]:
    workload = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _metadata(task.name, task, where, is_workload=True),
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": task.name, "publishNotReadyAddresses": True},
            "failurePolicy": {"maxRestarts": 0},
            "ttlSecondsAfterFinished": where.ttl_s,
            "replicatedJobs": [
                {
                    "name": _RANKS,
                    "replicas": 1,
                    "template": {"spec": _indexed(task, where, root=f"{task.name}-{_RANKS}-0-0.{task.name}")},
                }
            ],
        },
    }
    return workload, [], ("spec", "suspend"), task.nodes


def _mpijob(task: Task, where: Where) -> tuple[Manifest, list[Manifest], tuple[str, ...], int]:
    per_node = str(task.processes_per_node)
    environment = {
        "BUSBW_JOIN_TIMEOUT_S": _JOIN_LIMIT_S,
        **task.environment,
        "BUSBW_LAUNCHER": "openmpi",
        "BUSBW_RENDEZVOUS": f"tcp://{task.name}-worker-0.{task.name}:{where.port}",
    }
    # By name only: mpirun takes the values from its own environment, so none stands on a command line.
    passed_on = [word for name in (*environment, "BUSBW_TOKEN") for word in ("-x", name)]
    mpirun = ["mpirun", "-np", str(task.processes), "--map-by", f"ppr:{per_node}:node", "--bind-to", "none"]
    root_may = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    launcher = _pod_template(
        task,
        where,
        {
            "name": CONTAINER,
            **_image(where),
            "command": [*mpirun, "--hostfile", _HOSTFILE, *passed_on, *map(_literal, task.command)],
            "env": _env({**environment, **root_may}, task),
        },
        measures=False,
    )
    worker = _pod_template(
        task,
        where,
        {"name": CONTAINER, **_image(where), **_resources(where), **_added(where), **_mounts(where)},
        measures=True,
    )
    workload = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": _metadata(task.name, task, where, is_workload=True),
        "spec": {
            "slotsPerWorker": task.processes_per_node,
            "sshAuthMountPath": where.ssh_folder,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {
                "cleanPodPolicy": "Running",
                "backoffLimit": 0,
                "ttlSecondsAfterFinished": where.ttl_s,
            },
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
                "Worker": {"replicas": task.nodes, "restartPolicy": "Never", "template": worker},
            },
        },
    }
    # Not suspended: the operator would make the launcher at once then, and resume it whether its workers run or not. It
    # makes it last, and only the launcher needs the Secret.
    return workload, [], (), task.nodes + 1


def _indexed(task: Task, where: Where, *, root: str, subdomain: str = "") -> Manifest:
    """An Indexed Job's specification: a pod for each node, which knows its number and where number 0 listens."""
    environment = {
        "BUSBW_JOIN_TIMEOUT_S": _JOIN_LIMIT_S,
        **task.environment,
        "BUSBW_LAUNCHER": "kubernetes",
        "BUSBW_SIZE": str(task.nodes),
        "BUSBW_RENDEZVOUS": f"tcp://{root}:{where.port}",
    }
    container = {
        "name": CONTAINER,
        **_image(where),
        "command": [_literal(task.command[0])],
        "args": [_literal(word) for word in task.command[1:]],
        "env": _env(environment, task),
        **_resources(where),
        **_security(where),
        **_mounts(where),
    }
    return {
        "completionMode": "Indexed",
        "completions": task.nodes,
        "parallelism": task.nodes,
        # A pod that fails is not tried again, and the others are left to say what they know and to end by themselves:
        # a limit for the whole job (backoffLimit 0) would kill them, and their logs, at once.
        "backoffLimitPerIndex": 0,
        "template": _pod_template(task, where, container, measures=True, subdomain=subdomain),
    }


def _pod_template(task: Task, where: Where, container: Manifest, *, measures: bool, subdomain: str = "") -> Manifest:
    spec: Manifest = {} if where.kind == "mpijob" else {"restartPolicy": "Never"}  # there the replicas say so
    spec |= {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }
    if subdomain:
        spec["subdomain"] = subdomain
    if where.service_account:
        spec["serviceAccountName"] = where.service_account
    if where.priority_class:
        spec["priorityClassName"] = where.priority_class
    if where.pull_secret:
        spec["imagePullSecrets"] = [{"name": where.pull_secret}]
    if where.host_network and measures:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if where.node_selector and measures:
        spec["nodeSelector"] = dict(where.node_selector)
    if where.tolerations:
        spec["tolerations"] = [one.manifest() for one in where.tolerations]
    if measures and not where.share_nodes and task.nodes > 1:
        spec["affinity"] = _one_per_node(task, where)
    if where.run_as_user is not None:
        spec["securityContext"] = {"runAsUser": where.run_as_user, "runAsNonRoot": where.run_as_user != 0}
    spec["containers"] = [container]
    if where.shm and measures:
        spec["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": where.shm}}]
    return {"metadata": {"labels": _labels(task)}, "spec": spec}


def _one_per_node(task: Task, where: Where) -> Manifest:
    selector: Manifest = {"matchLabels": {INSTANCE: task.name}}
    if where.kind == "mpijob":
        # The launcher measures nothing and may stand beside a worker.
        expression = {"key": "training.kubeflow.org/job-role", "operator": "In", "values": ["worker"]}
        selector["matchExpressions"] = [expression]
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _secret(task: Task, where: Where, token: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(task.name, task, where),
        "type": "Opaque",
        "immutable": True,
        "stringData": {TOKEN_KEY: token},
    }


def _env(environment: Mapping[str, str], task: Task) -> list[Manifest]:
    plain = [{"name": name, "value": _literal(value)} for name, value in environment.items()]
    secret = {"secretKeyRef": {"name": task.name, "key": TOKEN_KEY}}
    return [*plain, {"name": "BUSBW_TOKEN", "valueFrom": secret}]


def _literal(text: str) -> str:
    """The text as a manifest says it: there `$(NAME)` is a variable's value, and `$$` is `$`."""
    return text.replace("$", "$$")


def _image(where: Where) -> Manifest:
    return {"image": where.image} | ({"imagePullPolicy": where.pull_policy} if where.pull_policy else {})


def _requests(where: Where) -> dict[str, str]:
    asked = dict(where.resources)
    if any(name.startswith("hugepages-") for name in asked) and not {"cpu", "memory"} & asked.keys():
        asked["memory"] = _MEMORY_FOR_HUGE_PAGES  # the API refuses huge pages without either
    return asked


def _resources(where: Where) -> Manifest:
    asked = _requests(where)
    return {"resources": {"limits": asked, "requests": dict(asked)}} if asked else {}


def _security(where: Where) -> Manifest:
    capabilities: Manifest = {"drop": ["ALL"]}
    if where.capabilities:
        capabilities["add"] = list(where.capabilities)
    return {
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": capabilities,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    }


def _added(where: Where) -> Manifest:
    """For workers of MPIJob: only added, since an image's sshd that runs as root needs what is there by default."""
    return {"securityContext": {"capabilities": {"add": list(where.capabilities)}}} if where.capabilities else {}


def _mounts(where: Where) -> Manifest:
    return {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]} if where.shm else {}


def _labels(task: Task) -> dict[str, str]:
    return {"app.kubernetes.io/name": "busbw", INSTANCE: task.name}


def _metadata(name: str, task: Task, where: Where, *, is_workload: bool = False) -> Manifest:
    labels = _labels(task) | ({_QUEUE: where.queue} if is_workload and where.queue else {})
    return {"name": name} | ({"namespace": where.namespace} if where.namespace else {}) | {"labels": labels}


def _with(manifest: Manifest, path: tuple[str, ...], value: object) -> Manifest:
    first, *rest = path
    inner = _with(manifest.get(first, {}), tuple(rest), value) if rest else value
    return {**manifest, first: inner}
