"""The manifests for KServe against the published definitions: CARNOT_KSERVE_CRDS, KServe's folder config/crd/full."""

import copy
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CRDS = os.environ.get("CARNOT_KSERVE_CRDS")
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
pytest.importorskip("jsonschema", reason="jsonschema is not installed")
pytestmark = pytest.mark.skipif(not CRDS, reason="CARNOT_KSERVE_CRDS does not name the folder of KServe's definitions")
sys.path.insert(0, str(ROOT / "tools/serving"))
import check_manifests  # noqa: E402


@pytest.fixture(scope="module")
def known():
    return check_manifests.schemas(pathlib.Path(CRDS))


MANIFESTS = sorted((ROOT / "examples/kserve").glob("*.yaml"))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_as_published(known, path):
    for manifest in yaml.safe_load_all(path.read_text()):
        assert check_manifests.errors(manifest, known) == []


def test_differences_are_seen(known):
    manifest = yaml.safe_load((ROOT / "examples/kserve/serving-runtime.yaml").read_text())
    for change in ({"containers": "none"}, {"unknown": 1}, {"supportedModelFormats": [{"version": "1"}]}):
        wrong = copy.deepcopy(manifest)
        wrong["spec"].update(change)
        assert check_manifests.errors(wrong, known)


def test_the_runtime_is_that_of_the_service():
    service = yaml.safe_load((ROOT / "examples/kserve/inference-service.yaml").read_text())
    runtime = yaml.safe_load((ROOT / "examples/kserve/serving-runtime.yaml").read_text())
    assert service["spec"]["predictor"]["model"]["runtime"] == runtime["metadata"]["name"]
