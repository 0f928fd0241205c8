"""Builds the pods of a job: container, resources and placement. Pure functions of the job and the target."""

from collections.abc import Mapping
from typing import Any

from busbw.launchers.job.job import Job
from busbw.launchers.kubernetes.target import KubernetesTarget

Manifest = dict[str, Any]

CONTAINER = "busbw"
"""Name of the container that runs the program, or mpirun."""
TOKEN_KEY = "token"
"""Key in the Secret of the job."""
INSTANCE_LABEL = "app.kubernetes.io/instance"
"""Label with the job's name on all objects of a job."""

_MEMORY_FOR_HUGE_PAGES = "1Gi"
"""Memory request of a pod that requests huge pages and neither CPU nor memory."""


def pod_template(
    job: Job, target: KubernetesTarget, container: Manifest, *, measures: bool, subdomain: str = ""
) -> Manifest:
    """Returns a pod template with this container. `measures` is false only for the launcher pod of an MPIJob."""
    spec: Manifest = {} if target.kind == "mpijob" else {"restartPolicy": "Never"}  # an MPIJob sets it per replica type
    spec |= {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }
    if subdomain:
        spec["subdomain"] = subdomain
    if target.service_account:
        spec["serviceAccountName"] = target.service_account
    if target.priority_class:
        spec["priorityClassName"] = target.priority_class
    if target.pull_secret:
        spec["imagePullSecrets"] = [{"name": target.pull_secret}]
    if target.host_network and measures:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if target.node_selector and measures:
        spec["nodeSelector"] = dict(target.node_selector)
    if target.tolerations:
        spec["tolerations"] = [toleration.manifest() for toleration in target.tolerations]
    if measures and not target.share_nodes and job.nodes > 1:
        spec["affinity"] = _one_pod_per_node(job, target)
    if target.run_as_user is not None:
        spec["securityContext"] = {"runAsUser": target.run_as_user, "runAsNonRoot": target.run_as_user != 0}
    spec["containers"] = [container]
    if target.shm and measures:
        spec["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": target.shm}}]
    return {"metadata": {"labels": labels(job)}, "spec": spec}


def _one_pod_per_node(job: Job, target: KubernetesTarget) -> Manifest:
    """Affinity that places each measuring pod on its own node."""
    selector: Manifest = {"matchLabels": {INSTANCE_LABEL: job.name}}
    if target.kind == "mpijob":
        # The launcher measures nothing and may share a node with a worker.
        expression = {"key": "training.kubeflow.org/job-role", "operator": "In", "values": ["worker"]}
        selector["matchExpressions"] = [expression]
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def env(environment: Mapping[str, str], job: Job) -> list[Manifest]:
    """Environment of the container, with the token from the job's Secret."""
    plain = [{"name": name, "value": escape_variables(value)} for name, value in environment.items()]
    secret = {"secretKeyRef": {"name": job.name, "key": TOKEN_KEY}}
    return [*plain, {"name": "BUSBW_TOKEN", "valueFrom": secret}]


def escape_variables(text: str) -> str:
    """Escapes a text for a manifest, where `$(NAME)` expands a variable and `$$` is `$`."""
    return text.replace("$", "$$")


def image(target: KubernetesTarget) -> Manifest:
    """Image and pull policy of a container."""
    return {"image": target.image} | ({"imagePullPolicy": target.pull_policy} if target.pull_policy else {})


def requests(target: KubernetesTarget) -> dict[str, str]:
    """Resource requests of a container by resource name."""
    requested = dict(target.resources)
    if any(name.startswith("hugepages-") for name in requested) and not {"cpu", "memory"} & requested.keys():
        requested["memory"] = _MEMORY_FOR_HUGE_PAGES  # the API rejects huge pages without a CPU or memory request
    return requested


def resources(target: KubernetesTarget) -> Manifest:
    """Resource section of a container. Empty without requests."""
    requested = requests(target)
    return {"resources": {"limits": requested, "requests": dict(requested)}} if requested else {}


def security(target: KubernetesTarget) -> Manifest:
    """Security context with only the requested capabilities."""
    capabilities: Manifest = {"drop": ["ALL"]}
    if target.capabilities:
        capabilities["add"] = list(target.capabilities)
    return {
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": capabilities,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    }


def worker_security(target: KubernetesTarget) -> Manifest:
    """Security context of MPIJob workers. Drops no capability, because an sshd run by root needs the defaults."""
    return {"securityContext": {"capabilities": {"add": list(target.capabilities)}}} if target.capabilities else {}


def mounts(target: KubernetesTarget) -> Manifest:
    """Volume mount of /dev/shm. Empty if the target states no size for it."""
    return {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]} if target.shm else {}


def labels(job: Job) -> dict[str, str]:
    """Labels of all objects of the job: the first selects all busbw jobs, the second selects this job."""
    return {"app.kubernetes.io/name": "busbw", INSTANCE_LABEL: job.name}
