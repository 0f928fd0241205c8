"""Creates the workload of a job in the cluster, with the objects that it owns, and deletes it."""

from busbw.errors import BusbwError
from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.kubernetes.kubectl import KubectlClient
from busbw.launchers.kubernetes.manifests import Manifests, created_workload, resume_patch, with_owner
from busbw.launchers.kubernetes.target import KubernetesTarget


class Workload:
    """The Job, JobSet or MPIJob of one job."""

    def __init__(
        self, target: KubernetesTarget, manifests: Manifests, client: KubectlClient, callbacks: LaunchCallbacks
    ) -> None:
        self._target = target
        self._manifests = manifests
        self._client = client
        self._callbacks = callbacks
        self._is_created = False
        self._is_deleted = False
        self.kind = str(manifests.workload["kind"]).lower()
        self.name = str(manifests.workload["metadata"]["name"])
        self.title = f"{manifests.workload['kind']} {self.name}"
        """Kind and name for messages."""

    def create(self) -> None:
        """Creates the workload, then the objects that it owns. Resumes it if it is suspended and no queue does that."""
        self._callbacks.on_status(f"waiting for the cluster to accept the {self.title}")
        created = self._client.create([created_workload(self._manifests)])
        self._is_created = True
        uid = str(created["metadata"]["uid"])
        self._client.create([with_owner(manifest, self._manifests.workload, uid) for manifest in self._manifests.owned])
        resumes = self._manifests.starts_suspended and not self._target.queue
        changes = resume_patch()["spec"] if resumes else {}
        if self.kind == "job" and "backoffLimitPerIndex" not in created["spec"]:
            # Kubernetes before 1.29 drops that field. This limit ends the job at the first failure instead of a retry.
            changes["backoffLimit"] = 0
        if changes:
            self._client.patch(self.kind, self.name, {"spec": changes})

    def delete(self) -> None:
        """Deletes the workload with the objects that it owns."""
        self._client.delete(self.kind, self.name)
        self._is_deleted = True

    def delete_if_left(self) -> None:
        """Deletes the workload unless it was deleted before. Reports a failed deletion."""
        if self._is_deleted:
            return
        try:
            self.delete()
        except BusbwError as error:
            if not self._is_created:
                return  # the error of its creation is reported instead
            namespace = f" -n {self._target.namespace}" if self._target.namespace else ""
            self._callbacks.print_error(
                f"{error.problem}; remove it by hand: kubectl{namespace} delete {self.kind} {self.name}"
            )
