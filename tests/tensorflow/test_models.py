"""Whole models in each of their forms against TensorFlow's results.

They are those of export_tensorflow.py, in $CARNOT_MODELS/tensorflow or ~/.cache/carnot-models/tensorflow:
NAME/{saved_model/, frozen.pb, frozen_v1.pb}, data.npz ("in:NAME", "out:NAME") and names.json.
"""

import json
import os
import pathlib

import numpy as np
import pytest
from harness import carnot, close, file_name, run

CACHE = pathlib.Path.home() / ".cache/carnot-models"
PLACES = [pathlib.Path(p) / "tensorflow" for p in (os.environ.get("CARNOT_MODELS"), CACHE) if p]
MODELS = next((p for p in PLACES if p.is_dir()), PLACES[-1])
FORMS = {
    **dict.fromkeys(
        "mobilenet_v2 resnet50 efficientnet_b0 densenet121 convnext bert unet".split(), "saved_model frozen.pb"
    ),
    **dict.fromkeys("lstm detector loops fake_quant dynamic".split(), "saved_model frozen.pb frozen_v1.pb"),
    "lookup": "saved_model",
    **dict.fromkeys("graph_v1 inception_v1_style".split(), "saved_model frozen_v1.pb"),
}


def close_rows(got: np.ndarray, want: np.ndarray) -> None:
    """Rows of detections in any order: scores that are nearly equal may change places."""
    assert got.shape == want.shape, f"shape {got.shape}, want {want.shape}"
    rows = [a.reshape(-1, a.shape[-1] if a.ndim > 1 else 1) for a in (got, want)]
    got, want = (a[np.lexsort(a.round(3).T[::-1])] for a in rows)
    close(got, want)


def data_of(name: str) -> tuple[dict, dict]:
    if not (MODELS / name).is_dir():
        pytest.skip(f"{MODELS / name} is not there: export_tensorflow.py writes it")
    data = np.load(MODELS / name / "data.npz")
    return tuple({k[len(p) :]: data[k] for k in data.files if k.startswith(p)} for p in ("in:", "out:"))


@pytest.mark.parametrize(("name", "form"), [(n, f) for n, forms in FORMS.items() for f in forms.split()])
def test_model(tmp_path: pathlib.Path, name: str, form: str) -> None:
    feeds, want = data_of(name)
    names = json.loads((MODELS / name / "names.json").read_text())[form]
    flags = ["--builderOptimizationLevel=0"]
    if form != "saved_model":
        flags += ["--outputs=" + ",".join(names["outputs"].values())]
    got = run(MODELS / name / form, {names["inputs"][k]: v for k, v in feeds.items()}, tmp_path, *flags)
    files = {key: file_name(output) for key, output in names["outputs"].items()}
    assert sorted(got) == sorted(set(files.values()))
    for key, file in files.items():
        (close_rows if name == "detector" and key != "best" else close)(got[file], want[key])


def test_file_in_a_saved_model(tmp_path: pathlib.Path) -> None:
    """saved_model.pb given itself is the model of its folder."""
    feeds, want = data_of("fake_quant")
    got = run(MODELS / "fake_quant/saved_model/saved_model.pb", feeds, tmp_path)
    close(got["logits"], want["logits"])


def run_or_refused(name: str, folder: pathlib.Path, words: list[str]) -> None:
    feeds, want = data_of(name)
    model = MODELS / name / "saved_model"
    done = carnot("build", model, "--output", folder / "m.plan")
    if done.returncode:
        assert all(word in done.stderr for word in words), done.stderr
        return
    got = run(model, feeds, folder)
    for key in want:
        close(got[key], want[key])


def test_strings(tmp_path: pathlib.Path) -> None:
    """Encoded text runs, or all its operators are refused by name."""
    run_or_refused("strings", tmp_path, ["StringSplitV2", "RaggedTensorToTensor"])
