"""Log server of a kubelet: over TLS, with timestamps, from a start time, and followed to the container's end."""

import http.server
import re
import socketserver
import urllib.parse
from collections.abc import Callable

from .containers import Container


class LogServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Serves pod logs to the API server."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], find: Callable[[str, str], Container | None]) -> None:
        super().__init__(address, _Request)
        self.find = find
        self.cut_after: int | None = None
        """Every connection that follows a log is cut after so many lines."""

    def handle_error(self, *_: object) -> None:
        """A reader that went away is no error."""


class _Request(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LogServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        found = re.fullmatch(r"/containerLogs/([^/]+)/([^/]+)/[^/]+", url.path)
        container = self.server.find(found[1], found[2]) if found else None
        if container is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        follows = query.get("follow") == "true"
        sent, at = 0, 0
        if "tailLines" in query:
            at = max(len(container.lines) - int(query["tailLines"]), 0)
        since = query.get("sinceTime", "")[:19]
        limit = self.server.cut_after if follows else None
        while True:
            with container.news:
                while at >= len(container.lines) and follows and not container.is_done:
                    container.news.wait(1)
                new, at, ended = container.lines[at:], len(container.lines), container.is_done
            for stamp, line in new:
                if stamp[:19] < since:
                    continue
                text = f"{stamp} ".encode() + line if query.get("timestamps") == "true" else line
                self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
                sent += 1
                if sent == limit:
                    self.wfile.flush()
                    self.close_connection = True
                    return  # without an end: the connection was lost
            self.wfile.flush()
            if ended or not follows:
                self.wfile.write(b"0\r\n\r\n")
                return
