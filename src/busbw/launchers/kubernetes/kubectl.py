"""Calls the cluster's API through kubectl.

So contexts, proxies, certificates and login plugins of the user's kubeconfig apply. A dry run shows these calls word
for word, except those that only explain a wait or a failure.
"""

import json
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
from busbw.launchers.kubernetes.manifests import patch_text
from busbw.launchers.kubernetes.target import KubernetesTarget

KUBECTL = "kubectl"
_TICK_S = 0.25
_REQUEST_LIMIT_S = 20
_LIMIT_S = 60.0
"""Limit of a call. It is longer than that of a request, because a login plugin may prompt the user."""
_INTERRUPTED_LIMIT_S = 5.0
"""Limit of a call during an interrupt, because the deletion of the job must follow soon."""
_SECOND_SIGNAL_LIMIT_S = 1.0
"""Limit of a call after a second interrupt: long enough for a cluster that responds."""
_KILLED_S = 1.0
"""How long to wait for the pipes of a killed kubectl. A process outside its group may have inherited them."""

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

_PREAMBLE = re.compile(
    r"^(?:error: |Error from server(?: \(\w+\))?: )?(?:error validating .*failed to download openapi: )?"
)


class RefusedError(BusbwError):
    """The cluster or kubectl itself rejected a call."""


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
        """The last line of stderr without its prefix."""
        lines = [
            line for line in self.err.splitlines() if line.strip() and not line.startswith(("Warning:", "E1", "I1"))
        ]
        text = lines[-1] if lines else f"kubectl ended with {self.code}"
        return _PREAMBLE.sub("", text).partition("; if you choose to ignore")[0].strip()


def command(target: KubernetesTarget, *words: str) -> tuple[str, ...]:
    """Returns a kubectl command line with the job's context and namespace."""
    context = ("--context", target.context) if target.context else ()
    namespace = ("--namespace", target.namespace) if target.namespace else ()
    return (KUBECTL, *context, *namespace, *words)


def request(target: KubernetesTarget, *words: str) -> tuple[str, ...]:
    """Returns a command line as `command` does, with a time limit for the request."""
    return (*command(target, *words), f"--request-timeout={_REQUEST_LIMIT_S}s")


CREATE = ("create", "-f", "-", "-o", "json")
"""Arguments that create the objects on stdin."""


def patch(kind: str, name: str, change: dict[str, Any]) -> tuple[str, ...]:
    """Returns arguments that merge a change into an object."""
    return ("patch", kind, name, "--type=merge", "-p", patch_text(change), "-o", "name")


def delete(kind: str, name: str) -> tuple[str, ...]:
    """Returns arguments that delete an object and everything that it owns. A missing object is no error."""
    return ("delete", kind, name, "--ignore-not-found", "--cascade=background", "--wait=false")


def start(call: Sequence[str], *, stdin: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
    """Starts kubectl in its own process group.

    Ctrl-C then reaches only this program, which handles the job. `end` also kills processes that kubectl has started.
    """
    return subprocess.Popen(call, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def end(process: "subprocess.Popen[bytes]") -> bytes:
    """Kills kubectl and its children and returns the rest of its stderr. Does not wait for other users of its pipes."""
    if process.returncode is None:  # not reaped yet, so the group ID is not reused
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=_KILLED_S)[1]
    except subprocess.TimeoutExpired as waited:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_KILLED_S)
        return waited.stderr or b""


def check_kubectl() -> None:
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
        After
            the second one, a deletion ends as well.
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
        created = self._checked_output(self.run(*CREATE, stdin=text), "create the job")
        document: dict[str, Any] = {}
        end, at = len(created), 0
        decoder, decoded = json.JSONDecoder(), created.decode()
        while at < end:
            document, at = decoder.raw_decode(decoded, at)
            at += len(decoded[at:]) - len(decoded[at:].lstrip())
        return document

    def patch(self, kind: str, name: str, change: dict[str, Any]) -> None:
        """Merges a change into an object."""
        self._checked_output(self.run(*patch(kind, name, change)), "resume the job")

    def delete(self, kind: str, name: str) -> None:
        """Deletes an object and everything that it owns. A missing object is no error."""
        self._checked_output(self.run(*delete(kind, name)), "delete the job")

    def get(self, form: type[Decoded], kind: str, *words: str) -> Decoded:
        """Returns objects of a kind.

        Raises:
            RefusedError: The cluster does not answer, or its answer has another form.
        """
        found = self._checked_output(self.run("get", kind, *words, "-o", "json"), f"list {kind}")
        try:
            return msgspec.json.decode(found, type=form)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RefusedError(
                f"kubectl get {kind} printed unexpected output: {error}", remedy="run it by hand"
            ) from error

    def run(self, *words: str, stdin: str = "") -> KubectlResult:
        """Runs kubectl to its end and returns its result.

        Raises:
            RefusedError: The call exceeds its limit.
            InterruptedCallError: The call exceeds the shorter limit after a signal.
        """
        process = start(request(self.target, *words), stdin=subprocess.PIPE)
        start_s = monotonic()
        input_bytes: bytes | None = stdin.encode()
        try:
            while True:
                try:
                    out, err = process.communicate(input_bytes, timeout=_TICK_S)
                    return KubectlResult(process.returncode, out, err.decode(errors="replace"))
                except subprocess.TimeoutExpired:
                    input_bytes = None
                    elapsed_s = monotonic() - start_s
                    self._on_tick(words[0], elapsed_s)
                    self._check_limit(words, elapsed_s)
        finally:
            if process.returncode is None:
                end(process)

    def _check_limit(self, words: Sequence[str], elapsed_s: float) -> None:
        """Raises if a call exceeds its limit."""
        message = f"kubectl did not answer within {elapsed_s:.0f} s: {' '.join(words[:3])}"
        if len(self._received) > 1 and elapsed_s > _SECOND_SIGNAL_LIMIT_S:
            raise InterruptedCallError(message, remedy="list what remains: kubectl get all")
        if self._received and words[0] != "delete" and elapsed_s > _INTERRUPTED_LIMIT_S:
            raise InterruptedCallError(message, remedy="list what remains: kubectl get all")
        if elapsed_s > _LIMIT_S:
            raise RefusedError(message, remedy="check that the cluster can be reached: kubectl cluster-info")

    def _checked_output(self, result: KubectlResult, action: str) -> bytes:
        if result.code == 0:
            return result.out
        remedy = next(
            (remedy for patterns, remedy in _REMEDIES if any(pattern in result.err for pattern in patterns)),
            "run the command by hand: see --dry-run",
        )
        if "strict decoding error" in result.err or "is invalid" in result.err:
            raise UsageError(f"the cluster cannot {action}: {result.error_line}", remedy="correct the options")
        raise RefusedError(f"the cluster cannot {action}: {result.error_line}", remedy=remedy)
