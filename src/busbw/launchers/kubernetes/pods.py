"""A pod of the job: its container, what it asks for and where it may run; pure functions of what runs and where."""

from collections.abc import Mapping
from typing import Any

from busbw.launchers.job.job import Job
from busbw.launchers.kubernetes.target import KubernetesTarget

Manifest = dict[str, Any]

CONTAINER = "busbw"
TOKEN_KEY = "token"
INSTANCE = "app.kubernetes.io/instance"
"""The label that all objects of one job carry, with its name."""

_MEMORY_FOR_HUGE_PAGES = "1Gi"


def pod_template(
    job: Job, where: KubernetesTarget, container: Manifest, *, measures: bool, subdomain: str = ""
) -> Manifest:
    """A pod with this container; `measures`: it is one of those that the job is about, not MPIJob's launcher."""
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
    if measures and not where.share_nodes and job.nodes > 1:
        spec["affinity"] = _one_per_node(job, where)
    if where.run_as_user is not None:
        spec["securityContext"] = {"runAsUser": where.run_as_user, "runAsNonRoot": where.run_as_user != 0}
    spec["containers"] = [container]
    if where.shm and measures:
        spec["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": where.shm}}]
    return {"metadata": {"labels": labels(job)}, "spec": spec}


def _one_per_node(job: Job, where: KubernetesTarget) -> Manifest:
    selector: Manifest = {"matchLabels": {INSTANCE: job.name}}
    if where.kind == "mpijob":
        # The launcher measures nothing and may stand beside a worker.
        expression = {"key": "training.kubeflow.org/job-role", "operator": "In", "values": ["worker"]}
        selector["matchExpressions"] = [expression]
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def env(environment: Mapping[str, str], job: Job) -> list[Manifest]:
    """The container's variables, and the token from the job's Secret."""
    plain = [{"name": name, "value": escape_variables(value)} for name, value in environment.items()]
    secret = {"secretKeyRef": {"name": job.name, "key": TOKEN_KEY}}
    return [*plain, {"name": "BUSBW_TOKEN", "valueFrom": secret}]


def escape_variables(text: str) -> str:
    """The text as a manifest says it: there `$(NAME)` is a variable's value, and `$$` is `$`."""
    return text.replace("$", "$$")


def image(where: KubernetesTarget) -> Manifest:
    """Which image, and when it is pulled."""
    return {"image": where.image} | ({"imagePullPolicy": where.pull_policy} if where.pull_policy else {})


def requests(where: KubernetesTarget) -> dict[str, str]:
    """What a container asks for, by the names of its resources."""
    asked = dict(where.resources)
    if any(name.startswith("hugepages-") for name in asked) and not {"cpu", "memory"} & asked.keys():
        asked["memory"] = _MEMORY_FOR_HUGE_PAGES  # the API refuses huge pages without either
    return asked


def resources(where: KubernetesTarget) -> Manifest:
    """The same as a container says it; empty where it asks for nothing."""
    asked = requests(where)
    return {"resources": {"limits": asked, "requests": dict(asked)}} if asked else {}


def security(where: KubernetesTarget) -> Manifest:
    """What a container may do: nothing but what was asked for."""
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


def worker_security(where: KubernetesTarget) -> Manifest:
    """For workers of MPIJob: only added, since an image's sshd that runs as root needs what is there by default."""
    return {"securityContext": {"capabilities": {"add": list(where.capabilities)}}} if where.capabilities else {}


def mounts(where: KubernetesTarget) -> Manifest:
    """Where /dev/shm comes from, if its size was given."""
    return {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]} if where.shm else {}


def labels(job: Job) -> dict[str, str]:
    """By which all objects of a job, and of all jobs of busbw, are found."""
    return {"app.kubernetes.io/name": "busbw", INSTANCE: job.name}
