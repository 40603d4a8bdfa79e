"""A collector for tests: OTLP over HTTP, decoded by OpenTelemetry's classes for Python.

usage: collector.py [STATUS...]; prints its address, then each message as a line of JSON with the status of the
answer. The first messages get these statuses, all later ones get 200.
"""

import http.server
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service

answers = [int(status) for status in sys.argv[1:]]


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        message = service.ExportMetricsServiceRequest.FromString(body)
        status = answers.pop(0) if answers else 200
        said = {
            "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "status": status,
            "message": json_format.MessageToDict(message, use_integers_for_enums=True),
        }
        print(json.dumps(said), flush=True)
        answer = b""
        if status == 200:
            answer = service.ExportMetricsServiceResponse().SerializeToString()
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "2")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *words):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
