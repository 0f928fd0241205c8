"""Decides when the leader pod counts as lost although the cluster still lists it, because its node is silent.

The leader pod is that of process 0, or the one that runs mpirun. A disconnected node cannot report the end of its pods,
so the cluster keeps listing them.
"""

from busbw.launchers.kubernetes import objects, status
from busbw.launchers.kubernetes.log_reader import LogReader

_MAX_FAILURES = 3
"""Failed log connections after which a pod in deletion counts as lost. A live kubelet serves a log until the pod is
gone."""


class LossDetector:
    """Tracks how long the leader pod's node has been silent."""

    def __init__(self, pending_limit_s: int) -> None:
        """Creates a detector. `pending_limit_s`: maximum silence of the node; 0: no limit."""
        self._pending_limit_s = pending_limit_s
        self._silent_since_s: float | None = None

    def on_line(self) -> None:
        """Notes a log line: the pod is alive."""
        self._silent_since_s = None

    def lost_reason(self, pod: objects.Pod, reader: LogReader | None, now_s: float) -> str:
        """Returns the reason why the pod is lost, or the empty string if it may be alive.

        A pod is lost if the cluster says so, or if the silence of its node exceeds the limit. A pod in deletion is
        lost if its log cannot be read.

        Args:
            pod: The current state of the pod.
            reader: Reader of the pod's log. None before the log exists.
            now_s: Time of the monotonic clock.
        """
        if status.has_ended(pod):
            return ""
        unreachable_text = status.unreachable_message(pod)
        if status.is_node_lost(pod):
            return unreachable_text
        failures = reader.failures if reader else 0
        if pod.metadata.deletion_timestamp and failures >= _MAX_FAILURES:
            return unreachable_text or f"it is being deleted, and node {pod.spec.node_name} does not serve its log"
        if not unreachable_text:
            self._silent_since_s = None
            return ""
        if self._silent_since_s is None:
            self._silent_since_s = now_s
        has_limit = self._pending_limit_s > 0
        if has_limit and now_s > self._silent_since_s + self._pending_limit_s:
            return unreachable_text
        return ""


def suspicion_text(pod: objects.Pod | None, reader: LogReader | None) -> str:
    """Status text for a pod that may be lost. Empty without a sign of loss."""
    if pod is None or status.has_ended(pod):
        return ""
    if unreachable := status.unreachable_message(pod):
        return f"pod {pod.metadata.name}: {unreachable}"
    if reader is not None and reader.failures and not reader.is_connected:
        return f"the log of pod {pod.metadata.name} cannot be read: {reader.error_text or 'kubectl gives no reason'}"
    if pod.metadata.deletion_timestamp:
        return f"pod {pod.metadata.name} is being deleted"
    return ""
