"""Reloads under load: no request is lost, doubled or answered by half of a version; damaged plans change nothing."""

import os
import pathlib
import threading

import numpy as np
import onnx
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from conftest import BUILD, PEER, VENV, TritonServer, build_plan, make_model
from onnx import helper
from tritonclient.utils import InferenceServerException

pytestmark = pytest.mark.skipif(PEER is not None, reason="plans are Carnot's")
RELOADS, WORKERS, DAMAGES = 50, 8, 20


def version(factor: float) -> onnx.ModelProto:
    """y = (x, factor * x), and the factor again for each row: an answer tells its version and its request."""
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["scaled"]),
        helper.make_node("Concat", ["x", "scaled"], ["y"], axis=1),
    ]
    weights = [("factor", np.full((1, 64), factor, np.float32))]
    return make_model(nodes, [("x", 1, ["n", 64])], [("y", 1, ["n", 128])], weights)


@pytest.fixture(scope="module")
def plans(needs_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    for name, factor in (("a", 2.0), ("b", 3.0)):
        build_plan(version(factor), folder / f"{name}.plan")
    return [(folder / "a.plan").read_bytes(), (folder / "b.plan").read_bytes()]


@pytest.fixture
def served(plans, tmp_path):
    model = tmp_path / "repository/scale"
    (model / "1").mkdir(parents=True)
    (model / "1/model.plan").write_bytes(plans[0])
    (model / "config.pbtxt").write_text('backend: "carnot"\ninstance_group [{kind: KIND_CPU count: 2}]\n')
    backends = BUILD / "lib/triton/backends"
    flags = ("--model-control-mode=explicit", "--load-model=scale")
    with TritonServer(VENV, tmp_path / "repository", backends, tmp_path / "log", *flags) as server:
        yield server, model / "1/model.plan"


class Worker(threading.Thread):
    """Sends requests with an id of their own until it is told to stop."""

    def __init__(self, server: TritonServer, number: int, over: threading.Event) -> None:
        super().__init__()
        self.server, self.number, self.over = server, number, over
        self.sent, self.answered, self.wrong = 0, 0, []

    def run(self) -> None:
        library, url = (http, self.server.http) if self.number % 2 else (grpc, self.server.grpc)
        with library.InferenceServerClient(url) as client:
            while not self.over.is_set():
                self.ask(library, client)

    def ask(self, library, client) -> None:
        name, rows = f"{self.number}-{self.sent}", 1 + self.sent % 3
        x = np.full((rows, 64), self.number * 1e5 + self.sent % 1000, np.float32) + np.arange(rows)[:, None] + 1
        given = library.InferInput("x", [rows, 64], "FP32")
        given.set_data_from_numpy(x.astype(np.float32))
        self.sent += 1
        try:
            answer = client.infer("scale", [given], request_id=name)
        except InferenceServerException as error:
            self.wrong.append(str(error))
            return
        got = answer.as_numpy("y")
        response = answer.get_response()
        identity = response["id"] if isinstance(response, dict) else response.id
        of_one_version = any(np.array_equal(got, np.concatenate([x, f * x], 1)) for f in (2, 3))
        self.answered += 1
        if identity != name or not of_one_version:
            self.wrong.append(f"{identity} for {name}: {got[0, [0, 64]]}")


def replace(path: pathlib.Path, plan: bytes, in_place: bool) -> None:
    """By rename, or over the file that the serving version was loaded from."""
    if in_place:
        path.write_bytes(plan)
    else:
        path.with_suffix(".new").write_bytes(plan)
        os.replace(path.with_suffix(".new"), path)


def test_nothing_is_lost_or_doubled(served, plans):
    server, path = served
    over = threading.Event()
    workers = [Worker(server, number, over) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    with http.InferenceServerClient(server.http) as control:
        for reload in range(1, RELOADS + 1):
            replace(path, plans[reload % 2], in_place=reload % 4 < 2)
            control.load_model("scale")
    over.set()
    for worker in workers:
        worker.join()
    assert [w.wrong[:3] for w in workers] == [[]] * WORKERS
    assert all(w.sent == w.answered > RELOADS for w in workers)
    print(f"{RELOADS} reloads, {sum(w.answered for w in workers)} requests, each answered once")


def damaged(plan: bytes, kind: int) -> bytes:
    """Truncated, with bits turned, zeros, text, the other half of the file: |kind| of DAMAGES."""
    if kind < 8:
        return plan[: len(plan) * kind // 8]
    if kind < 16:
        at = next(i for i in range(len(plan) * (kind - 8) // 8, len(plan)) if plan[i])  # zeros may be padding
        return plan[:at] + bytes([plan[at] ^ 1]) + plan[at + 1 :]
    return [b"\0" * len(plan), b"no plan", plan[::-1], plan[:64] * (len(plan) // 64)][kind - 16]


def test_damaged_plans(served, plans):
    server, path = served
    over = threading.Event()
    workers = [Worker(server, number, over) for number in range(2)]
    for worker in workers:
        worker.start()
    with http.InferenceServerClient(server.http) as control:
        for kind in range(DAMAGES):
            path.write_bytes(damaged(plans[1], kind))
            with pytest.raises(InferenceServerException) as error:
                control.load_model("scale")
            assert "model.plan" in str(error.value), (kind, str(error.value))
            x = np.full((1, 64), kind, np.float32)
            given = http.InferInput("x", [1, 64], "FP32")
            given.set_data_from_numpy(x)
            np.testing.assert_array_equal(control.infer("scale", [given]).as_numpy("y")[0, 64:], 2 * x[0])
        path.unlink()
        with pytest.raises(InferenceServerException):
            control.load_model("scale")
        path.write_bytes(plans[1])
        control.load_model("scale")
        np.testing.assert_array_equal(control.infer("scale", [given]).as_numpy("y")[0, 64:], 3 * x[0])
    over.set()
    for worker in workers:
        worker.join()
    assert [w.wrong[:3] for w in workers] == [[]] * 2
    assert all(w.sent == w.answered for w in workers)
