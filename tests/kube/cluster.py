"""A real Kubernetes control plane on loopback, without containers.

etcd, API server, controller manager, scheduler, kwok, the MPI operator and JobSet are each a process of ours, in a
folder of their own on free ports.

`python -m tests.kube.cluster` starts one, says where its kubeconfig is, and ends it with Ctrl-C.
"""

import base64
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
HANG_GUARD_S = 60.0

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
    "mpi-operator",
    "jobset",
)
ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
"""In front of a command: it does not outlive tests that are killed."""
PRETENDED = {"kwok.x-k8s.io/node": "fake"}
"""The annotation of nodes that kwok looks after."""


def built_in() -> Path:
    """Where tools/kube/build.sh put the programs and definitions."""
    return Path(os.environ.get("BUSBW_KUBE") or ROOT / "build" / "kube")


def missing() -> list[str]:
    """Names of programs that were not built."""
    there = built_in()
    return [name for name in PROGRAMS if not (there / "bin" / name).exists()] + (
        [] if (there / "share" / "complete").exists() else ["share"]
    )


def wait_until(condition: Callable[[], Any], what: str, limit_s: float = HANG_GUARD_S) -> Any:
    """The condition's first true answer."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if answer := condition():
            return answer
        time.sleep(0.05)
    raise AssertionError(f"waited {limit_s:.0f} s for {what}")


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """One control plane. `start` and `stop`, or use it in a `with`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.token = secrets.token_hex(16)
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._api_port = 0

    def __enter__(self) -> "Cluster":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._api_port}"

    def environment(self) -> dict[str, str]:
        """Environment in which kubectl, first our own, uses this cluster."""
        path = f"{built_in() / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": path, "HOME": str(self.folder)}

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        done = subprocess.run(
            [built_in() / "bin" / "kubectl", *arguments],
            env=self.environment(),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=HANG_GUARD_S,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout if done.returncode == 0 else done.stderr

    def objects(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        return list(json.loads(self.kubectl("get", kind, "-o", "json", *arguments))["items"])

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """One call of the API as the administrator; None when there is no such object."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": content_type},
        )
        try:
            with urllib.request.urlopen(request, context=_trusting(), timeout=HANG_GUARD_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in (404, 409):
                    return None
                raise AssertionError(f"{method} {path}: {error.read().decode()}") from error

    def start(self) -> None:
        """All of it, ready to take jobs."""
        etcd_port, peer_port, self._api_port, manager_port, scheduler_port, webhook_port, probe_port = free_ports(7)
        self._write_access()
        etcd, here = f"http://127.0.0.1:{etcd_port}", str(self.folder)
        peer = f"http://127.0.0.1:{peer_port}"
        self._spawn(
            "etcd",
            f"--data-dir={here}/etcd",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync=true",
        )
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._api_port}",
            f"--cert-dir={here}/certificates",
            f"--service-account-issuer={self.url}",
            f"--service-account-key-file={here}/accounts.key",
            f"--service-account-signing-key-file={here}/accounts.key",
            "--service-cluster-ip-range=10.96.0.0/24",
            f"--token-auth-file={here}/tokens.csv",
            "--authorization-mode=RBAC",
            "--endpoint-reconciler-type=none",
            "--kubelet-preferred-address-types=InternalIP",
        )
        wait_until(self._is_ready, f"the API server; its log is {here}/kube-apiserver.log")
        self._spawn(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            f"--service-account-private-key-file={here}/accounts.key",
            "--bind-address=127.0.0.1",
            f"--secure-port={manager_port}",
            f"--cert-dir={here}/certificates",
        )
        self._spawn(
            "kube-scheduler",
            f"--kubeconfig={self.kubeconfig}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={scheduler_port}",
            f"--cert-dir={here}/certificates",
        )
        share = built_in() / "share"
        definitions = [
            str(path) for path in sorted(share.glob("*.yaml")) if path.name.startswith(("mpijob", "jobset.x"))
        ]
        self.kubectl("apply", "--server-side", *(word for path in definitions for word in ("-f", path)))
        for kind in ("mpijobs.kubeflow.org", "jobsets.jobset.x-k8s.io"):
            wait_until(partial(self._is_served, kind), f"the kind {kind}")
        self._spawn(
            "kwok",
            f"--kubeconfig={self.kubeconfig}",
            "--manage-all-nodes=false",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--node-lease-duration-seconds=40",
            f"--config={share}/kwok-stages.yaml",
        )
        self.kubectl("create", "namespace", "mpi-operator")
        self._spawn("mpi-operator", f"-kubeConfig={self.kubeconfig}", "-monitoring-port=0")
        self._start_jobset(webhook_port, probe_port)
        wait_until(
            lambda: self.request("GET", "/api/v1/namespaces/default/serviceaccounts/default"),
            "the namespace's account",
        )

    def stop(self) -> None:
        """Ends every process that `start` began, the last one first."""
        for _, process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def add_node(self, name: str, *, annotations: dict[str, str], capacity: dict[str, str], **status: Any) -> None:
        """A node with these resources; `PRETENDED` as its annotations gives it into kwok's care."""
        resources = {"cpu": "64", "memory": "512Gi", "pods": "110", **capacity}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "annotations": annotations, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": resources, "capacity": resources, **status},
        }
        assert self.request("POST", "/api/v1/nodes", node)

    def _spawn(self, name: str, *arguments: str, environment: dict[str, str] | None = None) -> Path:
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*ENDS_WITH_US, built_in() / "bin" / name, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                start_new_session=True,  # Ctrl-C ends the tests, and they end these
            )
        self._processes.append((name, process))
        return log

    def _write_access(self) -> None:
        key = subprocess.run(["openssl", "genrsa", "2048"], capture_output=True, check=True).stdout
        _write_private(self.folder / "accounts.key", key)
        _write_private(self.folder / "tokens.csv", f'{self.token},admin,admin,"system:masters"\n'.encode())
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "current-context": "test",
        }
        _write_private(self.kubeconfig, yaml.safe_dump(config).encode())

    def _is_ready(self) -> bool:
        for name, process in self._processes:
            assert process.poll() is None, f"{name} ended: {(self.folder / f'{name}.log').read_text()[-2000:]}"
        try:
            request = urllib.request.Request(self.url + "/readyz", headers={"Authorization": f"Bearer {self.token}"})
            with urllib.request.urlopen(request, context=_trusting(), timeout=5) as answer:
                return bool(answer.read() == b"ok")
        except OSError:
            return False

    def _is_served(self, kind: str) -> bool:
        definition = self.request("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind}")
        conditions = definition.get("status", {}).get("conditions") or []
        return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)

    def _start_jobset(self, webhook_port: int, probe_port: int) -> None:
        # Its webhook server looks for its certificate in a folder of the temporary one.
        certificates = self.folder / "k8s-webhook-server" / "serving-certs"
        certificates.mkdir(parents=True)
        certificate, key = certificates / "tls.crt", certificates / "tls.key"
        make = (
            "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
        )
        subprocess.run([*make.split(), "-keyout", key, "-out", certificate], capture_output=True, check=True)
        authority = base64.b64encode(certificate.read_bytes()).decode()
        hooks = []
        for hook in yaml.safe_load_all((built_in() / "share" / "jobset-webhooks.yaml").read_text()):
            for one in hook["webhooks"]:
                path = one["clientConfig"].pop("service")["path"]
                one["clientConfig"] = {"url": f"https://127.0.0.1:{webhook_port}{path}", "caBundle": authority}
            # Those of pods only matter for exclusive placement and would be asked about every pod.
            hook["webhooks"] = [one for one in hook["webhooks"] if "pod" not in one["clientConfig"]["url"]]
            hooks.append(hook)
        config = {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "webhook": {"port": webhook_port},
        }
        path = self.folder / "jobset.yaml"
        path.write_text(yaml.safe_dump(config))
        log = self._spawn(
            "jobset",
            f"-kubeconfig={self.kubeconfig}",
            f"-config={path}",
            "-metrics-bind-address=0",
            f"-health-probe-bind-address=127.0.0.1:{probe_port}",
            environment={"TMPDIR": str(self.folder)},
        )
        wait_until(lambda: "Serving webhook server" in log.read_text(), f"JobSet; its log is {log}")
        self.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(hooks))


def _trusting() -> ssl.SSLContext:
    """The API server made its certificate itself, on this machine, a moment ago."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


@contextmanager
def temporary_cluster() -> Iterator[Cluster]:
    """A cluster that leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="busbw-kube-") as name, Cluster(Path(name)) as cluster:
        yield cluster


def main() -> None:
    if absent := missing():
        sys.exit(f"{built_in()} lacks {' '.join(absent)}: run tools/kube/build.sh")
    with temporary_cluster() as cluster:
        for number in range(3):
            cluster.add_node(f"gpu-{number}", annotations=PRETENDED, capacity={"nvidia.com/gpu": "8"})
        print(f"export KUBECONFIG={cluster.kubeconfig}   # three pretended nodes with 8 GPUs each; Ctrl-C ends it")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
