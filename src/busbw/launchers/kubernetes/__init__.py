"""Starts the job in a Kubernetes cluster, with one pod per node and without ssh or MPI between the pods.

Pods find process 0 by its pod's name in a headless Service. The token is in a Secret. The workload (an Indexed Job, a
JobSet or an MPIJob) is created first, suspended if its kind allows it. The Secret and the Service follow, with the
workload as their owner; then the workload is resumed. Deleting the workload therefore deletes everything, and the user
needs no right to read or change Secrets.
"""

from dataclasses import dataclass, field

from busbw.errors import UsageError
from busbw.launchers.job.job import Command, Job, LaunchCallbacks, LaunchPlan, redact_token
from busbw.launchers.kubernetes import kubectl
from busbw.launchers.kubernetes.follower import JobFollower
from busbw.launchers.kubernetes.manifests import Manifests, build_manifests, resume_patch
from busbw.launchers.kubernetes.pods import CONTAINER, INSTANCE_LABEL
from busbw.launchers.kubernetes.target import KubernetesTarget, has_fixed_content
from busbw.support.secret_variables import REDACTED
from busbw.support.termination_signals import collected_signals

_CREATION_COMMENT = """\
# The final objects. To create them with `kubectl apply -f -`, replace <token> with a token of your own{secrets}.
# busbw launch creates the {kind} first{suspended}, then the rest with it as their owner{resumed}:"""
_POLL_COMMENT = """\
# It polls the pods until the job ends (also events and nodes while a pod waits), and reads the log of process 0:"""
_DELETION_COMMENT = "# At the end or after an interrupt, it deletes the {kind}, and with it the rest:"


@dataclass(frozen=True, kw_only=True)
class KubernetesPlan(LaunchPlan):
    """Launch plan with the objects of a job and their target cluster."""

    target: KubernetesTarget
    job_manifests: Manifests = field(repr=False)
    program: str
    """Name of the program without its folder. Its lines of stderr begin with this name."""
    commands: tuple[Command, ...]
    """In this order: creates the workload, creates the objects that it owns, and resumes it if no queue does that."""
    poll_commands: tuple[Command, ...]
    """Commands that observe the job while it runs."""

    def text(self) -> str:
        """The objects as YAML, with the commands as comments."""
        import yaml  # slow to import, and only a dry run needs it

        lines = [f"# {remark}" for remark in self.remarks]
        kind = self.job_manifests.workload["kind"]
        is_suspended = self.job_manifests.starts_suspended
        lines.append(
            _CREATION_COMMENT.format(
                kind=kind,
                secrets=self._secrets_text(),
                suspended=", suspended" if is_suspended else "",
                resumed=", and resumes it" if is_suspended else "",
            )
        )
        create_workload, create_owned, *resume_workload = self.commands
        lines += [f"#   {create_workload.text()}  # the {kind}", f"#   {create_owned.text()}  # the rest"]
        lines += [f"#   {command.text()}" for command in resume_workload]
        lines += [_POLL_COMMENT, *(f"#   {command.text()}" for command in self.poll_commands)]
        if self.cleanup:
            lines += [_DELETION_COMMENT.format(kind=kind), *(f"#   {command.text()}" for command in self.cleanup)]
        objects = [*self.job_manifests.owned, self.job_manifests.workload]
        # Shows the final objects. The objects as sent do not work by hand: the workload is suspended, and the owner's
        # UID is unknown.
        documents = yaml.safe_dump_all(objects, sort_keys=False, explicit_start=True, width=110)
        return redact_token("\n".join([*lines, documents.rstrip("\n")]), self.token)

    def _secrets_text(self) -> str:
        """Text for the comment on the objects if variables of --env are hidden. Empty otherwise."""
        secret = next(manifest for manifest in self.job_manifests.owned if manifest["kind"] == "Secret")
        return f", and {REDACTED} with your values" if REDACTED in secret["stringData"].values() else ""


def render(job: Job, target: KubernetesTarget) -> KubernetesPlan:
    """Returns the objects and commands of the job.

    Raises:
        UsageError: The workload kind does not support several processes per node.
    """
    if job.processes_per_node != 1 and target.kind != "mpijob":
        raise UsageError(
            f"{job.processes_per_node} processes per node need --workload-kind mpijob: "
            f"with {target.kind} a pod is one process",
            remedy=f"use one process with {job.processes_per_node} ranks (-t), or --workload-kind mpijob",
        )
    job_manifests = build_manifests(job, target)
    kind = job_manifests.workload["kind"].lower()
    create = kubectl.limited_command(target, *kubectl.CREATE_ARGUMENTS)
    commands = [Command(create), Command(create)]  # the workload, and the objects that it owns
    if job_manifests.starts_suspended and not target.queue:  # a queue resumes the job itself
        resume = kubectl.patch_arguments(kind, job.name, resume_patch())
        commands.append(Command(kubectl.limited_command(target, *resume)))
    list_pods = ("get", "pods", "-l", f"{INSTANCE_LABEL}={job.name}", "-o", "json")
    follow_log = ("logs", "POD", "-c", CONTAINER, "--timestamps", "-f")
    delete = Command(kubectl.limited_command(target, *kubectl.delete_arguments(kind, job.name)))
    return KubernetesPlan(
        commands=tuple(commands),
        poll_commands=(
            Command(kubectl.limited_command(target, *list_pods)),
            Command(kubectl.command(target, *follow_log)),
        ),
        cleanup=() if target.keep else (delete,),
        remarks=(*_image_remarks(target), *_capability_remarks(target)),
        token=job.token,
        target=target,
        job_manifests=job_manifests,
        program=str(job.program).rpartition("/")[2],
    )


def _image_remarks(target: KubernetesTarget) -> tuple[str, ...]:
    """Warns that an image may differ between nodes and between runs."""
    if has_fixed_content(target.image):
        return ()
    return (f"{target.image} may be another image on each node; use --image NAME:TAG or NAME@sha256:DIGEST",)


def _capability_remarks(target: KubernetesTarget) -> tuple[str, ...]:
    """Warns that capabilities of a container have an effect only for processes of root."""
    runs_as_root = target.run_as_user == 0 and target.kind != "mpijob"
    if not target.capabilities or runs_as_root:
        return ()
    names = " and ".join(target.capabilities)
    lock_hint = ""
    if "IPC_LOCK" in target.capabilities:
        lock_hint = "; to lock memory as another user, set LimitMEMLOCK=infinity for the nodes' container runtime"
    if target.kind == "mpijob":
        return (
            f"{names}: has an effect only if the image's sshd starts processes as root; busbw's does not{lock_hint}",
        )
    user = "the image's user (1000 in busbw's image)"
    if target.run_as_user is not None:
        user = f"user {target.run_as_user}"
    return (f"{names}: has an effect only for root (--run-as-user 0), not for {user}{lock_hint}",)


def submit(plan: KubernetesPlan, callbacks: LaunchCallbacks) -> int:
    """Runs the job to its end and returns its exit code.

    Raises:
        BusbwError: The cluster rejects the job, or the job can never start. Unless `keep` is set, it is deleted.
    """
    kubectl.require_kubectl()
    with collected_signals() as received:
        return JobFollower(plan.target, plan.job_manifests, plan.program, callbacks, received).run()


__all__ = ["KubernetesPlan", "KubernetesTarget", "render", "submit"]
