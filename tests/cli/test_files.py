"""Engine, tensor and image files: foreign, corrupt, odd names, real pictures."""

import pathlib

import numpy as np
import pytest
from harness import MODELS, fails, passes


@pytest.mark.parametrize(
    "data", [b"ftrt" + bytes(64), (20).to_bytes(4, "little") + b'{"stride": 32, "a":1' + b"ftrt" + bytes(64)]
)
def test_tensorrt_plan(tmp_path: pathlib.Path, data: bytes) -> None:
    path = tmp_path / "their.engine"
    path.write_bytes(data)
    for command in (
        ["exec", f"--loadEngine={path}"],
        ["run", path, "--input", "x.npy"],
        ["bench", path],
        ["inspect", path],
    ):
        assert "TensorRT engine; rebuild from ONNX" in fails(*command)


@pytest.mark.parametrize("ending", [".npy", ".png", ".jpg", ".pb", ".bin"])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY\x01\x00\xff\xff{'descr'",
        b"\x89PNG\r\n\x1a\n" + b"\xff" * 40,
        b"\xff\xd8\xff\xe0" + b"\x00" * 30,
        b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 8), }      \n",
        b"\xff" * 64,
    ],
)
def test_corrupt_inputs(plan: pathlib.Path, tmp_path: pathlib.Path, ending: str, data: bytes) -> None:
    path = tmp_path / f"bad{ending}"
    path.write_bytes(data)
    assert "bad" in fails("run", plan, "--input", f"x={path}")


@pytest.mark.parametrize("keep", [0, 7, 8, 40, 200, -1])
def test_corrupt_engine(plan: pathlib.Path, tmp_path: pathlib.Path, keep: int) -> None:
    path = tmp_path / "cut.plan"
    path.write_bytes(plan.read_bytes()[:keep])
    assert "cut.plan" in fails("inspect", path)


def test_odd_names_and_folders(plan: pathlib.Path, tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 8), np.float32))
    folder = tmp_path / "a" / "b"
    passes("run", plan, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", folder)
    np.testing.assert_allclose(np.load(folder / "y_odd_0.npy"), np.full((2, 8), 0.125), rtol=1e-6)


def picture(tmp_path: pathlib.Path, model: str) -> tuple[pathlib.Path, pathlib.Path, np.ndarray]:
    if not (MODELS / model).exists():
        pytest.skip(f"{model} is not in {MODELS}")
    data, io = pytest.importorskip("skimage.data"), pytest.importorskip("skimage.io")
    pixels = data.astronaut()
    io.imsave(tmp_path / "astronaut.png", pixels)
    return MODELS / model, tmp_path / "astronaut.png", pixels


def test_finds_the_face(tmp_path: pathlib.Path) -> None:
    model, file, _ = picture(tmp_path, "ultraface_rfb_320.onnx")
    passes(
        "run",
        model,
        "--input",
        file,
        "--mean=127,127,127",
        "--scale=0.0078125,0.0078125,0.0078125",
        "--output-dir",
        tmp_path / "out",
    )
    outputs = [np.load(p) for p in (tmp_path / "out").iterdir()]
    scores = next(o for o in outputs if o.shape[-1] == 2)[0, :, 1]
    boxes = next(o for o in outputs if o.shape[-1] == 4)[0] * 512  # the picture's side
    order = np.argsort(-scores)
    faces = []
    for i in order[scores[order] > 0.7]:

        def overlap(k: int) -> float:
            size = np.minimum(boxes[i, 2:], boxes[k, 2:]) - np.maximum(boxes[i, :2], boxes[k, :2])
            both = np.prod(np.maximum(size, 0))
            return both / (np.prod(boxes[i, 2:] - boxes[i, :2]) + np.prod(boxes[k, 2:] - boxes[k, :2]) - both)

        if all(overlap(k) < 0.5 for k in faces):
            faces.append(i)
    assert len(faces) == 1, boxes[faces]
    x0, y0, x1, y1 = boxes[faces[0]]
    assert abs((x0 + x1) / 2 - 224) < 25 and abs((y0 + y1) / 2 - 120) < 30, boxes[faces]


def test_paints_like_candy(tmp_path: pathlib.Path) -> None:
    model, file, pixels = picture(tmp_path, "candy.onnx")
    passes("run", model, "--input", file, "--output-dir", tmp_path / "out", "--png")
    io = pytest.importorskip("skimage.io")
    painted = io.imread(next((tmp_path / "out").glob("*.png")))
    assert painted.ndim == 3 and painted.shape[2] == 3 and painted.std() > 30
    rows = np.linspace(0, pixels.shape[0] - 1, painted.shape[0]).astype(int)
    columns = np.linspace(0, pixels.shape[1] - 1, painted.shape[1]).astype(int)
    likeness = np.corrcoef(painted.mean(2).ravel(), pixels[rows][:, columns].mean(2).ravel())[0, 1]
    assert 0.3 < likeness < 0.98  # the same scene, in another hand
