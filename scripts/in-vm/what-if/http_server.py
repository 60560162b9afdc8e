# A threaded HTTP server on port 8091, for programs.sh: each request computes, and is answered with 1 KB.
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        value = 0
        for at in range(2_000):
            value = (value * 31 + at) & 0xFFFF
        body = f"{value:05d}".encode() * 205
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


ThreadingHTTPServer(("127.0.0.1", 8091), Handler).serve_forever()
