"""Builds the pods of a job: container, resources and placement. Pure functions of the job and the target."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from busbw.launchers.job.job import Job
from busbw.launchers.kubernetes.target import KubernetesTarget, Toleration

Manifest = dict[str, Any]

CONTAINER = "busbw"
"""Name of the container that runs the program, or mpirun."""
TOKEN_VARIABLE = "BUSBW_TOKEN"
INSTANCE_LABEL = "app.kubernetes.io/instance"
"""Label with the job's name on all objects of a job."""

_DEFAULT_SHM = "1Gi"
"""Default size of /dev/shm. Source: NCCL's user guide, "Troubleshooting", "Docker", which starts containers with
--shm-size=1g."""
_GIB_PER_RANK = 1
"""Memory request for each rank."""
_LAUNCHER_REQUESTS = {"cpu": "500m", "memory": "512Mi"}
"""Requests of the launcher pod of an MPIJob, which runs mpirun."""
_ZONE_LABEL = "topology.kubernetes.io/zone"
_ZONE_WEIGHT = 100
"""Weight of the preference for nodes in one zone. It is the maximum that Kubernetes accepts."""


def pod_template(
    job: Job, target: KubernetesTarget, container: Manifest, *, measures: bool, subdomain: str = ""
) -> Manifest:
    """Returns a pod template with this container. `measures` is false only for the launcher pod of an MPIJob."""
    spec: Manifest = {}
    if target.kind != "mpijob":  # an MPIJob has a restart policy for each type of its replicas
        spec["restartPolicy"] = "Never"
    spec |= {"automountServiceAccountToken": False, "enableServiceLinks": False}
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
    tolerations = (*target.tolerations, *(_device_tolerations(target) if measures else ()))
    if tolerations:
        spec["tolerations"] = [toleration.manifest() for toleration in tolerations]
    if measures and job.nodes > 1:
        spec["affinity"] = _same_zone(job)
        if not target.share_nodes:
            spec["affinity"] |= _one_pod_per_node(job, target)
    user = {} if target.run_as_user is None else {"runAsUser": target.run_as_user}
    spec["securityContext"] = user | {"runAsNonRoot": target.run_as_user != 0}
    spec["containers"] = [container]
    if measures:
        size = target.shm or _DEFAULT_SHM
        spec["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}]
    return {"metadata": {"labels": labels(job)}, "spec": spec}


def _device_tolerations(target: KubernetesTarget) -> list[Toleration]:
    """Tolerations for the requested devices that the target does not tolerate yet.

    Nodes with devices often have a taint with the name of the resource, as Kubernetes' admission plugin
    ExtendedResourceToleration expects.
    """
    tolerated = {toleration.key for toleration in target.tolerations}
    # A device has a slash in its name, such as nvidia.com/gpu. Memory and CPUs have none.
    devices = [name for name, _ in target.resources if "/" in name and name not in tolerated]
    return [Toleration(name, effect="NoSchedule") for name in devices]


def _same_zone(job: Job) -> Manifest:
    """Affinity that prefers nodes in one zone.

    A required zone would exclude nodes without the label of a zone. The user can require one with `--node-selector`.
    """
    term = {"topologyKey": _ZONE_LABEL, "labelSelector": {"matchLabels": {INSTANCE_LABEL: job.name}}}
    preference = {"weight": _ZONE_WEIGHT, "podAffinityTerm": term}
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}


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
    """Environment of the container, with the token and the secrets from the job's Secret."""
    plain = [{"name": name, "value": escape_variables(value)} for name, value in environment.items()]
    secret = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": job.name, "key": name}}} for name in secret_values(job)
    ]
    return [*plain, *secret]


def secret_values(job: Job) -> dict[str, str]:
    """Content of the job's Secret: variables with their values."""
    return {**job.secrets, TOKEN_VARIABLE: job.token}


def escape_variables(text: str) -> str:
    """Escapes a text for a manifest, where `$(NAME)` expands a variable and `$$` is `$`."""
    return text.replace("$", "$$")


def image(target: KubernetesTarget) -> Manifest:
    """Image and pull policy of a container."""
    return {"image": target.image} | ({"imagePullPolicy": target.pull_policy} if target.pull_policy else {})


def requests(job: Job, target: KubernetesTarget) -> dict[str, str]:
    """Resource requests of a measuring container by resource name. By default, each rank gets a CPU and 1 GiB."""
    ranks = job.processes_per_node * job.ranks_per_process
    defaults = {"cpu": str(ranks), "memory": f"{ranks * _GIB_PER_RANK}Gi"}
    explicit = dict(target.resources)
    return _without_zeros(explicit | {name: amount for name, amount in defaults.items() if name not in explicit})


def resources(job: Job, target: KubernetesTarget) -> Manifest:
    """Resource section of a measuring container.

    Default requests are no limits: a CPU limit would throttle the ranks, and a memory limit could end them.
    """
    section: Manifest = {}
    if limits := _without_zeros(dict(target.resources)):
        section["limits"] = limits
    section["requests"] = requests(job, target)
    return {"resources": section}


def launcher_resources() -> Manifest:
    """Resource section of the launcher pod of an MPIJob."""
    return {"resources": {"requests": dict(_LAUNCHER_REQUESTS)}}


def _without_zeros(amounts: Mapping[str, str]) -> dict[str, str]:
    return {name: amount for name, amount in amounts.items() if amount != "0"}


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
    if not target.capabilities:
        return {}
    return {"securityContext": {"capabilities": {"add": list(target.capabilities)}}}


def mounts() -> Manifest:
    """Volume mount of /dev/shm."""
    return {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}


def labels(job: Job) -> dict[str, str]:
    """Kubernetes' recommended labels for all objects of the job. `INSTANCE_LABEL` identifies the job.

    The recommended label for a version is left out, because only the image knows its version.
    """
    return {
        "app.kubernetes.io/name": "busbw",
        INSTANCE_LABEL: job.name,
        "app.kubernetes.io/component": PurePath(job.program).name,
        "app.kubernetes.io/part-of": "busbw",
        "app.kubernetes.io/managed-by": "busbw-launch",
    }
