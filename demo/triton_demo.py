#!/usr/bin/env python3
"""One plan on the Triton server: starts the server, sends a picture, prints the classes, stops the server.

Usage: triton_demo.py BUILD, with the Python of BUILD/triton (make triton-demo makes it).
"""
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import tritonclient.http as client
from draw_digits import STYLES, draw

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools/serving"))
from triton_server import TritonServer  # noqa: E402


def write_picture(path: pathlib.Path, digit: int) -> None:
    picture = draw(digit, *STYLES[digit % len(STYLES)])
    path.write_bytes(b"P6 %d %d 255\n" % (picture.shape[1], picture.shape[0]) + picture.tobytes())


def read_picture(path: pathlib.Path) -> np.ndarray:
    """Grey levels in [0, 1] as the model takes them, [1, 1, height, width]."""
    header, pixels = path.read_bytes().split(b"\n", 1)
    kind, width, height, _ = header.split()
    assert kind == b"P6"
    colours = np.frombuffer(pixels, np.uint8).reshape(int(height), int(width), 3)
    return (colours @ np.array([0.299, 0.587, 0.114]) / 255).astype(np.float32)[None, None]


def main() -> int:
    build = pathlib.Path(sys.argv[1]).resolve()
    work = build / "demo/triton"
    shutil.rmtree(work, ignore_errors=True)
    model = work / "repository/digits"
    (model / "1").mkdir(parents=True)
    print("$ carnot build demo/digits.onnx --output repository/digits/1/model.plan", flush=True)
    plan = model / "1/model.plan"
    subprocess.run([build / "bin/carnot", "build", ROOT / "demo/digits.onnx", f"--output={plan}"], check=True)
    (model / "config.pbtxt").write_text('backend: "carnot"\n')
    print(f"config.pbtxt: {(model / 'config.pbtxt').read_text().strip()}")
    picture = work / "7.ppm"
    write_picture(picture, 7)
    with TritonServer(build / "triton", work / "repository", build / "lib/triton/backends", work / "log") as server:
        triton = client.InferenceServerClient(server.http)
        print(f"Triton {triton.get_server_metadata()['version']} serves digits on {server.http}")
        x = read_picture(picture)
        given = client.InferInput("x", list(x.shape), "FP32")
        given.set_data_from_numpy(x)
        asked = client.InferRequestedOutput("digit", class_count=3)
        for line in triton.infer("digits", [given], outputs=[asked]).as_numpy("digit").flatten():
            probability, digit = line.decode().split(":")[:2]
            print(f"  {digit}  {float(probability):.6f}")
        triton.close()
    print(f"the server has stopped; its log is {server.log}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
