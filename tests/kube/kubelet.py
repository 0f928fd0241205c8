"""A kubelet for tests: runs the containers of pods as processes of this machine, each pod in a network of its own.

What a real one does and this does too: it keeps a node alive, resolves a container's environment with its Secrets and
fields, gives each pod an address, reports how far it has got, serves its log through the API server with stamps, and
ends it when it is deleted. Pods find each other's names by a DNS server over the cluster's EndpointSlices, as in a real
cluster. An image is only a name: the programs come from a folder. It needs root, for network namespaces.
"""

import base64
import os
import re
import secrets
import shutil
import signal
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .cluster import ENDS_WITH_US, Cluster
from .containers import Container, collect, done, now
from .pod_logs import LogServer
from .pod_names import DOMAIN, NameServer

Object = dict[str, Any]

_DROP_IN = Path("/etc/netns")


def can_run() -> str:
    """Why it cannot run here; empty when it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not shutil.which("ip"):
        return "there is no ip (iproute2)"
    name = f"bk{secrets.token_hex(3)}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        return "this kernel or container allows no network namespace"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return ""


@dataclass
class Sandbox:
    """A pod here: its network and its container."""

    uid: str
    address: str = ""
    network: str = ""
    container: Container | None = None
    pulls: int = 0
    reported: Object = field(default_factory=dict)
    killed_at_s: float | None = None


class Kubelet:
    """Nodes of a cluster that really run pods. Use it in a `with`."""

    def __init__(
        self,
        cluster: Cluster,
        programs: Sequence[Path],
        *,
        nodes: int,
        gpus: int = 0,
        files: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = cluster
        self.programs = programs
        self.files = files or {}
        """Files in /etc of every image, by path."""
        self.nodes = [f"real-{number}" for number in range(nodes)]
        self.node_files: dict[str, dict[str, str]] = {}
        """Further files in /etc of the pods of single nodes, by node and path."""
        self.gpus = gpus
        self._prefix = f"bk{secrets.token_hex(2)}"
        self._subnet = f"10.{100 + secrets.randbelow(100)}.{secrets.randbelow(256)}"
        self._sandboxes: dict[tuple[str, str], Sandbox] = {}
        self._made = 0
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._servers: list[socketserver.BaseServer] = []

    def __enter__(self) -> "Kubelet":
        _ip("link", "add", self._prefix, "type", "bridge")
        _ip("addr", "add", f"{self._subnet}.1/24", "dev", self._prefix)
        _ip("link", "set", self._prefix, "up")
        logs = self.logs = LogServer(("127.0.0.1", 0), self.container)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificates = self.cluster.folder / "k8s-webhook-server" / "serving-certs"
        context.load_cert_chain(certificates / "tls.crt", certificates / "tls.key")
        logs.socket = context.wrap_socket(logs.socket, server_side=True)
        names = NameServer((f"{self._subnet}.1", 53), self.cluster)
        self._servers = [logs, names]
        for server in self._servers:
            self._start(server.serve_forever)
        capacity = {"nvidia.com/gpu": str(self.gpus)} if self.gpus else {}
        for node in self.nodes:
            self.cluster.add_node(
                node,
                annotations={},
                capacity=capacity,
                addresses=[{"type": "InternalIP", "address": "127.0.0.1"}],
                daemonEndpoints={"kubeletEndpoint": {"Port": logs.server_address[1]}},
            )
        self._keep_alive()
        self._start(self._go_on)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()
        for thread in self._threads:
            thread.join(timeout=30)
        for sandbox in self._sandboxes.values():
            self._tear_down(sandbox)
        for node in self.nodes:
            self.cluster.request("DELETE", f"/api/v1/nodes/{node}")
        _ip("link", "del", self._prefix)

    def container(self, namespace: str, pod: str) -> Container | None:
        sandbox = self._sandboxes.get((namespace, pod))
        return sandbox.container if sandbox else None

    def process_of(self, suffix: str) -> "subprocess.Popen[bytes]":
        """The process of the only pod with this text in its name."""
        found = [
            sandbox.container.process
            for (_, name), sandbox in self._sandboxes.items()
            if suffix in name and sandbox.container and sandbox.container.process
        ]
        assert len(found) == 1, found
        return found[0]

    def _start(self, target: Any) -> None:
        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _keep_alive(self) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now()}
        for node in self.nodes:
            self._patch(f"/api/v1/nodes/{node}/status", {"status": {"conditions": [ready]}})
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": node},
                "spec": {
                    "holderIdentity": node,
                    "leaseDurationSeconds": 40,
                    "renewTime": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                },
            }
            leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
            if self.cluster.request("POST", leases, lease) is None:
                self._patch(f"{leases}/{node}", {"spec": lease["spec"]})

    def _patch(self, path: str, change: Object) -> None:
        self.cluster.request("PATCH", path, change, "application/merge-patch+json")

    def _go_on(self) -> None:
        alive_at_s = time.monotonic()
        while not self._stop.wait(0.1):
            if time.monotonic() > alive_at_s + 10:
                alive_at_s = time.monotonic()
                self._keep_alive()
            pods = self.cluster.request("GET", "/api/v1/pods")["items"]
            here = [pod for pod in pods if pod["spec"].get("nodeName") in self.nodes]
            for pod in here:
                self._look_after(pod)
            there = {pod["metadata"]["uid"] for pod in here}
            for key, sandbox in list(self._sandboxes.items()):
                if sandbox.uid not in there:
                    self._tear_down(sandbox)
                    del self._sandboxes[key]

    def _look_after(self, pod: Object) -> None:
        metadata = pod["metadata"]
        key = (metadata["namespace"], metadata["name"])
        sandbox = self._sandboxes.get(key)
        if sandbox is None or sandbox.uid != metadata["uid"]:
            if pod["status"].get("phase") in ("Succeeded", "Failed") or "deletionTimestamp" in metadata:
                self._delete(pod)
                return
            sandbox = self._sandboxes[key] = Sandbox(metadata["uid"])
            self._connect(sandbox, metadata["namespace"])
        container = sandbox.container
        if "deletionTimestamp" in metadata:
            self._end(sandbox, metadata.get("deletionGracePeriodSeconds", 30))
            if container is None or container.is_done:
                if container is not None:
                    self._tell(pod, sandbox, done(container))
                self._delete(pod)
            return
        if container is None:
            self._tell(pod, sandbox, self._begin(pod, sandbox))
        elif container.is_done:
            self._tell(pod, sandbox, done(container))
        else:
            self._tell(pod, sandbox, {"running": {"startedAt": container.started}})

    def _begin(self, pod: Object, sandbox: Sandbox) -> Object:
        """Starts the container, or says why it waits."""
        spec = pod["spec"]["containers"][0]
        if spec["image"].startswith("missing/"):
            sandbox.pulls += 1
            failed = f'failed to pull and unpack image "{spec["image"]}": not found'
            if sandbox.pulls % 20 < 5:
                return {"waiting": {"reason": "ErrImagePull", "message": failed}}
            return {"waiting": {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{spec["image"]}"'}}
        try:
            environment = self._environment(pod, spec)
            mounts = self._mounts(pod, sandbox)
        except LookupError as error:
            return {"waiting": {"reason": "CreateContainerConfigError", "message": str(error.args[0])}}
        words = [_expanded(word, environment) for word in [*spec.get("command", []), *spec.get("args", [])]]
        hostname = pod["spec"].get("hostname") or pod["metadata"]["name"]
        container = sandbox.container = Container(started=now())
        path = ":".join([*map(str, self.programs), "/usr/bin", "/bin", "/usr/sbin", "/sbin"])
        if not shutil.which(words[0], path=path):
            container.is_done, container.exit_code, container.reason = True, 128, "StartError"
            container.message = f'exec: "{words[0]}": executable file not found in $PATH'
            return done(container)
        script = " && ".join([*mounts, 'hostname "$0"', 'exec "$@"'])
        network = ("ip", "netns", "exec", sandbox.network)
        inside = [*ENDS_WITH_US, *network, "unshare", "--uts", "sh", "-c", script]
        container.process = subprocess.Popen(
            [*inside, hostname, *words],
            env={"PATH": path, "HOSTNAME": hostname, "HOME": "/", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
        )
        self._start(lambda: collect(container))
        return {"running": {"startedAt": container.started}}

    def _environment(self, pod: Object, spec: Object) -> dict[str, str]:
        found: dict[str, str] = {}
        for variable in spec.get("env", []):
            source = variable.get("valueFrom", {})
            if "secretKeyRef" in source:
                found[variable["name"]] = self._secret(pod["metadata"]["namespace"], source["secretKeyRef"])
            elif "fieldRef" in source:
                field = source["fieldRef"]["fieldPath"]
                path = re.fullmatch(r"metadata\.(annotations|labels)\['(.+)'\]", field)
                assert path or field == "spec.nodeName", source
                found[variable["name"]] = pod["metadata"][path[1]][path[2]] if path else pod["spec"]["nodeName"]
            else:
                found[variable["name"]] = _expanded(variable.get("value", ""), found)
        return found

    def _mounts(self, pod: Object, sandbox: Sandbox) -> list[str]:
        """Commands that give the pod its files: the image's own, and the Secrets and ConfigMaps that it mounts.

        Each is laid over what this machine has at that place, for the pod alone.
        """
        folder = self.cluster.folder / "pods" / sandbox.uid
        namespace = pod["metadata"]["namespace"]
        files = {**self.files, **self.node_files.get(pod["spec"]["nodeName"], {})}
        wanted = {f"/etc/{name}": text for name, text in files.items()}
        for name in ("resolv.conf", "hosts"):
            wanted[f"/etc/{name}"] = (_DROP_IN / sandbox.network / name).read_text()
        modes: dict[str, int] = {}
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        for mount in pod["spec"]["containers"][0].get("volumeMounts", []):
            for path, text, mode in self._volume(namespace, volumes[mount["name"]]):
                wanted[f"{mount['mountPath']}/{path}"], modes[f"{mount['mountPath']}/{path}"] = text, mode
        commands = []
        for top in sorted({Path(path).parts[1] for path in wanted}):
            upper, work = folder / top / "upper", folder / top / "work"
            for path, text in wanted.items():
                if Path(path).parts[1] == top:
                    file = upper / Path(path).relative_to(f"/{top}")
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(text)
                    file.chmod(modes.get(path, 0o644))
            work.mkdir(parents=True)
            commands.append(f"mount -t overlay pod -o lowerdir=/{top},upperdir={upper},workdir={work} /{top}")
        return commands

    def _volume(self, namespace: str, volume: Object) -> Iterator[tuple[str, str, int]]:
        """Path, content and mode of each file of a volume; none of a folder in memory."""
        kind, name = ("secrets", volume["secret"]["secretName"]) if "secret" in volume else ("configmaps", "")
        if "configMap" in volume:
            name = volume["configMap"]["name"]
        if not name:
            return
        source = volume.get("secret") or volume["configMap"]
        found = self.cluster.request("GET", f"/api/v1/namespaces/{namespace}/{kind}/{name}")
        if found is None:
            raise LookupError(f'{kind} "{name}" not found')
        for item in source.get("items") or [{"key": key, "path": key} for key in found["data"]]:
            text = found["data"][item["key"]]
            decoded = base64.b64decode(text).decode() if kind == "secrets" else text
            yield item["path"], decoded, item.get("mode", source.get("defaultMode", 0o644))

    def _secret(self, namespace: str, wanted: Object) -> str:
        secret = self.cluster.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{wanted['name']}")
        if secret is None:
            raise LookupError(f'secret "{wanted["name"]}" not found')
        return base64.b64decode(secret["data"][wanted["key"]]).decode()

    def _tell(self, pod: Object, sandbox: Sandbox, state: Object) -> None:
        """Reports the pod's state to the API server where it is news."""
        if state == sandbox.reported:
            return
        sandbox.reported = state
        spec = pod["spec"]["containers"][0]
        ended = state.get("terminated")
        phase = (
            "Pending"
            if "waiting" in state
            else "Running"
            if not ended
            else "Failed"
            if ended["exitCode"]
            else "Succeeded"
        )
        ready = str("running" in state)
        status = {
            "phase": phase,
            "podIP": sandbox.address,
            "podIPs": [{"ip": sandbox.address}],
            "hostIP": "127.0.0.1",
            "hostIPs": [{"ip": "127.0.0.1"}],
            "startTime": pod["status"].get("startTime") or now(),
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Initialized", "status": "True"},
                {"type": "ContainersReady", "status": ready},
                {"type": "Ready", "status": ready},
            ],
            "containerStatuses": [
                {
                    "name": spec["name"],
                    "image": spec["image"],
                    "imageID": "",
                    "ready": "running" in state,
                    "started": "running" in state,
                    "restartCount": 0,
                    "state": state,
                }
            ],
        }
        metadata = pod["metadata"]
        self._patch(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status", {"status": status})

    def _delete(self, pod: Object) -> None:
        metadata = pod["metadata"]
        if "deletionTimestamp" not in metadata:
            return
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        self.cluster.request("DELETE", f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", options)

    def _end(self, sandbox: Sandbox, grace_s: float) -> None:
        container = sandbox.container
        if container is None or container.process is None or container.process.poll() is not None:
            return
        if sandbox.killed_at_s is None:
            sandbox.killed_at_s = time.monotonic() + grace_s
            container.process.send_signal(signal.SIGTERM)
        elif time.monotonic() > sandbox.killed_at_s:
            container.process.kill()

    def _connect(self, sandbox: Sandbox, namespace: str) -> None:
        """A network namespace with an address on the bridge, and resolv.conf as a cluster gives it."""
        self._made += 1
        name = sandbox.network = f"{self._prefix}-{self._made}"
        sandbox.address = f"{self._subnet}.{self._made + 1}"
        _ip("netns", "add", name)
        _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", name, "master", self._prefix, "up")
        for words in (
            ("addr", "add", f"{sandbox.address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", name, *words)
        folder = _DROP_IN / name  # `ip netns exec` puts these over those of /etc
        folder.mkdir(parents=True)
        search = f"{namespace}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}"
        (folder / "resolv.conf").write_text(f"nameserver {self._subnet}.1\nsearch {search}\noptions ndots:5\n")
        (folder / "hosts").write_text("127.0.0.1 localhost\n")

    def _tear_down(self, sandbox: Sandbox) -> None:
        container = sandbox.container
        if container is not None and container.process is not None and container.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(container.process.pid, signal.SIGKILL)
            container.process.wait()
        if sandbox.network:
            subprocess.run(["ip", "netns", "del", sandbox.network], capture_output=True)
            shutil.rmtree(_DROP_IN / sandbox.network, ignore_errors=True)
            sandbox.network = ""


def _expanded(text: str, environment: dict[str, str]) -> str:
    """With $(NAME) replaced by variables that are known, and $$ by $."""
    return re.sub(
        r"\$\$|\$\(([^)]+)\)",
        lambda found: "$" if found[0] == "$$" else environment.get(found[1], found[0]),
        text,
    )


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
