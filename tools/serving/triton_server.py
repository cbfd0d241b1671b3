"""Starts the Triton server of PyPI's wheel nvidia-pytriton, waits until it is ready, stops it.

The wheel holds the server's program; it runs without a GPU and without Python. Only the process that was started is
ended.
"""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import time
import typing
import urllib.error
import urllib.request


def find_wheel(venv: pathlib.Path) -> typing.Optional[pathlib.Path]:
    """The folder of packages of |venv| that has the server; None where it is not installed."""
    found = sorted(venv.glob("lib/python*/site-packages/pytriton/tritonserver/bin/tritonserver"))
    return found[0].parents[3] if found else None


def free_ports(count: int) -> typing.List[int]:
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class TritonServer:
    """A running server; use it in a with-statement. |backends|: the folder that has a folder for each backend; |prefix|:
    words before the command, taskset and its arguments, say."""

    def __init__(
        self,
        venv: pathlib.Path,
        repository: pathlib.Path,
        backends: pathlib.Path,
        log: pathlib.Path,
        *flags: str,
        timeout_s: float = 60,
        prefix: typing.Sequence[str] = (),
    ) -> None:
        packages = find_wheel(venv)
        if packages is None:
            raise FileNotFoundError(f"{venv} has no Triton server: pip install nvidia-pytriton")
        self.http_port, self.grpc_port, self.metrics_port = free_ports(3)
        self.http, self.grpc = f"127.0.0.1:{self.http_port}", f"127.0.0.1:{self.grpc_port}"
        self.log = log
        command = [
            *prefix,
            packages / "pytriton/tritonserver/bin/tritonserver",
            f"--model-repository={repository}",
            f"--backend-directory={backends}",
            f"--http-port={self.http_port}",
            f"--grpc-port={self.grpc_port}",
            f"--metrics-port={self.metrics_port}",
            "--http-address=127.0.0.1",
            "--grpc-address=127.0.0.1",
            *flags,
        ]
        environment = {**os.environ, "LD_LIBRARY_PATH": str(packages / "nvidia_pytriton.libs")}
        self.command = " ".join(map(str, command))
        with open(log, "w", encoding="utf-8") as output:
            self.process = subprocess.Popen(
                list(map(str, command)), stdout=output, stderr=subprocess.STDOUT, env=environment
            )
        try:
            self._wait(timeout_s)
        except BaseException:
            self.stop()
            raise

    def get(self, path: str, body: typing.Optional[bytes] = None) -> bytes:
        """The answer of HTTP to GET, or to POST with |body|."""
        request = urllib.request.Request(f"http://{self.http}/{path}", data=body)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()

    def _wait(self, timeout_s: float) -> None:
        end = time.monotonic() + timeout_s
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}:\n{self.log.read_text()[-4000:]}")
            try:
                self.get("v2/health/ready")
                return
            except (urllib.error.URLError, ConnectionError, OSError):
                if time.monotonic() > end:
                    raise TimeoutError(f"the server is not ready:\n{self.log.read_text()[-4000:]}") from None
                time.sleep(0.05)

    def stop(self) -> None:
        """Ends the server, which answers what it has taken first."""
        self.process.terminate()
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> TritonServer:
        return self

    def __exit__(self, *error: typing.Any) -> None:
        self.stop()
