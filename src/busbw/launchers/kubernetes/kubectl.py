"""Talks to the cluster by kubectl.

So what a person's kubeconfig says of contexts, proxies, certificates and plugins that log in is true here too. A dry
run shows calls with the words that they are made with; it leaves out those that only explain a wait or a failure.
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
"""More than a request may take: a plugin that logs in may ask a person."""
_INTERRUPTED_LIMIT_S = 5.0
"""For a call during which the job was interrupted: what follows it, the deletion, must not wait for long."""
_SECOND_SIGNAL_LIMIT_S = 1.0
"""After a second interrupt: long enough for a deletion that a cluster takes, and no wait for one that it does not."""
_KILLED_S = 1.0
"""How long the pipes of a killed kubectl may take to close; one who inherited them may have left its group."""

Answered = TypeVar("Answered")

# What kubectl says, in part, and what a person can do about it; the first that fits.
_REMEDIES = (
    (
        ("no matches for kind", "doesn't have a resource type"),
        "the cluster lacks that kind: have its operator installed, or use --workload-kind job",
    ),
    (
        ("(Forbidden)", "is forbidden"),
        "ask for the rights in deploy/kubernetes/role.yaml, or use another --namespace or --context",
    ),
    (
        ("(Unauthorized)", "You must be logged in", "getting credentials"),
        "log in again; `kubectl get pods` must work first",
    ),
    (("does not exist",), "`kubectl config get-contexts` lists what there is"),
    (("namespaces",), "name one that is there with --namespace, or make it: kubectl create namespace NAME"),
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
    """The cluster, or kubectl itself, refused a call."""


class InterruptedCallError(BusbwError):
    """A signal came, and the call did not end soon after it."""


@dataclass(frozen=True)
class KubectlResult:
    """What a call came to."""

    code: int
    out: bytes
    err: str

    @property
    def error_line(self) -> str:
        """What kubectl says last, without what it puts before."""
        lines = [
            line for line in self.err.splitlines() if line.strip() and not line.startswith(("Warning:", "E1", "I1"))
        ]
        text = lines[-1] if lines else f"kubectl ended with {self.code}"
        return _PREAMBLE.sub("", text).partition("; if you choose to ignore")[0].strip()


def command(where: KubernetesTarget, *words: str) -> tuple[str, ...]:
    """A call of kubectl in the job's context and namespace."""
    context = ("--context", where.context) if where.context else ()
    namespace = ("--namespace", where.namespace) if where.namespace else ()
    return (KUBECTL, *context, *namespace, *words)


def request(where: KubernetesTarget, *words: str) -> tuple[str, ...]:
    """The same for a call that is answered at once: kubectl itself gives up a request that hangs."""
    return (*command(where, *words), f"--request-timeout={_REQUEST_LIMIT_S}s")


CREATE = ("create", "-f", "-", "-o", "json")
"""The words of a call that creates what it reads from stdin."""


def patch(kind: str, name: str, change: dict[str, Any]) -> tuple[str, ...]:
    """The words of one that merges a change into an object."""
    return ("patch", kind, name, "--type=merge", "-p", patch_text(change), "-o", "name")


def delete(kind: str, name: str) -> tuple[str, ...]:
    """The words of one that deletes an object, and with it all that it owns; fine when it is gone already."""
    return ("delete", kind, name, "--ignore-not-found", "--cascade=background", "--wait=false")


def start(call: Sequence[str], *, stdin: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
    """Runs kubectl in a process group of its own.

    Ctrl-C then reaches this program alone, which knows what to do about the job, and `end` reaches whatever kubectl
    has started.
    """
    return subprocess.Popen(call, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def end(process: "subprocess.Popen[bytes]") -> bytes:
    """Ends kubectl and what it started, and returns what is left of its stderr. Waits for nobody who holds a pipe."""
    if process.returncode is None:  # not reaped, so that the group's number is still its own
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
    """Raises a BusbwError where there is none."""
    if not shutil.which(KUBECTL):
        raise BusbwError(
            "there is no kubectl in PATH, and busbw talks to the cluster by it",
            remedy="install it (https://kubernetes.io/docs/tasks/tools); --dry-run works without",
        )


class KubectlClient:
    """Calls of the API, during which the one who waits is kept informed, and can leave.

    Args:
        where: The cluster.
        on_tick: Called while a call takes its time, with its verb and the seconds since its start.
        received: The signals that came so far. After the first a call ends within seconds, but for the deletion, which
            is what it asks for; after the second that, too.
    """

    def __init__(self, where: KubernetesTarget, on_tick: Callable[[str, float], None], received: Sequence[int]) -> None:
        self.where = where
        self._on_tick = on_tick
        self._received = received

    def create(self, manifests: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Creates objects and returns what the cluster made of the last one."""
        text = "\n".join(json.dumps(manifest) for manifest in manifests)
        created = self._good(self.answer(*CREATE, stdin=text), "create the job")
        document: dict[str, Any] = {}
        end, at = len(created), 0
        decoder, decoded = json.JSONDecoder(), created.decode()
        while at < end:
            document, at = decoder.raw_decode(decoded, at)
            at += len(decoded[at:]) - len(decoded[at:].lstrip())
        return document

    def patch(self, kind: str, name: str, change: dict[str, Any]) -> None:
        """Merges a change into an object."""
        self._good(self.answer(*patch(kind, name, change)), "let the job start")

    def delete(self, kind: str, name: str) -> None:
        """Deletes an object, and with it all that it owns; fine when it is gone already."""
        self._good(self.answer(*delete(kind, name)), "delete the job")

    def get(self, form: type[Answered], kind: str, *words: str) -> Answered:
        """Objects of a kind.

        Raises:
            RefusedError: The cluster does not answer, or not with those.
        """
        found = self._good(self.answer("get", kind, *words, "-o", "json"), f"look at the {kind}")
        try:
            return msgspec.json.decode(found, type=form)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RefusedError(
                f"kubectl get {kind} answered with something else: {error}", remedy="run it by hand"
            ) from error

    def answer(self, *words: str, stdin: str = "") -> KubectlResult:
        """Runs kubectl to its end.

        Raises:
            RefusedError: It does not end.
            InterruptedCallError: Nor does it soon after a signal.
        """
        process = start(request(self.where, *words), stdin=subprocess.PIPE)
        start_s = monotonic()
        given: bytes | None = stdin.encode()
        try:
            while True:
                try:
                    out, err = process.communicate(given, timeout=_TICK_S)
                    return KubectlResult(process.returncode, out, err.decode(errors="replace"))
                except subprocess.TimeoutExpired:
                    given = None
                    elapsed_s = monotonic() - start_s
                    self._on_tick(words[0], elapsed_s)
                    self._give_up(words, elapsed_s)
        finally:
            if process.returncode is None:
                end(process)

    def _give_up(self, words: Sequence[str], elapsed_s: float) -> None:
        """Raises when a call has taken too long."""
        what = f"kubectl did not answer within {elapsed_s:.0f} s: {' '.join(words[:3])}"
        if len(self._received) > 1 and elapsed_s > _SECOND_SIGNAL_LIMIT_S:
            raise InterruptedCallError(what, remedy="see what it left: kubectl get all")
        if self._received and words[0] != "delete" and elapsed_s > _INTERRUPTED_LIMIT_S:
            raise InterruptedCallError(what, remedy="see what it left: kubectl get all")
        if elapsed_s > _LIMIT_S:
            raise RefusedError(what, remedy="check that the cluster can be reached: kubectl cluster-info")

    def _good(self, answer: KubectlResult, what: str) -> bytes:
        if answer.code == 0:
            return answer.out
        remedy = next(
            (remedy for said, remedy in _REMEDIES if any(words in answer.err for words in said)),
            "run it by hand: see --dry-run",
        )
        if "strict decoding error" in answer.err or "is invalid" in answer.err:
            raise UsageError(f"the cluster cannot {what}: {answer.error_line}", remedy="correct what was asked for")
        raise RefusedError(f"the cluster cannot {what}: {answer.error_line}", remedy=remedy)
