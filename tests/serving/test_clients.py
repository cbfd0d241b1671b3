"""Triton's own clients and plain curl, unchanged: the same tests pass on Triton's ONNX Runtime backend (conftest.py)."""

import asyncio
import json
import subprocess
import time

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as http
import tritonclient.http.aio as http_aio
from conftest import MOST, PEER, oracle
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

rng = np.random.default_rng(2)


def feeds_of(model, rows):
    if model == "picture":
        return {"x": rng.standard_normal((rows, 3, 16, 16)).astype(np.float32)}
    if model == "words":
        texts = np.array(["", "a", "\u00e9t\u00e9", "x" * 300], object)
        return {name: rng.choice(texts, (rows, 2)) for name in "ab"}
    numbers = {name: rng.integers(-(2**60), 2**60, (rows, 3)) for name in "ab"}
    return {"which": rng.random((rows, 3)) < 0.5, **numbers}


def inputs_of(client, feeds, **how):
    given = []
    for name, array in feeds.items():
        value = client.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        value.set_data_from_numpy(array, **how)
        given.append(value)
    return given


def check(model, feeds, result):
    for name, wanted in oracle(model, feeds).items():
        got = result.as_numpy(name)
        assert got.shape == wanted.shape
        if wanted.dtype == object:
            assert [t.decode() if isinstance(t, bytes) else t for t in got.flatten()] == list(wanted.flatten())
        else:
            assert got.dtype == wanted.dtype
            np.testing.assert_allclose(got, wanted, atol=1e-5)


CASES = pytest.mark.parametrize("model,rows", [(m, r) for m in ("picture", "words", "choice") for r in (1, 3, MOST)])


@CASES
@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
def test_http(server, model, rows, binary):
    feeds = feeds_of(model, rows)
    with http.InferenceServerClient(server.http) as client:
        outputs = [http.InferRequestedOutput(name, binary_data=binary) for name in oracle(model, feeds)]
        given = inputs_of(http, feeds, binary_data=binary)
        result = client.infer(model, given, outputs=outputs, request_id="seven")
        check(model, feeds, result)
        assert result.get_response()["id"] == "seven"


@CASES
def test_grpc(server, model, rows):
    feeds = feeds_of(model, rows)
    with grpc.InferenceServerClient(server.grpc) as client:
        result = client.infer(model, inputs_of(grpc, feeds), request_id="seven")
        check(model, feeds, result)
        assert result.get_response().id == "seven"


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_aio(server, kind):
    library, url = (http_aio, server.http) if kind == "http" else (grpc_aio, server.grpc)

    async def many():
        async with library.InferenceServerClient(url) as client:
            batches = [feeds_of("picture", 1 + k % 3) for k in range(40)]
            calls = [client.infer("picture", inputs_of(library, feeds)) for feeds in batches]
            for feeds, result in zip(batches, await asyncio.gather(*calls)):
                check("picture", feeds, result)

    asyncio.run(many())


def test_http_async(server):
    """The client's own threads: requests meet in batches."""
    batches = [feeds_of("picture", 1 + k % 2) for k in range(64)]
    with http.InferenceServerClient(server.http, concurrency=8) as client:
        calls = [client.async_infer("picture", inputs_of(http, feeds)) for feeds in batches]
        for feeds, call in zip(batches, calls):
            check("picture", feeds, call.get_result())


def test_grpc_stream(server):
    results = []
    feeds = feeds_of("picture", 2)
    with grpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: results.append((result, error)))
        for _ in range(5):
            client.async_stream_infer("picture", inputs_of(grpc, feeds))
        client.stop_stream()
    assert len(results) == 5
    for result, error in results:
        assert error is None
        check("picture", feeds, result)


def test_outputs_asked_for(server):
    feeds = feeds_of("picture", 2)
    with http.InferenceServerClient(server.http) as client:
        result = client.infer("picture", inputs_of(http, feeds), outputs=[http.InferRequestedOutput("top")])
        assert result.as_numpy("y") is None
        np.testing.assert_allclose(result.as_numpy("top"), oracle("picture", feeds)["top"], atol=1e-5)
        asked = [http.InferRequestedOutput("y", class_count=1)]
        classes = client.infer("picture", inputs_of(http, feeds), outputs=asked).as_numpy("y")
        best = [int(text.decode().split(":")[1]) for text in classes.flatten()]
        assert best == oracle("picture", feeds)["y"].argmax(1).tolist()


def curl(server, path, *options):
    command = ["curl", "--silent", "--show-error", *options, f"http://{server.http}/{path}"]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout


def test_curl_json(server, tmp_path):
    feeds = feeds_of("picture", 2)
    body = {"inputs": [{"name": "x", "shape": [2, 3, 16, 16], "datatype": "FP32", "data": feeds["x"].tolist()}]}
    (tmp_path / "body").write_text(json.dumps(body))
    answer = json.loads(curl(server, "v2/models/picture/infer", "--data", f"@{tmp_path}/body"))
    for output in answer["outputs"]:
        got = np.array(output["data"], np.float32).reshape(output["shape"])
        np.testing.assert_allclose(got, oracle("picture", feeds)[output["name"]], atol=1e-5)


def test_curl_binary(server, tmp_path):
    feeds = feeds_of("picture", 1)
    data = feeds["x"].tobytes()
    given = {"name": "x", "shape": [1, 3, 16, 16], "datatype": "FP32", "parameters": {"binary_data_size": len(data)}}
    header = json.dumps({"inputs": [given], "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}).encode()
    (tmp_path / "body").write_bytes(header + data)
    length = f"Inference-Header-Content-Length: {len(header)}"
    options = ["--header", length, "--data-binary", f"@{tmp_path}/body"]
    answer = curl(server, "v2/models/picture/infer", *options)
    got = np.frombuffer(answer[-20:], np.float32)
    np.testing.assert_allclose(got, oracle("picture", feeds)["y"][0], atol=1e-5)


def test_metadata(server):
    with http.InferenceServerClient(server.http) as client:
        metadata = client.get_model_metadata("picture")
        config = client.get_model_config("picture")
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3, 16, 16]}]
    assert {o["name"]: o["shape"] for o in metadata["outputs"]} == {"y": [-1, 5], "top": [-1, 5]}
    assert config["max_batch_size"] == MOST and "dynamic_batching" in config


WRONG = {
    "type": ({"x": np.zeros((1, 3, 16, 16), np.float64)}, None),
    "shape": ({"x": np.zeros((1, 3, 16, 17), np.float32)}, None),
    "rank": ({"x": np.zeros((1, 3, 16), np.float32)}, None),
    "name": ({"z": np.zeros((1, 3, 16, 16), np.float32)}, None),
    "batch": ({"x": np.zeros((MOST + 1, 3, 16, 16), np.float32)}, None),
    "output": ({"x": np.zeros((1, 3, 16, 16), np.float32)}, "nothing"),
}


@pytest.mark.parametrize("kind", ["http", "grpc"])
@pytest.mark.parametrize("wrong", list(WRONG))
def test_wrong_requests(server, kind, wrong):
    """Each gets its own error, beside right ones at the same time."""
    library, url = (http, server.http) if kind == "http" else (grpc, server.grpc)
    feeds, output = WRONG[wrong]
    asked = [library.InferRequestedOutput(output)] if output else None
    with http.InferenceServerClient(server.http, concurrency=4) as right, library.InferenceServerClient(url) as client:
        batches = [feeds_of("picture", 1) for _ in range(8)]
        calls = [right.async_infer("picture", inputs_of(http, feeds)) for feeds in batches]
        with pytest.raises(InferenceServerException) as error:
            client.infer("picture", inputs_of(library, feeds), outputs=asked)
        assert error.value.message()
        for good, call in zip(batches, calls):
            check("picture", good, call.get_result())


def test_size(server, tmp_path):
    """Fewer bytes than the shape says."""
    data = np.zeros(10, np.float32).tobytes()
    given = {"name": "x", "shape": [1, 3, 16, 16], "datatype": "FP32", "parameters": {"binary_data_size": len(data)}}
    header = json.dumps({"inputs": [given]}).encode()
    (tmp_path / "body").write_bytes(header + data)
    length = f"Inference-Header-Content-Length: {len(header)}"
    options = ["--header", length, "--data-binary", f"@{tmp_path}/body"]
    answer = curl(server, "v2/models/picture/infer", *options)
    assert json.loads(answer)["error"]


@pytest.mark.skipif(PEER is not None, reason="the statistics of Carnot's backend")
def test_statistics(server):
    feeds = feeds_of("choice", 3)
    with http.InferenceServerClient(server.http) as client:

        def counts():
            stats = client.get_inference_statistics("choice")["model_stats"][0]
            return stats["inference_count"], stats["execution_count"], stats["inference_stats"]

        before = counts()
        client.infer("choice", inputs_of(http, feeds))
        after = counts()
        # A backend reports statistics behind the response, and the client may be faster.
        deadline = time.monotonic() + 10
        while (after[0] - before[0], after[1] - before[1]) != (3, 1) and time.monotonic() < deadline:
            time.sleep(0.01)
            after = counts()
    assert (after[0] - before[0], after[1] - before[1]) == (3, 1)
    for part in ("success", "compute_input", "compute_infer", "compute_output"):
        assert after[2][part]["count"] == before[2].get(part, {}).get("count", 0) + 1
