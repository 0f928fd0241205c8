"""One job in the cluster from its creation to its end: its waits are explained, its log is handed on, it is removed."""

from collections.abc import Sequence
from contextlib import suppress
from time import monotonic, sleep

from busbw.errors import SIGNALLED, BusbwError, ExitCode
from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.kubernetes import objects, status
from busbw.launchers.kubernetes.kubectl import InterruptedCallError, KubectlClient, RefusedError
from busbw.launchers.kubernetes.log_reader import LogReader
from busbw.launchers.kubernetes.loss_detector import LossDetector, suspicion_text
from busbw.launchers.kubernetes.manifests import Manifests, owned_by, resumption, suspended
from busbw.launchers.kubernetes.pods import CONTAINER, INSTANCE
from busbw.launchers.kubernetes.target import KubernetesTarget
from busbw.launchers.kubernetes.wait_explainer import WaitExplainer

_LOOK_S = 1.0
_LOOK_WHILE_RUNNING_S = 5.0
_PODS_PER_S = 100
_TICK_S = 0.25
_LOG_END_S = 5.0
"""How long a log may stay open after its container has ended."""
_GRACE_S = 20.0
"""How long processes may take to end by themselves after one has failed; they notice a lost one within 10 s."""
_CANCEL_S = 40.0
"""A pod that is deleted has 30 s to end."""
_GONE_S = 10.0
"""How long the pod of process 0 may be missing from the list before it counts as gone."""
_QUIET_S = 15.0
_SLOW_S = 2.0
"""A deletion that takes so long is named."""
_TAIL = 20
_FAILED_SHOWN = 16
_CANCELLING = "interrupted: the job is being cancelled; again leaves at once"


class JobFollower:
    """The job, and how far it has got."""

    def __init__(
        self, where: KubernetesTarget, made: Manifests, program: str, watch: LaunchCallbacks, received: Sequence[int]
    ) -> None:
        self._where = where
        self._made = made
        self._program = program.encode()
        self._watch = watch
        self._received = received
        self._calls = KubectlClient(where, self._on_call_tick, received)
        self._waiting = WaitExplainer(where, made, self._calls, watch)
        self._loss = LossDetector(where.pending_limit_s)
        self._reading: LogReader | None = None
        self._kind = str(made.workload["kind"]).lower()
        self._name = str(made.workload["metadata"]["name"])
        self._pods: tuple[objects.Pod, ...] = ()
        self._seen_head: objects.Pod | None = None
        self._head_missing_since_s: float | None = None
        self._failed_since_s: float | None = None
        self._silent_since_s: float | None = None
        self._cancelled_at_s: float | None = None
        self._failed_code: int | None = None
        """Of the process for whose sake the others were cancelled."""
        self._is_made = False
        self._is_deleted = False

    def run(self) -> int:
        """Creates it, follows it, removes it; the exit code of the job.

        Raises:
            BusbwError: The cluster refuses it, or it can never start.
        """
        try:
            self._create()
            code = self._follow()
        except BrokenPipeError:
            code = ExitCode.OUTPUT_CLOSED  # nobody reads what the job says: it goes on for no one
        except BusbwError:
            if not self._received:
                raise
            code = ExitCode.INTERRUPTED  # and what could not be done any more does not matter
        finally:
            self._watch.on_status("")
            if not self._where.keep or self._received:
                self._remove()
        return SIGNALLED + self._received[0] if self._received else self._failed_code or code

    def _create(self) -> None:
        self._watch.on_status(f"waiting for the cluster to take the {self._made.workload['kind']} {self._name}")
        made = self._calls.create([suspended(self._made)])
        self._is_made = True
        uid = str(made["metadata"]["uid"])
        self._calls.create([owned_by(one, self._made.workload, uid) for one in self._made.owned])
        change = resumption(self._made)
        if self._kind == "job" and "backoffLimitPerIndex" not in made["spec"]:
            # A cluster older than 1.29 has dropped it: there the first failure ends the job, rather than a new try.
            change["spec"]["backoffLimit"] = 0
        if change and not self._where.queue:  # a queue lets it start itself
            self._calls.patch(self._kind, self._name, change)

    def _follow(self) -> int:
        look_at_s = 0.0
        ended_at_s: float | None = None
        try:
            while True:
                self._watch.on_wait()
                now_s = monotonic()
                self._cancel_if_interrupted()
                if self._cancelled_at_s is not None and (
                    len(self._received) > 1 or now_s > self._cancelled_at_s + _CANCEL_S
                ):
                    return ExitCode.INTERRUPTED
                if now_s >= look_at_s:
                    self._look()
                    look_at_s = monotonic() + self._look_again_s()
                head, reading = self._leader_pod(), self._reading
                if head is None and self._is_gone():
                    return self._lost()
                if head is not None and self._cancelled_at_s is None and self._silent_since_s is None:
                    words = self._loss.lost_reason(head, reading, monotonic())
                    if words:
                        return self._lost(words)
                if head is None or not status.has_started(head):
                    if self._cancelled_at_s is not None:
                        return ExitCode.INTERRUPTED
                    if head is not None and status.has_ended(head):
                        return self._lost()
                    sleep(_TICK_S)
                    continue
                if reading is None:
                    reading = self._reading = LogReader(self._where, head.metadata.name)
                    reading.connect(follow=True)
                if status.has_ended(head):
                    ended_at_s = ended_at_s or monotonic()
                    if not reading.is_connected or monotonic() > ended_at_s + _LOG_END_S:
                        self._rest_of(reading)
                        return self._judge(head, reading)
                if reading.is_connected:
                    self._hand_on(reading.lines(_TICK_S))
                    if not reading.is_connected:
                        look_at_s = 0.0  # its container may have ended
                elif reading.is_due():
                    reading.connect(follow=True)
                else:
                    sleep(_TICK_S)
        finally:
            if self._reading is not None:
                self._reading.disconnect()

    def _look_again_s(self) -> float:
        """A list of a thousand pods is megabytes: it is asked for less often."""
        is_calm = self._all_started() and self._reading is not None and self._reading.is_connected
        return max(_LOOK_WHILE_RUNNING_S if is_calm else _LOOK_S, self._made.pods / _PODS_PER_S)

    def _look(self) -> None:
        """What the cluster says of the pods now, and what that means for the wait."""
        try:
            found = self._calls.get(objects.PodList, "pods", "-l", f"{INSTANCE}={self._name}").items
        except RefusedError as refused:
            self._silent_since_s = self._silent_since_s or monotonic()
            self._watch.on_status(f"waiting: {refused.what}")
            if monotonic() > self._silent_since_s + max(self._where.pending_limit_s, _QUIET_S):
                raise
            return
        except InterruptedCallError:
            return  # the job is cancelled next
        self._silent_since_s = None
        self._pods = found
        if self._cancelled_at_s is None:
            self._waiting.explain(found, suspicion_text(self._leader_pod(), self._reading))
            self._end_on_lost_peer()

    def _end_on_lost_peer(self) -> None:
        """Ends a job that waits in vain for a process that is gone, and cannot know."""
        head = self._leader_pod()
        failed = [pod for pod in self._pods if status.has_ended(pod) and status.exit_code(pod) != 0]
        if not failed or head is None or status.has_ended(head):
            self._failed_since_s = None
            return
        self._failed_since_s = self._failed_since_s or monotonic()
        if monotonic() > self._failed_since_s + _GRACE_S:
            self._say_failed(failed)
            self._failed_code = max((status.exit_code(pod) or 0 for pod in failed), default=0) or ExitCode.RANK_LOST
            self._cancelled_at_s = monotonic()
            self._say(f"the other processes did not end by themselves within {_GRACE_S:.0f} s and are cancelled")
            self._delete()

    def _judge(self, head: objects.Pod, reading: LogReader) -> int:
        """The exit code of the job whose process 0 has ended."""
        if trouble := status.never_ran(head):
            raise BusbwError(trouble.words, remedy=trouble.remedy)
        code = status.exit_code(head)
        if words := status.end_message(head):
            self._say(f"pod {head.metadata.name} ended: {words}")
        end_s = monotonic() + _GRACE_S
        while monotonic() < end_s and not self._received:
            others = [pod for pod in self._pods if not self._is_head(pod)]
            if self._kind == "mpijob" or all(status.has_ended(pod) for pod in others):
                break
            self._watch.on_status("waiting: the other processes are ending")
            self._watch.on_wait()
            sleep(_TICK_S)
            with suppress(RefusedError):
                self._pods = self._calls.get(objects.PodList, "pods", "-l", f"{INSTANCE}={self._name}").items
        failed = [pod for pod in self._pods if not self._is_head(pod) and status.exit_code(pod) not in (0, None)]
        if self._kind != "mpijob":
            self._say_failed(failed)  # with MPIJob mpirun has brought what they said
        if code is None:
            return ExitCode.RANK_LOST
        if code == 0 and not reading.is_whole:
            return ExitCode.ENVIRONMENT
        return code or max((status.exit_code(pod) or 0 for pod in failed), default=0)

    def _lost(self, words: str = "") -> int:
        """Process 0 is gone without having said how it ended: evicted, preempted, deleted, or its node is lost."""
        if self._cancelled_at_s is not None:
            return ExitCode.RANK_LOST
        if self._reading is not None:
            with suppress(BusbwError):
                self._rest_of(self._reading)
        head = self._seen_head
        name = head.metadata.name if head else f"of process 0 of {self._name}"
        words = words or (status.end_message(head) if head else "") or "it was deleted, or its node is lost"
        self._say(f"the pod {name} is gone: {words}")
        return ExitCode.RANK_LOST

    def _leader_pod(self) -> objects.Pod | None:
        head = status.leader_pod(self._pods)
        if head is not None:
            self._seen_head, self._head_missing_since_s = head, None
        return head

    def _is_head(self, pod: objects.Pod) -> bool:
        return self._seen_head is not None and pod.metadata.name == self._seen_head.metadata.name

    def _is_gone(self) -> bool:
        if self._seen_head is None:
            return False
        self._head_missing_since_s = self._head_missing_since_s or monotonic()
        return self._cancelled_at_s is not None or monotonic() > self._head_missing_since_s + _GONE_S

    def _all_started(self) -> bool:
        return len(self._pods) >= self._made.pods and all(status.has_started(pod) for pod in self._pods)

    def _cancel_if_interrupted(self) -> None:
        if self._received and self._cancelled_at_s is None:
            self._cancelled_at_s = monotonic()
            self._watch.on_status(_CANCELLING)
            self._delete()

    def _on_call_tick(self, verb: str, elapsed_s: float) -> None:
        """While a call takes its time."""
        if self._received:
            self._watch.on_status(_CANCELLING)
        elif verb == "delete" and elapsed_s > _SLOW_S:
            self._watch.on_status(f"waiting for the cluster to delete the {self._made.workload['kind']} {self._name}")
        self._watch.on_wait()

    def _rest_of(self, reading: LogReader) -> None:
        """What a connection that was lost has not brought."""
        reading.disconnect()
        reading.connect(follow=False)
        end_s = monotonic() + _QUIET_S
        while reading.is_connected and monotonic() < end_s and len(self._received) < 2:
            self._hand_on(reading.lines(_TICK_S))
            self._watch.on_wait()
        reading.disconnect()
        if not reading.is_whole:
            self._say(f"the log of process 0 may lack its end: {reading.words or 'the API server did not send it'}")

    def _hand_on(self, lines: Sequence[bytes]) -> None:
        """A container's log mixes both outputs: the program's sentences begin with its name, its table never does."""
        if lines:
            self._loss.on_line()
        for line in lines:
            if self._watch.on_error and line.startswith(self._program + b": "):
                self._watch.on_error(line, 0 if self._kind != "mpijob" else None)
            else:
                self._watch.on_line(line)

    def _say_failed(self, failed: Sequence[objects.Pod]) -> None:
        """The last words of processes other than 0."""
        for pod in failed[:_FAILED_SHOWN]:
            name = pod.metadata.name
            if words := status.end_message(pod):
                self._say(f"pod {name} ended: {words}")
            answer = self._calls.answer("logs", name, "-c", CONTAINER, f"--tail={_TAIL}")
            if answer.code == 0 and self._watch.on_error:
                for line in answer.out.splitlines(keepends=True):
                    self._watch.on_error(line, status.index_of(pod))
        if len(failed) > _FAILED_SHOWN:
            self._say(f"{len(failed) - _FAILED_SHOWN} more pods failed; --keep leaves them for kubectl logs")

    def _say(self, sentence: str) -> None:
        if self._watch.on_error:
            self._watch.on_error(f"busbw: {sentence}\n".encode(), None)

    def _delete(self) -> None:
        self._calls.delete(self._kind, self._name)
        self._is_deleted = True

    def _remove(self) -> None:
        if self._is_deleted:
            return
        try:
            self._delete()
        except BusbwError as error:
            if not self._is_made:
                return  # why it could not be made is being said
            where = f" -n {self._where.namespace}" if self._where.namespace else ""
            self._say(f"{error.what}; remove it by hand: kubectl{where} delete {self._kind} {self._name}")
