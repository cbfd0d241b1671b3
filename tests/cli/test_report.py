"""The page of `carnot report` and the timeline: what is in the page, and how it works in a browser."""

import json
import pathlib
import shutil
from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from harness import carnot, fails, passes, save
from onnx import helper, numpy_helper

CHROMIUM = shutil.which("chromium")
SIZES = {"desktop": (1440, 900), "phone": (390, 844)}


def write_report(plan: pathlib.Path, *arguments: object, path: str = "report.html") -> pathlib.Path:
    page = plan.parent / path
    passes("report", plan, "--output", page, *arguments)
    return page


def document(page: pathlib.Path) -> dict:
    text = page.read_text()
    start = text.index('id="data">') + len('id="data">')
    return json.loads(text[start : text.index("</script>", start)])


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Two convolutions with a residual connection, a name that HTML would take for markup, and a GEMM."""
    rng = np.random.default_rng(1)
    weights = [rng.standard_normal((16, 3, 3, 3)), rng.standard_normal((16, 16, 3, 3)), rng.standard_normal((16, 10))]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], "stem/conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"], "stem/relu"),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], "block/conv", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c1", "r0"], ["a"], "block/</script><b>add"),
        helper.make_node("MaxPool", ["a"], ["m"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["m"], ["g"], "average"),
        helper.make_node("Flatten", ["g"], ["f"], "flatten"),
        helper.make_node("MatMul", ["f", "w2"], ["y"], "head/matmul"),
    ]
    folder = tmp_path_factory.mktemp("report")
    path = save(folder / "m.onnx", nodes, {"x": [1, 3, 32, 32]}, {"y": [1, 10]})
    model = onnx.load(path)
    model.graph.initializer.extend(numpy_helper.from_array(w.astype(np.float32), f"w{i}") for i, w in enumerate(weights))
    onnx.save(model, path)
    plan = folder / "m.plan"
    passes("build", path, "--output", plan)
    passes("build", path, "--output", folder / "half.plan", "--fp16")
    return plan


@pytest.fixture(scope="module")
def report(network: pathlib.Path) -> pathlib.Path:
    """The page with what is measured here."""
    return write_report(network)


# ---- the data ----


def test_page_holds_what_the_inspector_says(network: pathlib.Path, report: pathlib.Path) -> None:
    engine = document(report)["engines"][0]
    shown = json.loads(passes("inspect", network, "--json"))
    assert [layer["name"] for layer in engine["layers"]] == [layer["Name"] for layer in shown["Layers"]]
    assert [layer["tactic"] for layer in engine["layers"]] == [layer["TacticName"] for layer in shown["Layers"]]
    for small, layer in zip(engine["layers"], shown["Layers"], strict=True):
        assert [engine["values"][v] for v in small["out"]] == [
            [t["Name"], t["Dimensions"], t["Format/Datatype"]] for t in layer["Outputs"]
        ]
        assert "; ".join(engine["texts"][t] for t in small["why"]) == layer["Rejected"]
    measured = [layer for layer in engine["layers"] if "us" in layer]
    assert measured and all(layer["us"] > 0 or layer["tactic"] == "view" for layer in measured)
    assert engine["machine"]["peaks"] and engine["machine"]["levels"]


def test_memory_plan_is_within_the_arena_and_without_overlap(network: pathlib.Path) -> None:
    shown = json.loads(passes("inspect", network, "--json"))
    plan = shown["Memory"]
    assert plan and max(m["Offset"] + m["Bytes"] for m in plan) <= shown["ActivationBytes"]
    for i, a in enumerate(plan):
        assert 0 <= a["FirstLayer"] <= a["LastLayer"] < len(shown["Layers"])
        for b in plan[:i]:
            apart = a["LastLayer"] < b["FirstLayer"] or b["LastLayer"] < a["FirstLayer"]
            assert apart or a["Offset"] + a["Bytes"] <= b["Offset"] or b["Offset"] + b["Bytes"] <= a["Offset"]


def test_page_fetches_nothing_and_ends_no_script_early(report: pathlib.Path) -> None:
    text = report.read_text()
    assert text.count("</script>") == 2 and "<script src" not in text and "@import" not in text
    outside = [part.split('"')[0] for part in text.split('"http')[1:] if "www.w3.org/2000/svg" not in part.split('"')[0]]
    assert not outside


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz's dot is not installed")
def test_layout_places_each_layer_below_its_inputs(network: pathlib.Path) -> None:
    engine = document(write_report(network, "--noMeasure", path="other.html"))["engines"][0]
    nodes = engine["layout"]["nodes"]
    assert sorted(i for kind, i, _, _ in nodes if kind == 0) == list(range(len(engine["layers"])))
    assert [kind for kind, _, _, _ in nodes].count(1) == 1 and [kind for kind, _, _, _ in nodes].count(2) == 1
    assert len({(x, y) for _, _, x, y in nodes}) == len(nodes)
    for start, end, _, _ in engine["layout"]["edges"]:
        assert nodes[start][3] < nodes[end][3]


def test_without_dot_the_page_says_what_is_missing(network: pathlib.Path) -> None:
    page = network.parent / "nodot.html"
    done = carnot("report", network, "--noMeasure", "--output", page, env={"PATH": "/nonexistent"})
    assert done.returncode == 0 and "graphviz" in done.stderr
    assert "graphviz" in document(page)["engines"][0]["layout"]["missing"]


def test_profiles_of_each_kind_give_the_times(network: pathlib.Path) -> None:
    folder = network.parent
    passes("exec", f"--loadEngine={network}", f"--exportProfile={folder}/p.json", "--iterations=3", "--duration=0", "--warmUp=0")
    (folder / "i.json").write_text(passes("inspect", network, "--peaks", "--json"))
    passes("bench", network, "--duration=0.1", f"--exportTimeline={folder}/t.json")
    profile = {e["name"]: e["averageMs"] * 1e3 for e in json.loads((folder / "p.json").read_text()) if "name" in e}
    layers = document(write_report(network, "--noMeasure", f"--profile={folder}/p.json", path="other.html"))["engines"][0]["layers"]
    assert {layer["name"]: layer["us"] for layer in layers if "us" in layer} == pytest.approx(profile, rel=1e-3)
    inspected = json.loads((folder / "i.json").read_text())
    engine = document(write_report(network, "--noMeasure", f"--profile={folder}/i.json", path="other.html"))["engines"][0]
    for small, layer in zip(engine["layers"], inspected["Layers"], strict=True):
        assert small.get("limit_us") == pytest.approx(layer.get("LimitUs"), rel=1e-3)
    assert engine["machine"]["peaks"]
    engine = document(write_report(network, "--noMeasure", f"--profile={folder}/t.json", path="other.html"))["engines"][0]
    assert engine["timeline"]["events"] and all("us" in layer for layer in engine["layers"])


@pytest.fixture(scope="module")
def errors(network: pathlib.Path) -> pathlib.Path:
    path = network.parent / "errors.json"
    path.write_text(passes("debug", "compare", network.with_suffix(".onnx"), "--json"))
    return path


def test_errors_of_layers(network: pathlib.Path, errors: pathlib.Path) -> None:
    engine = document(write_report(network, "--noMeasure", f"--errors={errors}", path="other.html"))["engines"][0]
    told = {layer["name"]: layer for layer in json.loads(errors.read_text())["layers"]}
    known = {layer["name"]: layer["error"] for layer in engine["layers"] if "error" in layer}
    assert known.keys() == told.keys() and "stem/conv + stem/relu" in known
    for name, error in known.items():
        assert error["max_abs"] == pytest.approx(told[name]["max_abs"], rel=1e-4)
        assert error["outside"] == 0 and error["count"] == told[name]["count"]


def test_messages(network: pathlib.Path) -> None:
    bad = network.parent / "bad.json"
    bad.write_text("{}")
    assert "has no error of a layer of this engine" in fails("report", network, "--noMeasure", f"--errors={bad}")
    assert "has no time of a layer" in fails("report", network, "--noMeasure", f"--profile={bad}")
    bad.write_text("{")
    assert "is no JSON: line 1" in fails("report", network, "--noMeasure", f"--profile={bad}")
    assert "--compareProfile is given without --compare" in fails("report", network, f"--compareProfile={bad}", code=2)
    assert "usage: carnot report" in fails("report", code=2)


# ---- the timeline ----


@pytest.mark.parametrize("command", [["bench", "{plan}", "--duration=0.1"], ["exec", "--loadEngine={plan}", "--iterations=3", "--duration=0"]])
def test_timeline_nests_and_names_threads(network: pathlib.Path, command: list[str]) -> None:
    path = network.parent / "timeline.json"
    passes(*(word.format(plan=network) for word in command), f"--exportTimeline={path}", "--threads=2")
    events = json.loads(path.read_text())["traceEvents"]
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert threads == {0: "caller", 1: "worker 1"}
    spans = [e for e in events if e["ph"] == "X"]
    assert all(e["dur"] >= 0 and e["ts"] >= 0 and e["tid"] in threads for e in spans)
    (run,) = (e for e in spans if e["cat"] == "run")
    steps = [e for e in spans if e["cat"] == "layer"]
    layers = json.loads(passes("inspect", network, "--json"))["Layers"]
    assert [e["name"] for e in steps] == [layer["Name"] for layer in layers]
    assert [e["args"]["tactic"] for e in steps] == [layer["TacticName"] for layer in layers]
    slack = 0.002  # times are rounded to nanoseconds
    end = run["ts"]
    for e in steps:
        assert e["ts"] >= end - slack and e["tid"] == 0
        end = e["ts"] + e["dur"]
    assert end <= run["ts"] + run["dur"] + slack
    for e in (e for e in spans if e["cat"] == "worker"):
        step = next(s for s in steps if s["args"]["layer"] == e["args"]["layer"])
        assert e["tid"] == 1 and step["ts"] - slack <= e["ts"] and e["ts"] + e["dur"] <= step["ts"] + step["dur"] + slack


# ---- in a browser ----


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM:
        pytest.skip("Debian's chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def open_page(browser, path: pathlib.Path, size: str = "desktop", scheme: str = "light"):
    width, height = SIZES[size]
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.problems = []
    page.on("console", lambda m: page.problems.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: page.problems.append(str(e)))
    page.on("request", lambda r: page.problems.append(r.url) if r.url.startswith("http") else None)
    page.goto(f"file://{path}")
    page.wait_for_selector("html[data-ready=true]", timeout=30000)
    return page


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_opens_without_complaint(report: pathlib.Path, browser, size: str, scheme: str) -> None:
    page = open_page(browser, report, size, scheme)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the window"
    assert page.locator("nav a").all_inner_texts() == ["Overview", "Graph", "Layers", "Roofline", "Memory", "Timeline"]
    assert page.locator("html").get_attribute("data-theme") == scheme
    drawn = "c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; return new Set(new Uint32Array(d.buffer)).size }"
    page.wait_for_timeout(300)
    for canvas in (["#graph-canvas"] if shutil.which("dot") else []) + ["#memory-canvas", "#timeline-canvas"]:
        assert page.locator(canvas).evaluate(drawn) > 4, canvas
    assert page.locator("#roofline .point").count() >= 2
    assert page.problems == []
    page.close()


@pytest.mark.parametrize("size", SIZES)
def test_the_section_in_view_is_marked(report: pathlib.Path, browser, size: str) -> None:
    page = open_page(browser, report, size)
    page.emulate_media(reduced_motion="reduce")  # no smooth scrolling
    current = page.locator("nav a[aria-current]")
    assert current.all_inner_texts() == ["Overview"]
    for name in ("Layers", "Graph", "Timeline", "Overview"):
        page.locator("nav a", has_text=name).click()
        page.wait_for_timeout(200)
        assert current.all_inner_texts() == [name]
    page.close()


def test_busy_machine_is_told(report: pathlib.Path, browser) -> None:
    text = report.read_text()
    for busy in (True, False):
        copy = report.with_name("busy.html")
        engine = document(report)["engines"][0]["machine"]
        wanted = json.dumps(busy)
        copy.write_text(text.replace(f'"busy":{json.dumps(engine["busy"])}', f'"busy":{wanted}'))
        page = open_page(browser, copy)
        note = page.locator("#busy")
        assert ("the measuring thread ran" in (note.text_content() or "")) == busy
        assert note.is_visible() or not busy
        page.close()


def test_page_shows_errors(network: pathlib.Path, errors: pathlib.Path, browser) -> None:
    page = open_page(browser, write_report(network, "--noMeasure", f"--errors={errors}", path="errors.html"))
    page.locator("#table th button", has_text="Error").click()
    shown = page.evaluate("[...document.querySelectorAll('#table tbody tr')].map((r) => state.engine.layers[r.dataset.layer].error?.max_abs ?? -1)")
    assert shown == sorted(shown, reverse=True) and shown[0] > 0
    assert "Largest error" in page.locator("#cards").inner_text()
    page.locator("#table tbody tr button").first.click()
    panel = page.locator("#details").inner_text()
    assert "Outside the tolerance" in panel and "Cosine" in panel
    assert page.problems == []
    page.close()


def test_search_select_and_keys(report: pathlib.Path, browser) -> None:
    page = open_page(browser, report)
    layers = document(report)["engines"][0]["layers"]
    page.keyboard.press("/")
    page.keyboard.type("head/matmul")
    page.keyboard.press("Enter")
    assert page.locator("#found").inner_text() == "1 of 1"
    assert "head/matmul" in page.locator("#details h2").inner_text()
    conv = next(layer for layer in layers if "block/conv" in str(layer["operators"]))
    page.locator("#table tbody tr", has_text=conv["name"][:30]).first.locator("button").click()
    assert conv["tactic"] in page.locator("#details").inner_text()
    assert "tactics do not apply" in page.locator("#details summary").inner_text()
    assert page.locator("#table tr[aria-selected=true]").count() == 1
    # The markup in a name is text.
    assert page.locator("#details b, #table b").count() == 0
    page.locator("#graph-canvas").focus()
    before = page.locator("#details h2").inner_text()
    page.keyboard.press("ArrowDown")
    assert page.locator("#details h2").inner_text() != before
    page.keyboard.press("Escape")
    assert page.locator("#details").is_hidden()
    assert page.problems == []
    page.close()


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz's dot is not installed")
def test_click_in_the_graph_selects(report: pathlib.Path, browser) -> None:
    page = open_page(browser, report)
    page.fill("#search", "pool")
    page.press("#search", "Enter")
    name = page.locator("#details h2").inner_text()
    page.keyboard.press("Escape")
    page.locator("#details .close").click()
    assert page.locator("#details").is_hidden()
    page.locator("#graph-canvas").scroll_into_view_if_needed()
    page.evaluate("centre(state.engine.layers.findIndex((l) => l.name === %s))" % json.dumps(name))
    box = page.locator("#graph-canvas").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.locator("#details h2").inner_text() == name
    scale = page.evaluate("graph.scale")
    page.locator("#zoom-in").click()
    assert page.evaluate("graph.scale") > scale
    page.locator("#zoom-fit").click()
    assert page.evaluate("graph.height * graph.scale <= document.getElementById('graph-canvas').clientHeight")
    page.close()


def test_table_sorts_and_filters(report: pathlib.Path, browser) -> None:
    page = open_page(browser, report)
    count = page.locator("#table tbody tr").count()
    page.locator("#table th button", has_text="Time").click()
    numbers = page.evaluate("[...document.querySelectorAll('#table tbody tr')].map((r) => timeOf(state.engine.layers[r.dataset.layer]) ?? -1)")
    assert numbers == sorted(numbers, reverse=True) and len(numbers) == count
    assert page.locator("#table th[aria-sort=descending]").inner_text().startswith("Time")
    page.locator("#table th button", has_text="Time").click()
    assert page.locator("#table th[aria-sort=ascending]").count() == 1
    page.select_option("#filter-kind", "CONVOLUTION")
    kinds = page.locator("#table tbody tr td:nth-child(3)").all_inner_texts()
    assert kinds and set(kinds) == {"convolution"} and len(kinds) < count
    page.fill("#filter", "no such layer")
    assert page.locator("#table tbody tr").count() == 0
    page.close()


def test_compare_shows_both(network: pathlib.Path, browser) -> None:
    page = open_page(browser, write_report(network, "--noMeasure", f"--compare={network.parent}/half.plan", path="both.html"))
    assert "Compare" in page.locator("nav a").all_inner_texts()
    text = page.locator("#compare").inner_text()
    assert "m.plan" in text and "half.plan" in text and "stem/conv" in text
    page.locator("#engines button", has_text="half.plan").click()
    assert "half.plan" in page.locator("#subtitle").inner_text()
    assert page.problems == []
    page.close()


def test_five_thousand_nodes(tmp_path: pathlib.Path, browser) -> None:
    """Residual blocks of eight operators each; small tensors, as the page is what is tested."""
    nodes, last = [], "x"
    for i in range(625):
        names = [f"b{i}_{k}" for k in range(8)]
        operators = ["MaxPool", "Sigmoid", "AveragePool", "Tanh", "MaxPool", "Softmax", "AveragePool"]
        for k, operator in enumerate(operators):
            extra = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]} if "Pool" in operator else {}
            nodes.append(helper.make_node(operator, [names[k - 1] if k else last], [names[k]], names[k], **extra))
        nodes.append(helper.make_node("Add", [names[6], last], [names[7]], names[7]))
        last = names[7]
    nodes[-1].output[0] = "y"
    model = save(tmp_path / "m.onnx", nodes, {"x": [1, 2, 4, 4]}, {"y": [1, 2, 4, 4]})
    plan = tmp_path / "m.plan"
    passes("build", model, "--output", plan, "--builderOptimizationLevel=0")
    path = write_report(plan, "--noMeasure")
    assert path.stat().st_size <= 5e6
    page = open_page(browser, path)
    assert page.evaluate("state.engine.layers.reduce((n, l) => n + l.operators.length, 0)") >= 5000
    page.fill("#search", "b600_7")
    page.press("#search", "Enter")
    assert "b600_7" in page.locator("#details h2").inner_text()
    assert page.problems == []
    page.close()
