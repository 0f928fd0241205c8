"""When the pod of process 0 counts as lost although the cluster still lists it: its node has gone silent.

A node that is cut off cannot say that its pods ended, and the cluster, which waits for that word, lists them for ever.
"""

from busbw.launchers.kubernetes import objects, status
from busbw.launchers.kubernetes.log_reader import LogReader

_FAILURES = 3
"""A kubelet that is there serves the log of a pod that is being deleted until the pod is gone."""


class LossDetector:
    """What speaks for a loss, and since when."""

    def __init__(self, patience_s: int) -> None:
        self._patience_s = patience_s
        self._silent_since_s: float | None = None

    def on_line(self) -> None:
        """Its log brought a line, so it lives."""
        self._silent_since_s = None

    def lost_reason(self, pod: objects.Pod, reading: LogReader | None, now_s: float) -> str:
        """Why it is lost; empty as long as it may not be.

        Args:
            pod: As the cluster lists it now.
            reading: Of its log; None where that has not begun.
            now_s: Of the monotonic clock.
        """
        if status.has_ended(pod):
            return ""
        unreachable = status.unreachable_message(pod)
        if status.is_node_lost(pod):
            return unreachable
        failures = reading.failures if reading else 0
        if pod.metadata.deletion_timestamp and failures >= _FAILURES:
            return unreachable or f"it is being deleted, and node {pod.spec.node_name} does not give its log"
        if not unreachable:
            self._silent_since_s = None
            return ""
        if self._silent_since_s is None:
            self._silent_since_s = now_s
        is_over = self._patience_s and now_s > self._silent_since_s + self._patience_s
        return unreachable if is_over else ""


def suspicion_text(pod: objects.Pod | None, reading: LogReader | None) -> str:
    """What is waited for while it may be lost; empty when nothing speaks for that."""
    if pod is None or status.has_ended(pod):
        return ""
    if unreachable := status.unreachable_message(pod):
        return f"pod {pod.metadata.name}: {unreachable}"
    if reading is not None and reading.failures and not reading.is_connected:
        return f"the log of pod {pod.metadata.name} cannot be read: {reading.words or 'kubectl does not say why'}"
    if pod.metadata.deletion_timestamp:
        return f"pod {pod.metadata.name} is being deleted"
    return ""
