"""examples/ray_data.py and examples/ray_serve.py as they are, and a worker that is killed midway."""

import concurrent.futures
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import carnot
import numpy as np
import pytest
from conftest import ROOT, check
from PIL import Image

ray = pytest.importorskip("ray", reason="Ray is not installed: make test-scale installs it")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=4, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    yield
    ray.shutdown()


def test_data(plan, pictures, wanted, tmp_path):
    import ray_data

    results = ray_data.run(carnot.Predictor, (str(plan), 1), "x", str(pictures), 2)
    check(results.take_all(), wanted)


def test_data_with_a_killed_worker(plan, pictures, wanted, tmp_path):
    """One worker kills itself in its tenth batch: its rows are computed again, once."""
    import ray_data

    marker = tmp_path / "killed"

    class Dies(carnot.Predictor):
        calls = 0

        def __call__(self, *batch):
            Dies.calls += 1
            if Dies.calls == 10:
                try:
                    os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                    os.kill(os.getpid(), signal.SIGKILL)
                except FileExistsError:
                    pass
            return super().__call__(*batch)

    check(ray_data.run(Dies, (str(plan), 1), "x", str(pictures), 2).take_all(), wanted)
    assert marker.exists()


def post(body):
    request = urllib.request.Request("http://127.0.0.1:8000/", data=body)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def test_serve(plan, pictures, wanted):
    import ray_serve
    from ray import serve

    ray_serve.start(carnot.Predictor(plan, threads=1), (1, 28, 28), 2)
    paths = sorted(pictures.iterdir())[:200]
    bodies = [(np.asarray(Image.open(path), np.float32) / 255).tobytes() for path in paths]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for path, answer in zip(paths, pool.map(post, bodies)):
            np.testing.assert_allclose(np.frombuffer(answer, np.float32), wanted[path.name], atol=1e-6)
    with pytest.raises(urllib.error.HTTPError) as error:
        post(b"short")
    assert error.value.code == 400 and b"must be float32" in error.value.read()
    serve.shutdown()


@pytest.mark.parametrize("example", ["ray_data"])
def test_command(example, plan, pictures, tmp_path):
    """The example as a program."""
    few = tmp_path / "few"
    few.mkdir()
    for path in sorted(pictures.iterdir())[:70]:
        (few / path.name).symlink_to(path)
    command = [sys.executable, ROOT / "examples" / f"{example}.py", plan, few, tmp_path / "out"]
    ray.shutdown()
    subprocess.run(list(map(str, command)), check=True, timeout=100, capture_output=True)
    assert list((tmp_path / "out").glob("*.parquet"))
