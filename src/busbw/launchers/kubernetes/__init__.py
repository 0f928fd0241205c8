"""Starts the job in a Kubernetes cluster: one pod on each node, found by name, with no ssh and no MPI between them.

Process 0 is found by its pod's name in a headless Service; the token travels in a Secret. The workload (an Indexed Job
unless JobSet or MPIJob is asked for) is created first, suspended, then the Secret and the Service with the workload as
their owner, and then it is let go: so nothing is ever left that one delete of the workload would not remove, and who
launches needs no right to read or change a Secret.
"""

from dataclasses import dataclass, field

from busbw.errors import UsageError
from busbw.launchers.job.job import Command, Job, LaunchCallbacks, LaunchPlan, redact_token
from busbw.launchers.kubernetes import kubectl
from busbw.launchers.kubernetes.follower import JobFollower
from busbw.launchers.kubernetes.manifests import (
    Manifests,
    manifests,
    owned_by,
    patch_text,
    resumption,
    suspension,
)
from busbw.launchers.kubernetes.pods import CONTAINER, INSTANCE
from busbw.launchers.kubernetes.signal_log import logged_signals
from busbw.launchers.kubernetes.target import KubernetesTarget

_ORDER = """\
# The objects as they are in the end; `kubectl apply -f -` takes them, with a token of yours in place of <token>.
# busbw launch creates the {kind} first{how}, then the rest with it as their owner{then}:"""
_WATCHED = """\
# It looks at the pods until all is done (and at events and nodes while a pod waits), and reads the log of process 0:"""
_UID_SHOWN = "<uid>"
"""The cluster gives it when it takes the workload."""
_REMOVED = "# In the end, or when it is interrupted, it deletes the {kind}, and with it the rest:"


@dataclass(frozen=True, kw_only=True)
class KubernetesPlan(LaunchPlan):
    """A job's objects, and the cluster that they are for."""

    where: KubernetesTarget
    made: Manifests = field(repr=False)
    program: str
    watched: tuple[Command, ...]
    """How it is looked at while it runs."""

    def text(self) -> str:
        """The objects as YAML, and as comments what is run."""
        import yaml  # only a dry run waits for it

        lines = [f"# {remark}" for remark in self.remarks]
        kind = self.made.workload["kind"]
        start = (
            {"how": ", suspended", "then": ", and lets it start"} if self.made.suspend_path else {"how": "", "then": ""}
        )
        lines.append(_ORDER.format(kind=kind, **start))
        lines += [f"#   {command.text()}{what}" for command, what in zip(self.commands, self._sent(), strict=False)]
        lines += [f"#   {command.text()}" for command in self.commands[2:]]
        lines += [_WATCHED, *(f"#   {command.text()}" for command in self.watched)]
        if self.cleanup:
            lines += [_REMOVED.format(kind=kind), *(f"#   {command.text()}" for command in self.cleanup)]
        objects = [*self.made.owned, self.made.workload]
        # As they are in the end: applied as they are sent, one stays suspended, the others go for want of an owner.
        documents = yaml.safe_dump_all(objects, sort_keys=False, explicit_start=True, width=110)
        return redact_token("\n".join([*lines, documents.rstrip("\n")]), self.token)

    def _sent(self) -> tuple[str, str]:
        """What the objects have besides when they are created."""
        kind = self.made.workload["kind"]
        extra = f", with {patch_text(suspension(self.made))}" if self.made.suspend_path else ""
        (owner, *_) = owned_by(self.made.owned[0], self.made.workload, _UID_SHOWN)["metadata"]["ownerReferences"]
        owned = {"metadata": {"ownerReferences": [owner]}}
        return f"  # the {kind}{extra}", f"  # the rest, each with {patch_text(owned)}"


def render(job: Job, where: KubernetesTarget) -> KubernetesPlan:
    """The objects of the job.

    Raises:
        UsageError: It cannot be had of that kind of object.
    """
    if job.processes_per_node != 1 and where.kind != "mpijob":
        raise UsageError(
            f"{job.processes_per_node} processes per node need --workload-kind mpijob: "
            f"with {where.kind} a pod is one process",
            remedy=f"give one process {job.processes_per_node} ranks with -t, or use --workload-kind mpijob",
        )
    made = manifests(job, where)
    kind = made.workload["kind"].lower()
    selector = f"{INSTANCE}={job.name}"
    change = resumption(made)
    resumed = change and not where.queue
    sent = (kubectl.CREATE, kubectl.CREATE, *((kubectl.patch(kind, job.name, change),) if resumed else ()))
    look = ("get", "pods", "-l", selector, "-o", "json")
    follow = ("logs", "POD", "-c", CONTAINER, "--timestamps", "-f")
    return KubernetesPlan(
        commands=tuple(Command(kubectl.request(where, *words)) for words in sent),
        watched=(Command(kubectl.request(where, *look)), Command(kubectl.command(where, *follow))),
        cleanup=() if where.keep else (Command(kubectl.request(where, *kubectl.delete(kind, job.name))),),
        remarks=_remarks(where),
        token=job.token,
        where=where,
        made=made,
        program=str(job.program).rpartition("/")[2],
    )


def _remarks(where: KubernetesTarget) -> tuple[str, ...]:
    """What a container gets by capabilities, only a process of root has: nothing hands them on to another user."""
    if not where.capabilities or (where.run_as_user == 0 and where.kind != "mpijob"):
        return ()
    names = " and ".join(where.capabilities)
    locked = (
        "; for others to lock memory, have the nodes' container runtime run with LimitMEMLOCK=infinity"
        if "IPC_LOCK" in where.capabilities
        else ""
    )
    if where.kind == "mpijob":
        return (
            f"{names}: has an effect only where the image's sshd starts processes as root; busbw's does not{locked}",
        )
    whose = f"user {where.run_as_user}" if where.run_as_user is not None else "the image's user, 1000 in busbw's own"
    return (f"{names}: has an effect only for root (--run-as-user 0), and none for {whose}{locked}",)


def submit(rendered: KubernetesPlan, watch: LaunchCallbacks) -> int:
    """Runs it to its end and returns the exit code of process 0.

    Raises:
        BusbwError: The cluster refuses it, or it can never start; nothing of it stays there.
    """
    kubectl.check_kubectl()
    with logged_signals() as received:
        return JobFollower(rendered.where, rendered.made, rendered.program, watch, received).run()


__all__ = ["KubernetesPlan", "KubernetesTarget", "render", "submit"]
