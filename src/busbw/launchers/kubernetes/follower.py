"""Follows one job in the cluster: creates it, explains waits, forwards the leader pod's log, and deletes the job."""

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

_POLL_S = 1.0
_POLL_RUNNING_S = 5.0
_PODS_PER_S = 100
_TICK_S = 0.25
_LOG_END_S = 5.0
"""How long a log may stay open after its container has ended."""
_GRACE_S = 20.0
"""Grace period after a process failed. The others detect a lost process within 10 s and end by themselves."""
_CANCEL_S = 40.0
"""How long a canceled job is followed. A deleted pod has 30 s to end."""
_MISSING_LIMIT_S = 10.0
"""How long the leader pod may be missing from the list before it counts as lost."""
_SILENCE_LIMIT_S = 15.0
_SLOW_DELETE_S = 2.0
"""A longer deletion is shown as a status."""
_TAIL_LINES = 20
_MAX_FAILED_SHOWN = 16
_CANCELLING = "interrupted: canceling the job; Ctrl-C again exits at once"


class JobFollower:
    """Runs one job and tracks its progress."""

    def __init__(
        self,
        target: KubernetesTarget,
        job_manifests: Manifests,
        program: str,
        callbacks: LaunchCallbacks,
        received: Sequence[int],
    ) -> None:
        self._target = target
        self._job_manifests = job_manifests
        self._program = program.encode()
        self._callbacks = callbacks
        self._received = received
        self._client = KubectlClient(target, self._on_call_tick, received)
        self._wait_explainer = WaitExplainer(target, job_manifests, self._client, callbacks)
        self._loss_detector = LossDetector(target.pending_limit_s)
        self._reader: LogReader | None = None
        self._kind = str(job_manifests.workload["kind"]).lower()
        self._name = str(job_manifests.workload["metadata"]["name"])
        self._pods: tuple[objects.Pod, ...] = ()
        self._seen_leader: objects.Pod | None = None
        self._leader_missing_since_s: float | None = None
        self._failed_since_s: float | None = None
        self._silent_since_s: float | None = None
        self._canceled_at_s: float | None = None
        self._failed_code: int | None = None
        """Exit code of the failed process that caused the others to be canceled."""
        self._is_created = False
        self._is_deleted = False

    def run(self) -> int:
        """Creates, follows and deletes the job, and returns its exit code.

        Raises:
            BusbwError: The cluster rejects the job, or the job can never start.
        """
        try:
            self._create()
            code = self._follow()
        except BrokenPipeError:
            code = ExitCode.OUTPUT_CLOSED  # the reader closed, so the job is deleted
        except BusbwError:
            if not self._received:
                raise
            code = ExitCode.INTERRUPTED  # the interrupt explains the error
        finally:
            self._callbacks.on_status("")
            if not self._target.keep or self._received:
                self._remove()
        return SIGNALLED + self._received[0] if self._received else self._failed_code or code

    def _create(self) -> None:
        self._callbacks.on_status(
            f"waiting for the cluster to accept the {self._job_manifests.workload['kind']} {self._name}"
        )
        created = self._client.create([suspended(self._job_manifests)])
        self._is_created = True
        uid = str(created["metadata"]["uid"])
        self._client.create([owned_by(one, self._job_manifests.workload, uid) for one in self._job_manifests.owned])
        change = resumption(self._job_manifests)
        if self._kind == "job" and "backoffLimitPerIndex" not in created["spec"]:
            # Kubernetes before 1.29 drops that field. This limit ends the job at the first failure instead of a retry.
            change["spec"]["backoffLimit"] = 0
        if change and not self._target.queue:  # a queue resumes the job itself
            self._client.patch(self._kind, self._name, change)

    def _follow(self) -> int:
        poll_at_s = 0.0
        ended_at_s: float | None = None
        try:
            while True:
                self._callbacks.on_wait()
                now_s = monotonic()
                self._cancel_if_interrupted()
                if self._canceled_at_s is not None and (
                    len(self._received) > 1 or now_s > self._canceled_at_s + _CANCEL_S
                ):
                    return ExitCode.INTERRUPTED
                if now_s >= poll_at_s:
                    self._update_pods()
                    poll_at_s = monotonic() + self._poll_interval_s()
                leader, reader = self._leader_pod(), self._reader
                if leader is None and self._is_leader_missing():
                    return self._report_lost()
                if leader is not None and self._canceled_at_s is None and self._silent_since_s is None:
                    text = self._loss_detector.lost_reason(leader, reader, monotonic())
                    if text:
                        return self._report_lost(text)
                if leader is None or not status.has_started(leader):
                    if self._canceled_at_s is not None:
                        return ExitCode.INTERRUPTED
                    if leader is not None and status.has_ended(leader):
                        return self._report_lost()
                    sleep(_TICK_S)
                    continue
                if reader is None:
                    reader = self._reader = LogReader(self._target, leader.metadata.name)
                    reader.connect(follow=True)
                if status.has_ended(leader):
                    ended_at_s = ended_at_s or monotonic()
                    if not reader.is_connected or monotonic() > ended_at_s + _LOG_END_S:
                        self._read_rest(reader)
                        return self._final_exit_code(leader, reader)
                if reader.is_connected:
                    self._forward_lines(reader.lines(_TICK_S))
                    if not reader.is_connected:
                        poll_at_s = 0.0  # its container may have ended
                elif reader.is_due():
                    reader.connect(follow=True)
                else:
                    sleep(_TICK_S)
        finally:
            if self._reader is not None:
                self._reader.disconnect()

    def _poll_interval_s(self) -> float:
        """Returns the time to the next poll. Large jobs are polled less often: a list of 1000 pods is megabytes."""
        is_running = self._all_started() and self._reader is not None and self._reader.is_connected
        return max(_POLL_RUNNING_S if is_running else _POLL_S, self._job_manifests.pods / _PODS_PER_S)

    def _update_pods(self) -> None:
        """Fetches the pods, explains the current wait, and ends a job with a lost process."""
        try:
            found = self._client.get(objects.PodList, "pods", "-l", f"{INSTANCE}={self._name}").items
        except RefusedError as refused:
            self._silent_since_s = self._silent_since_s or monotonic()
            self._callbacks.on_status(f"waiting: {refused.what}")
            if monotonic() > self._silent_since_s + max(self._target.pending_limit_s, _SILENCE_LIMIT_S):
                raise
            return
        except InterruptedCallError:
            return  # the job is canceled next
        self._silent_since_s = None
        self._pods = found
        if self._canceled_at_s is None:
            self._wait_explainer.explain(found, suspicion_text(self._leader_pod(), self._reader))
            self._end_on_lost_peer()

    def _end_on_lost_peer(self) -> None:
        """Ends a job if one process failed and the others do not end by themselves."""
        leader = self._leader_pod()
        failed = [pod for pod in self._pods if status.has_ended(pod) and status.exit_code(pod) != 0]
        if not failed or leader is None or status.has_ended(leader):
            self._failed_since_s = None
            return
        self._failed_since_s = self._failed_since_s or monotonic()
        if monotonic() > self._failed_since_s + _GRACE_S:
            self._report_failed(failed)
            self._failed_code = max((status.exit_code(pod) or 0 for pod in failed), default=0) or ExitCode.RANK_LOST
            self._canceled_at_s = monotonic()
            self._print_error(f"the other processes did not end by themselves within {_GRACE_S:.0f} s and are canceled")
            self._delete()

    def _final_exit_code(self, leader: objects.Pod, reader: LogReader) -> int:
        """Returns the job's exit code after process 0 ended. Waits for the other processes first."""
        if problem := status.never_ran(leader):
            raise BusbwError(problem.text, remedy=problem.remedy)
        code = status.exit_code(leader)
        if text := status.end_message(leader):
            self._print_error(f"pod {leader.metadata.name} ended: {text}")
        end_s = monotonic() + _GRACE_S
        while monotonic() < end_s and not self._received:
            others = [pod for pod in self._pods if not self._is_leader(pod)]
            if self._kind == "mpijob" or all(status.has_ended(pod) for pod in others):
                break
            self._callbacks.on_status("waiting: the other processes are ending")
            self._callbacks.on_wait()
            sleep(_TICK_S)
            with suppress(RefusedError):
                self._pods = self._client.get(objects.PodList, "pods", "-l", f"{INSTANCE}={self._name}").items
        failed = [pod for pod in self._pods if not self._is_leader(pod) and status.exit_code(pod) not in (0, None)]
        if self._kind != "mpijob":
            self._report_failed(failed)  # mpirun of an MPIJob has forwarded their output
        if code is None:
            return ExitCode.RANK_LOST
        if code == 0 and not reader.is_complete:
            return ExitCode.ENVIRONMENT
        return code or max((status.exit_code(pod) or 0 for pod in failed), default=0)

    def _report_lost(self, text: str = "") -> int:
        """Reports a leader pod without an exit code: evicted, preempted, deleted, or its node is lost."""
        if self._canceled_at_s is not None:
            return ExitCode.RANK_LOST
        if self._reader is not None:
            with suppress(BusbwError):
                self._read_rest(self._reader)
        leader = self._seen_leader
        name = leader.metadata.name if leader else f"of process 0 of {self._name}"
        text = text or (status.end_message(leader) if leader else "") or "it was deleted, or its node is lost"
        self._print_error(f"the pod {name} was lost: {text}")
        return ExitCode.RANK_LOST

    def _leader_pod(self) -> objects.Pod | None:
        leader = status.leader_pod(self._pods)
        if leader is not None:
            self._seen_leader, self._leader_missing_since_s = leader, None
        return leader

    def _is_leader(self, pod: objects.Pod) -> bool:
        return self._seen_leader is not None and pod.metadata.name == self._seen_leader.metadata.name

    def _is_leader_missing(self) -> bool:
        if self._seen_leader is None:
            return False
        self._leader_missing_since_s = self._leader_missing_since_s or monotonic()
        return self._canceled_at_s is not None or monotonic() > self._leader_missing_since_s + _MISSING_LIMIT_S

    def _all_started(self) -> bool:
        return len(self._pods) >= self._job_manifests.pods and all(status.has_started(pod) for pod in self._pods)

    def _cancel_if_interrupted(self) -> None:
        if self._received and self._canceled_at_s is None:
            self._canceled_at_s = monotonic()
            self._callbacks.on_status(_CANCELLING)
            self._delete()

    def _on_call_tick(self, verb: str, elapsed_s: float) -> None:
        """Shows a status while a kubectl call is slow."""
        if self._received:
            self._callbacks.on_status(_CANCELLING)
        elif verb == "delete" and elapsed_s > _SLOW_DELETE_S:
            self._callbacks.on_status(
                f"waiting for the cluster to delete the {self._job_manifests.workload['kind']} {self._name}"
            )
        self._callbacks.on_wait()

    def _read_rest(self, reader: LogReader) -> None:
        """Reads the rest of the log after the connection ended or was lost."""
        reader.disconnect()
        reader.connect(follow=False)
        end_s = monotonic() + _SILENCE_LIMIT_S
        while reader.is_connected and monotonic() < end_s and len(self._received) < 2:
            self._forward_lines(reader.lines(_TICK_S))
            self._callbacks.on_wait()
        reader.disconnect()
        if not reader.is_complete:
            self._print_error(
                f"the log of process 0 may be incomplete: {reader.error_text or 'the API server did not send it'}"
            )

    def _forward_lines(self, lines: Sequence[bytes]) -> None:
        """Separates stdout and stderr, which a container's log mixes: lines of stderr begin with the program's name."""
        if lines:
            self._loss_detector.on_line()
        for line in lines:
            if self._callbacks.on_error and line.startswith(self._program + b": "):
                self._callbacks.on_error(line, 0 if self._kind != "mpijob" else None)
            else:
                self._callbacks.on_line(line)

    def _report_failed(self, failed: Sequence[objects.Pod]) -> None:
        """Prints the end reason and the last log lines of failed processes other than 0."""
        for pod in failed[:_MAX_FAILED_SHOWN]:
            name = pod.metadata.name
            if text := status.end_message(pod):
                self._print_error(f"pod {name} ended: {text}")
            result = self._client.run("logs", name, "-c", CONTAINER, f"--tail={_TAIL_LINES}")
            if result.code == 0 and self._callbacks.on_error:
                for line in result.out.splitlines(keepends=True):
                    self._callbacks.on_error(line, status.index_of(pod))
        if len(failed) > _MAX_FAILED_SHOWN:
            self._print_error(f"{len(failed) - _MAX_FAILED_SHOWN} more pods failed; use --keep to read their logs")

    def _print_error(self, sentence: str) -> None:
        if self._callbacks.on_error:
            self._callbacks.on_error(f"busbw: {sentence}\n".encode(), None)

    def _delete(self) -> None:
        self._client.delete(self._kind, self._name)
        self._is_deleted = True

    def _remove(self) -> None:
        if self._is_deleted:
            return
        try:
            self._delete()
        except BusbwError as error:
            if not self._is_created:
                return  # the error of its creation is reported already
            namespace = f" -n {self._target.namespace}" if self._target.namespace else ""
            self._print_error(f"{error.what}; remove it by hand: kubectl{namespace} delete {self._kind} {self._name}")
