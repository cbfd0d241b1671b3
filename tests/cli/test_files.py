"""Engine, tensor and image files: foreign, corrupt, odd names, real pictures."""

import os
import pathlib
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from harness import CARNOT, MODELS, fails, passes
from onnx import TensorProto, helper


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


def identity(path: pathlib.Path) -> pathlib.Path:
    """A model that gives the pixels of a picture back."""
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, "h", "w", 3]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", value[:1], value[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P", "1"])
@pytest.mark.parametrize("ending", ["png", "bmp", "tiff", "webp", "jp2", "ppm", "jpg", "gif"])
def test_image_formats(tmp_path: pathlib.Path, ending: str, mode: str) -> None:
    """Every format and kind of pixel, against Pillow; transparent pixels lie on white."""
    image = pytest.importorskip("PIL.Image")
    if (ending, mode) in {("jpg", "RGBA"), ("jpg", "P"), ("jpg", "1"), ("jp2", "P"), ("jp2", "1"), ("ppm", "P"), ("gif", "RGBA")}:
        pytest.skip(f"Pillow writes no {ending} of mode {mode}")
    if mode == "RGBA" and ending not in ("png", "webp"):
        pytest.skip("transparency of PNG and WebP is composed, that of other formats is not defined here")
    y, x = np.mgrid[0:40, 0:56]
    pixels = np.stack([x * 4, y * 6, (x + y) * 2, 255 - 3 * x], 2).astype(np.uint8)
    picture = image.fromarray(pixels if mode == "RGBA" else pixels[..., :3]).convert(mode)
    file = tmp_path / f"picture.{ending}"
    picture.save(file, **({"lossless": True, "exact": True} if ending == "webp" else {}))
    wanted = image.open(file)
    if "A" in wanted.getbands():
        white = image.new("RGBA", wanted.size, (255, 255, 255, 255))
        wanted = image.alpha_composite(white, wanted.convert("RGBA"))
    wanted = np.asarray(wanted.convert("RGB"), np.float32)
    passes("run", identity(tmp_path / "m.onnx"), "--input", file, "--output-dir", tmp_path)
    got = np.load(tmp_path / "y.npy")[0]
    assert got.shape == wanted.shape
    # Blending rounds by one; decoders of JPEG may differ by one in their inverse transform.
    np.testing.assert_allclose(got, wanted, atol=1 if mode == "RGBA" or ending == "jpg" else 0)


@pytest.mark.parametrize("ending", ["png", "bmp", "tiff", "webp", "jp2", "ppm", "jpg", "gif"])
def test_broken_images(tmp_path: pathlib.Path, ending: str) -> None:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    file, model = tmp_path / f"picture.{ending}", identity(tmp_path / "m.onnx")
    image.fromarray(rng.integers(0, 256, (40, 56, 3), np.uint8)).save(file)
    whole = file.read_bytes()
    half, changed = len(whole) // 2, bytearray(whole)
    changed[half : half + 20] = bytes(20)
    for content in [whole[:keep] for keep in (0, 1, 11, 40, len(whole) // 3)] + [changed]:
        file.write_bytes(content)
        done = subprocess.run([CARNOT, "run", model, "--input", file], capture_output=True, text=True, timeout=60)
        # Some decoders show the part that is there; nothing crashes, and the error is the only line.
        assert done.returncode in (0, 1), done
        assert done.returncode == 0 or "the image cannot be decoded: " in done.stderr, done
        assert len(done.stderr.splitlines()) == done.returncode, done.stderr


def test_without_the_codecs(tmp_path: pathlib.Path) -> None:
    """The program links no image library; pictures need the module beside it."""
    program = tmp_path / "bin" / "carnot"
    program.parent.mkdir()
    shutil.copy(CARNOT, program)
    linked = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    assert not [name for name in ("png", "jpeg", "lept", "pcre2") if name in linked], linked
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    command = [program, "run", identity(tmp_path / "m.onnx"), "--input", tmp_path / "x.png"]
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "the codecs module libcarnot_codecs.so does not open" in done.stderr, done
