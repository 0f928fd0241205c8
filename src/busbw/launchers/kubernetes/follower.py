"""Follows one job in the cluster from its creation to its deletion: lists its pods and decides its exit code.

The leader pod is that of process 0, or the one that runs mpirun (MPIJob). Its log is the output of the job. The job's
exit code is that of the leader pod or, if that is 0, of another process that failed.
"""

import signal
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic, sleep

from busbw.errors import SIGNALLED, BusbwError, ExitCode
from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.kubernetes import objects, status
from busbw.launchers.kubernetes.kubectl import InterruptedCallError, KubectlClient, RefusedError
from busbw.launchers.kubernetes.leader_log import TICK_S, LeaderLog
from busbw.launchers.kubernetes.log_reader import LogReader
from busbw.launchers.kubernetes.loss_detector import LossDetector, suspicion_text
from busbw.launchers.kubernetes.manifests import Manifests
from busbw.launchers.kubernetes.pods import CONTAINER, INSTANCE_LABEL
from busbw.launchers.kubernetes.target import KubernetesTarget
from busbw.launchers.kubernetes.wait_explainer import WaitExplainer
from busbw.launchers.kubernetes.workload import Workload

_STARTING_POLL_S = 1.0
"""Interval between lists of the pods while they start."""
_RUNNING_POLL_S = 5.0
"""Interval between lists of the pods while all run."""
_PODS_PER_S = 100
"""Maximum rate at which pods are listed. For large jobs it determines the interval between lists."""
_LOG_END_S = 5.0
"""How long a log may stay open after its container has ended."""
_GRACE_S = 20.0
"""Grace period of the others after a process ended. They learn of it from closed connections and end by themselves."""
_CANCEL_S = 40.0
"""How long a canceled job is followed. A deleted pod has 30 s to end."""
_MISSING_LIMIT_S = 10.0
"""How long the leader pod may be missing from the list before it counts as lost."""
_SILENCE_LIMIT_S = 15.0
"""Limit for the silence of the API server. The target's `pending_limit_s` applies instead if it is longer."""
_SLOW_DELETE_S = 2.0
"""Duration after which an unfinished deletion is shown as a status."""
_TAIL_LINES = 20
"""Number of last log lines that are shown for a failed pod."""
_MAX_FAILED_SHOWN = 16
"""Maximum number of failed pods that are shown."""
_TERMINATED = SIGNALLED + signal.SIGTERM
"""Exit code of a program that the cluster ended."""
_CANCEL_STATUS = "interrupted: canceling the job; Ctrl-C again exits at once"


class JobFollower:
    """Runs one job and tracks its progress. `received`: signals that this process has received so far."""

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
        self._callbacks = callbacks
        self._received = received
        self._client = KubectlClient(target, self._on_call_tick, received)
        self._wait_explainer = WaitExplainer(target, job_manifests, self._client, callbacks)
        self._loss_detector = LossDetector(target.pending_limit_s)
        self._workload = Workload(target, job_manifests, self._client, callbacks)
        self._has_mpirun = self._workload.kind == "mpijob"
        self._log = LeaderLog(target, program, callbacks, received, self._loss_detector, has_mpirun=self._has_mpirun)
        self._pods: tuple[objects.Pod, ...] = ()
        self._seen_leader: objects.Pod | None = None
        """Last known state of the leader pod. None before its creation."""
        self._leader_missing_since_s: float | None = None
        self._leader_ended_at_s: float | None = None
        self._poll_at_s = 0.0
        """Time of the next list of the pods."""
        self._failed_since_s: float | None = None
        """Time since which a failed process is known while the leader still runs. None if there is no such process."""
        self._server_silent_since_s: float | None = None
        """Time since which the API server does not answer. None while it answers."""
        self._canceled_at_s: float | None = None
        """Time at which the job was deleted because of a signal or of failed processes. None before."""
        self._failed_code: int | None = None
        """Exit code of a job that was canceled because processes failed; `run` prefers it. None otherwise."""

    def run(self) -> int:
        """Creates, follows and deletes the job, and returns its exit code.

        Raises:
            BusbwError: The cluster rejects the job, or the job can never start.
        """
        try:
            self._workload.create()
            code = self._follow()
        except BrokenPipeError:
            code = ExitCode.OUTPUT_CLOSED  # the reader of busbw's output closed
        except BusbwError:
            if not self._received:
                raise
            code = ExitCode.INTERRUPTED  # the interrupt explains the error
        finally:
            self._callbacks.on_status("")
            if not self._target.keep or self._received:
                self._workload.delete_if_left()
        if self._received:
            return SIGNALLED + self._received[0]
        return self._failed_code or code

    def _follow(self) -> int:
        """Forwards the log until the job has ended, and returns the exit code."""
        try:
            while True:
                self._callbacks.on_wait()
                now_s = monotonic()
                self._cancel_if_interrupted()
                if self._is_cancel_over(now_s):
                    return ExitCode.INTERRUPTED
                if now_s >= self._poll_at_s:
                    self._update_pods()
                    self._poll_at_s = monotonic() + self._poll_interval_s()
                code = self._advance(self._leader_pod())
                if code is not None:
                    return code
        finally:
            if self._log.reader is not None:
                self._log.reader.disconnect()

    def _advance(self, leader: objects.Pod | None) -> int | None:
        """Forwards the log of the leader pod, or waits for the pod. Returns the exit code if the job has ended."""
        code = self._lost_exit_code(leader)
        if code is not None:
            return code
        if leader is not None and status.has_started(leader):
            return self._follow_leader(leader)
        return self._wait_for_leader(leader)

    def _wait_for_leader(self, leader: objects.Pod | None) -> int | None:
        """Waits for `TICK_S`, or returns the exit code if the leader's program will not start."""
        if self._canceled_at_s is not None:
            return ExitCode.INTERRUPTED
        if leader is not None and status.has_ended(leader):
            return self._report_lost()
        sleep(TICK_S)
        return None

    def _follow_leader(self, leader: objects.Pod) -> int | None:
        """Forwards new lines of the log. Returns the exit code of the job after the leader and its log have ended."""
        reader = self._log.open(leader.metadata.name)
        if status.has_ended(leader):
            self._leader_ended_at_s = self._leader_ended_at_s or monotonic()
            if not reader.is_connected or monotonic() > self._leader_ended_at_s + _LOG_END_S:
                self._log.read_rest(reader)
                return self._final_exit_code(leader, reader)
        was_connected = reader.is_connected
        self._log.forward(reader)
        if was_connected and not reader.is_connected:
            self._poll_at_s = 0.0  # lists the pods now, because the leader's container may have ended
        return None

    def _is_cancel_over(self, now_s: float) -> bool:
        """True if a canceled job is no longer followed: after `_CANCEL_S`, or after a second signal."""
        if self._canceled_at_s is None:
            return False
        return len(self._received) > 1 or now_s > self._canceled_at_s + _CANCEL_S

    def _lost_exit_code(self, leader: objects.Pod | None) -> int | None:
        """Reports a lost leader pod and returns the exit code. None if the pod may be alive or does not exist yet."""
        if leader is None:
            return self._report_lost() if self._is_leader_missing() else None
        # A canceled pod is being deleted, and a silent API server leaves the pod's status outdated. Neither is a loss.
        if self._canceled_at_s is None and self._server_silent_since_s is None:
            reason = self._loss_detector.lost_reason(leader, self._log.reader, monotonic())
            if reason:
                return self._report_lost(reason)
        return None

    def _poll_interval_s(self) -> float:
        """Returns the time to the next poll. Large jobs are polled less often: a list of 1000 pods is megabytes."""
        is_running = self._all_started() and self._log.reader is not None and self._log.reader.is_connected
        return max(_RUNNING_POLL_S if is_running else _STARTING_POLL_S, self._job_manifests.pod_count / _PODS_PER_S)

    def _update_pods(self) -> None:
        """Lists the pods, explains the current wait, and ends a job with a failed process."""
        try:
            listed = self._list_pods()
        except RefusedError as refused:
            self._server_silent_since_s = self._server_silent_since_s or monotonic()
            self._callbacks.on_status(f"waiting: {refused.problem}")
            if monotonic() > self._server_silent_since_s + max(self._target.pending_limit_s, _SILENCE_LIMIT_S):
                raise
            return
        except InterruptedCallError:
            return  # because of a signal, for which `_follow` cancels the job next
        self._server_silent_since_s = None
        self._pods = listed
        if self._canceled_at_s is None:
            self._wait_explainer.explain(listed, suspicion_text(self._leader_pod(), self._log.reader))
            self._delete_on_failed_process()

    def _list_pods(self) -> tuple[objects.Pod, ...]:
        return self._client.get(objects.PodList, "pods", "-l", f"{INSTANCE_LABEL}={self._workload.name}").items

    def _failed_pods(self) -> list[objects.Pod]:
        """Pods that ended without exit code 0. An evicted pod may have no exit code."""
        return [pod for pod in self._pods if status.has_ended(pod) and status.exit_code(pod) != 0]

    def _delete_on_failed_process(self) -> None:
        """Deletes the job if a process failed and the others do not end by themselves."""
        leader = self._leader_pod()
        failed = self._failed_pods()
        if not failed or leader is None or status.has_ended(leader):
            self._failed_since_s = None
            return
        self._failed_since_s = self._failed_since_s or monotonic()
        if monotonic() > self._failed_since_s + _GRACE_S:
            self._report_failed(failed)
            self._failed_code = _max_exit_code(failed) or ExitCode.RANK_LOST
            self._canceled_at_s = monotonic()
            self._callbacks.print_error(
                f"the other processes did not end by themselves within {_GRACE_S:.0f} s and are canceled"
            )
            self._workload.delete()

    def _final_exit_code(self, leader: objects.Pod, reader: LogReader) -> int:
        """Returns the job's exit code after the leader pod ended.

        Waits for the other processes first. With MPIJob, mpirun has already waited for them.
        """
        if problem := status.find_start_problem(leader):
            raise BusbwError(problem.text, remedy=problem.remedy)
        code = status.exit_code(leader)
        if code == _TERMINATED and (message := self._deadline_message()):
            self._callbacks.print_error(message)
            return ExitCode.RANK_LOST
        if text := status.end_message(leader):
            self._callbacks.print_error(f"pod {leader.metadata.name} ended: {text}")
        if not self._has_mpirun:
            self._wait_for_others()
        failed = [pod for pod in self._failed_pods() if not self._is_leader(pod)]
        if not self._has_mpirun:  # mpirun has forwarded the output of the failed processes
            self._report_failed(failed)
        if code is None:
            return ExitCode.RANK_LOST
        if code == 0 and not reader.is_complete:
            return ExitCode.ENVIRONMENT  # rows may be missing
        return code or _max_exit_code(failed)

    def _wait_for_others(self) -> None:
        """Waits until the processes other than the leader have ended, at most for the grace period."""
        end_s = monotonic() + _GRACE_S
        while monotonic() < end_s and not self._received:
            if all(status.has_ended(pod) for pod in self._pods if not self._is_leader(pod)):
                return
            self._callbacks.on_status("waiting: the other processes are ending")
            self._callbacks.on_wait()
            sleep(TICK_S)
            with suppress(RefusedError):
                self._pods = self._list_pods()

    def _report_lost(self, reason: str = "") -> int:
        """Reports the loss of the leader pod and returns the exit code.

        `reason` is empty if the pod is not listed any more, or if it ended before its program started.
        """
        if self._canceled_at_s is not None:
            return ExitCode.RANK_LOST
        if self._log.reader is not None:
            with suppress(BusbwError):
                self._log.read_rest(self._log.reader)
        leader = self._seen_leader
        name = leader.metadata.name if leader else f"of process 0 of {self._workload.name}"
        end_message = status.end_message(leader) if leader else ""
        text = self._deadline_message() or reason or end_message or "it was deleted, or its node is lost"
        self._callbacks.print_error(f"the pod {name} was lost: {text}")
        return ExitCode.RANK_LOST

    def _deadline_message(self) -> str:
        """Message that the cluster ended the job at its time limit. Empty if the job did not reach this limit."""
        try:
            selector = ("--field-selector", "reason=DeadlineExceeded")
            events = self._client.get(objects.EventList, "events", *selector).items
        except BusbwError:
            return ""  # the lost pod is reported anyway
        return status.deadline_message(events, self._workload.name)

    def _leader_pod(self) -> objects.Pod | None:
        """Returns the leader pod from the last list of the pods, and stores it. None if it is not listed."""
        leader = status.leader_pod(self._pods)
        if leader is not None:
            self._seen_leader, self._leader_missing_since_s = leader, None
        return leader

    def _is_leader(self, pod: objects.Pod) -> bool:
        return self._seen_leader is not None and pod.metadata.name == self._seen_leader.metadata.name

    def _is_leader_missing(self) -> bool:
        """True if the leader pod has been missing for `_MISSING_LIMIT_S`, or at all in a canceled job.

        A leader pod that was never listed is not missing.
        """
        if self._seen_leader is None:
            return False
        self._leader_missing_since_s = self._leader_missing_since_s or monotonic()
        return self._canceled_at_s is not None or monotonic() > self._leader_missing_since_s + _MISSING_LIMIT_S

    def _all_started(self) -> bool:
        return len(self._pods) >= self._job_manifests.pod_count and all(status.has_started(pod) for pod in self._pods)

    def _cancel_if_interrupted(self) -> None:
        if self._received and self._canceled_at_s is None:
            self._canceled_at_s = monotonic()
            self._callbacks.on_status(_CANCEL_STATUS)
            self._workload.delete()

    def _on_call_tick(self, verb: str, elapsed_s: float) -> None:
        """Shows a status while a kubectl call is slow."""
        if self._received:
            self._callbacks.on_status(_CANCEL_STATUS)
        elif verb == "delete" and elapsed_s > _SLOW_DELETE_S:
            self._callbacks.on_status(f"waiting for the cluster to delete the {self._workload.title}")
        self._callbacks.on_wait()

    def _report_failed(self, failed: Sequence[objects.Pod]) -> None:
        """Prints the end reason and the last log lines of failed processes."""
        for pod in failed[:_MAX_FAILED_SHOWN]:
            name = pod.metadata.name
            if text := status.end_message(pod):
                self._callbacks.print_error(f"pod {name} ended: {text}")
            result = self._client.run("logs", name, "-c", CONTAINER, f"--tail={_TAIL_LINES}")
            if result.code == 0 and self._callbacks.on_error:
                for line in result.out.splitlines(keepends=True):
                    self._callbacks.on_error(line, status.index_of(pod))
        if len(failed) > _MAX_FAILED_SHOWN:
            self._callbacks.print_error(
                f"{len(failed) - _MAX_FAILED_SHOWN} more pods failed; use --keep to read their logs"
            )


def _max_exit_code(pods: Sequence[objects.Pod]) -> int:
    """Returns the largest exit code. 0 if no pod has one."""
    return max((status.exit_code(pod) or 0 for pod in pods), default=0)
