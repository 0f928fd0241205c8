"""Calls the cluster's API through kubectl, so that the user's kubeconfig applies: contexts, proxies and login plugins.

A dry run shows these calls literally, except calls that only explain a wait or a failure.
"""

import json
import math
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeVar

import msgspec

from busbw.errors import BusbwError, UsageError
from busbw.launchers.kubernetes.target import KubernetesTarget

KUBECTL = "kubectl"
_TICK_S = 0.25
"""Interval between checks for signals and limits during a call."""
_REQUEST_LIMIT_S = 20
"""Limit of one request, which kubectl itself applies."""
_CALL_LIMIT_S = 60.0
"""Limit of a call. It exceeds the limit of the request, because a login plugin may prompt the user before."""
_INTERRUPTED_LIMIT_S = 5.0
"""Limit of a call during an interrupt, because the deletion of the job must follow soon."""
_SECOND_SIGNAL_LIMIT_S = 1.0
"""Limit of a call after a second interrupt. It suffices for a cluster that responds."""
_PIPE_CLOSE_LIMIT_S = 1.0
"""How long to wait until the pipes of a killed kubectl close. A process outside its group may have inherited them."""

Decoded = TypeVar("Decoded")

# Parts of kubectl's messages, each with a remedy; the first match applies.
_REMEDIES = (
    (
        ("no matches for kind", "doesn't have a resource type"),
        "install the operator of this kind, or use --workload-kind job",
    ),
    (
        ("(Forbidden)", "is forbidden"),
        "request the rights in deploy/kubernetes/role.yaml, or use another --namespace or --context",
    ),
    (
        ("(Unauthorized)", "You must be logged in", "getting credentials"),
        "log in again, until `kubectl get pods` works",
    ),
    (("does not exist",), "choose a context from `kubectl config get-contexts`"),
    (("namespaces",), "use an existing --namespace, or create it: kubectl create namespace NAME"),
    (
        ("was refused", "connection refused", "no such host", "Unable to connect"),
        "choose a cluster with --context, or check that it can be reached: kubectl cluster-info",
    ),
    (("no configuration has been provided",), "set KUBECONFIG, or choose a cluster with --context"),
)

_NOTICE = re.compile(r"Warning:|[IWEF]\d{4} \d\d:")
"""Start of a line that is no error of the command: a warning, or a line of kubectl's log such as "W1121 08:16:41"."""
_ERROR_PREFIX = re.compile(
    r"^(?:error: |Error from server(?: \(\w+\))?: )?(?:error validating .*failed to download openapi: )?"
)
"""Beginning of an error message without information for the user, such as "Error from server (NotFound): "."""


class RefusedError(BusbwError):
    """The cluster or kubectl itself rejected a call, or did not answer in time or as expected."""


class InterruptedCallError(BusbwError):
    """A call was abandoned because it did not end soon after a signal."""


@dataclass(frozen=True)
class KubectlResult:
    """Exit code and output of a kubectl call."""

    code: int
    out: bytes
    err: str

    @property
    def error_line(self) -> str:
        """The last line of stderr that is no notice, without its prefix. Without such a line, the exit code."""
        lines = [line for line in self.err.splitlines() if line.strip() and not _NOTICE.match(line)]
        text = lines[-1] if lines else f"kubectl ended with {self.code}"
        # After a validation error, kubectl explains how to ignore such errors. This advice does not help here.
        return _ERROR_PREFIX.sub("", text).partition("; if you choose to ignore")[0].strip()


def command(target: KubernetesTarget, *arguments: str) -> tuple[str, ...]:
    """Returns a kubectl command line with the job's context and namespace."""
    context = ("--context", target.context) if target.context else ()
    namespace = ("--namespace", target.namespace) if target.namespace else ()
    return (KUBECTL, *context, *namespace, *arguments)


def limited_command(target: KubernetesTarget, *arguments: str) -> tuple[str, ...]:
    """Returns a command line as `command` does, with a time limit for the request."""
    return (*command(target, *arguments), f"--request-timeout={_REQUEST_LIMIT_S}s")


CREATE_ARGUMENTS = ("create", "-f", "-", "-o", "json")
"""Arguments that create the objects on stdin."""


def patch_arguments(kind: str, name: str, change: dict[str, Any]) -> tuple[str, ...]:
    """Returns arguments that merge a change into an object."""
    return ("patch", kind, name, "--type=merge", "-p", json.dumps(change, separators=(",", ":")), "-o", "name")


def delete_arguments(kind: str, name: str) -> tuple[str, ...]:
    """Returns arguments that delete an object and everything that it owns. A missing object is no error."""
    return ("delete", kind, name, "--ignore-not-found", "--cascade=background", "--wait=false")


def start_kubectl(call: Sequence[str], *, stdin: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
    """Starts kubectl in its own process group.

    Ctrl-C then reaches only this program, which handles the job. `kill_kubectl` also kills processes that kubectl has
    started.
    """
    return subprocess.Popen(call, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def kill_kubectl(process: "subprocess.Popen[bytes]") -> bytes:
    """Kills kubectl with its children, and returns its unread stderr. Waits up to 2 s if others keep its pipes open."""
    if process.returncode is None:  # not reaped yet, so the group ID is not reused
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=_PIPE_CLOSE_LIMIT_S)[1]
    except subprocess.TimeoutExpired as timeout:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PIPE_CLOSE_LIMIT_S)
        return timeout.stderr or b""


def require_kubectl() -> None:
    """Raises BusbwError if kubectl is not installed."""
    if not shutil.which(KUBECTL):
        raise BusbwError(
            "kubectl is not in the PATH",
            remedy="install it (https://kubernetes.io/docs/tasks/tools), or use --dry-run",
        )


class KubectlClient:
    """Runs kubectl calls, reports slow calls, and abandons them after signals.

    Args:
        target: The cluster.
        on_tick: Called while a call runs, with its verb and the seconds since its start.
        received: The signals received so far. After the first one, calls other than a deletion end within seconds.
            After the second one, a deletion ends as well.
    """

    def __init__(
        self, target: KubernetesTarget, on_tick: Callable[[str, float], None], received: Sequence[int]
    ) -> None:
        self.target = target
        self._on_tick = on_tick
        self._received = received

    def create(self, manifests: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Creates objects and returns the last one as the cluster stored it."""
        text = "\n".join(json.dumps(manifest) for manifest in manifests)
        output = self._checked_output(self.run(*CREATE_ARGUMENTS, stdin=text), "create the job")
        last_object: dict[str, Any] = {}
        # kubectl prints the objects one after another, not as a list.
        decoder, remaining = json.JSONDecoder(), output.decode()
        while remaining:
            last_object, end = decoder.raw_decode(remaining)
            remaining = remaining[end:].lstrip()
        return last_object

    def patch(self, kind: str, name: str, change: dict[str, Any]) -> None:
        """Merges a change into an object."""
        self._checked_output(self.run(*patch_arguments(kind, name, change)), "change the job")

    def delete(self, kind: str, name: str) -> None:
        """Deletes an object and everything that it owns. A missing object is no error."""
        self._checked_output(self.run(*delete_arguments(kind, name)), "delete the job")

    def get(self, result_type: type[Decoded], kind: str, *arguments: str) -> Decoded:
        """Returns objects of a kind.

        Args:
            result_type: Type of the decoded answer, such as `objects.PodList`.
            kind: Kind of the objects, such as "pods".
            arguments: Further arguments of `kubectl get`.

        Raises:
            RefusedError: The cluster does not answer, or its answer has another form.
        """
        output = self._checked_output(self.run("get", kind, *arguments, "-o", "json"), f"list {kind}")
        try:
            return msgspec.json.decode(output, type=result_type)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RefusedError(
                f"kubectl get {kind} printed unexpected output: {error}", remedy="run it by hand"
            ) from error

    def run(self, *arguments: str, stdin: str = "") -> KubectlResult:
        """Runs kubectl to its end and returns its result, also if it failed.

        Raises:
            RefusedError: The call exceeds its limit.
            InterruptedCallError: The call exceeds the shorter limit after a signal.
        """
        process = start_kubectl(limited_command(self.target, *arguments), stdin=subprocess.PIPE)
        start_s = monotonic()
        input_bytes: bytes | None = stdin.encode()
        try:
            while True:
                try:
                    out, err = process.communicate(input_bytes, timeout=_TICK_S)
                    return KubectlResult(process.returncode, out, err.decode(errors="replace"))
                except subprocess.TimeoutExpired:
                    input_bytes = None  # the next call of `communicate` continues to send the input
                    elapsed_s = monotonic() - start_s
                    self._on_tick(arguments[0], elapsed_s)
                    self._raise_if_over_limit(arguments, elapsed_s)
        finally:
            if process.returncode is None:
                kill_kubectl(process)

    def _raise_if_over_limit(self, arguments: Sequence[str], elapsed_s: float) -> None:
        """Raises if a call exceeds its limit."""
        message = f"kubectl did not answer within {elapsed_s:.0f} s: {' '.join(arguments[:3])}"
        if elapsed_s > self._interrupted_limit_s(arguments[0]):
            raise InterruptedCallError(message, remedy="list what remains: kubectl get all")
        if elapsed_s > _CALL_LIMIT_S:
            raise RefusedError(message, remedy="check that the cluster can be reached: kubectl cluster-info")

    def _interrupted_limit_s(self, verb: str) -> float:
        """Returns the limit of a call after the signals so far. Infinite if they do not shorten the call."""
        if len(self._received) > 1:
            return _SECOND_SIGNAL_LIMIT_S
        return _INTERRUPTED_LIMIT_S if self._received and verb != "delete" else math.inf

    def _checked_output(self, result: KubectlResult, action: str) -> bytes:
        """Returns stdout, or raises the error with a remedy. `action` completes "the cluster cannot ..."."""
        if result.code == 0:
            return result.out
        remedy = next(
            (remedy for patterns, remedy in _REMEDIES if any(pattern in result.err for pattern in patterns)),
            "run the command by hand: see --dry-run",
        )
        if "strict decoding error" in result.err or "is invalid" in result.err:
            raise UsageError(f"the cluster cannot {action}: {result.error_line}", remedy="correct the options")
        raise RefusedError(f"the cluster cannot {action}: {result.error_line}", remedy=remedy)
