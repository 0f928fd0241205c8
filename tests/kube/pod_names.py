"""The DNS of a cluster: names of pods behind headless Services, from the EndpointSlices that its controllers make."""

import socketserver
import struct

from .cluster import Cluster

DOMAIN = "cluster.local"


class NameServer(socketserver.ThreadingUDPServer):
    """The cluster's DNS: addresses of the pods behind headless Services."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], cluster: Cluster) -> None:
        super().__init__(address, _Request)
        self.cluster = cluster

    def addresses(self, name: str) -> list[str] | None:
        """Of `[HOST.]SERVICE.NAMESPACE.svc.cluster.local`; None when there is no such name."""
        labels = name.lower().rstrip(".").removesuffix(f".svc.{DOMAIN}").split(".")
        if not name.lower().rstrip(".").endswith(f".svc.{DOMAIN}") or len(labels) not in (2, 3):
            return None
        host, service, namespace = labels if len(labels) == 3 else ("", *labels)
        slices = self.cluster.request(
            "GET",
            f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
            f"?labelSelector=kubernetes.io%2Fservice-name%3D{service}",
        )
        found = [
            address
            for one in slices["items"]
            for endpoint in one.get("endpoints") or []
            if endpoint["conditions"].get("ready") and host in ("", endpoint.get("hostname"))
            for address in endpoint["addresses"]
        ]
        return found or None


class _Request(socketserver.BaseRequestHandler):
    server: NameServer

    def handle(self) -> None:
        question, socket = self.request
        number, _, _, _, _, _ = struct.unpack("!6H", question[:12])
        labels, at = [], 12
        while length := question[at]:
            labels.append(question[at + 1 : at + 1 + length].decode())
            at += 1 + length
        (kind,) = struct.unpack("!H", question[at + 1 : at + 3])
        asked = question[12 : at + 5]
        addresses = self.server.addresses(".".join(labels))
        flags = 0x8580 if addresses is not None else 0x8583  # no such name
        answers = [
            struct.pack("!HHHIH4B", 0xC00C, 1, 1, 5, 4, *map(int, address.split(".")))
            for address in (addresses or [] if kind == 1 else [])
        ]
        header = struct.pack("!6H", number, flags, 1, len(answers), 0, 0)
        socket.sendto(header + asked + b"".join(answers), self.client_address)
