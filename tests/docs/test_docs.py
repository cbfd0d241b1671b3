"""The documentation beside the program: what pages name exists, what the program prints is documented, figures are those of the data."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARNOT = os.environ["CARNOT"]
BUILD = pathlib.Path(CARNOT).resolve().parents[1]
MODEL = str(ROOT / "demo/digits.onnx")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
REFERENCE = (ROOT / "docs/reference.md").read_text()


def carnot(*arguments: str, code: int = 0) -> str:
    done = subprocess.run([CARNOT, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def section(title: str) -> str:
    """The text of reference.md below a heading that begins with |title|."""
    found = re.search(rf"^## {re.escape(title)}.*?(?=^## |\Z)", REFERENCE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[0]


def keys(value: object) -> set:
    if isinstance(value, dict):
        return set(value) | {k for v in value.values() for k in keys(v)}
    return {k for v in value for k in keys(v)} if isinstance(value, list) else set()


# ---- the reference page ----


@pytest.fixture(scope="module")
def zeros(tmp_path_factory: pytest.TempPathFactory) -> str:
    import numpy as np

    path = tmp_path_factory.mktemp("docs") / "x.npy"
    np.save(path, np.zeros((1, 1, 28, 28), np.float32))
    return f"--input=x={path}"


@pytest.mark.parametrize("command", ["bench", "inspect", "compare", "run", "device"])
def test_every_json_field_is_documented(command: str, zeros: str) -> None:
    shape = "--shapes=x:1x1x28x28"
    arguments = {
        "bench": [MODEL, shape, "--duration=0.02", "--times"],
        "inspect": [MODEL, shape, "--peaks"],
        "compare": [MODEL, MODEL, zeros],
        "run": [MODEL, zeros],
        "device": [],
    }[command]
    printed = json.loads(carnot(command, *arguments, "--json"))
    printed.pop("tactics", None)  # its keys are names of tactics
    known = set(re.findall(r"`([\w/]+)`", section("JSON of `carnot run" if command == "device" else f"JSON of `carnot {command}")))
    assert keys(printed) - known == set()
    if command == "bench":  # and nothing is documented that is not printed
        fields = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", section("JSON of `carnot bench"), re.MULTILINE))))
        assert fields - keys(printed) == {"tactics"}


def test_environment_variables_are_those_of_the_program() -> None:
    source = (ROOT / "src/tactic/environment.c").read_text()
    known = set(re.findall(r'\{"(CARNOT_\w+)", \w+, false\}', source))
    documented = set(re.findall(r"^\| `(CARNOT_\w+)`", section("Environment variables"), re.MULTILINE))
    assert known and documented == known


def test_exit_codes(tmp_path: pathlib.Path, zeros: str) -> None:
    carnot("compare", MODEL, MODEL, zeros, code=0)
    carnot("compare", MODEL, str(tmp_path / "absent.onnx"), zeros, code=2)
    carnot("run", str(tmp_path / "absent.onnx"), code=1)
    carnot("bench", MODEL, "--bathc=1", code=2)
    carnot("no-such-command", code=2)


# ---- messages ----


def sources() -> str:
    """All C and Python sources, with adjacent string literals joined."""
    text = "\n".join(
        path.read_text() for folder in ("src", "tools/carnot", "python/carnot") for path in sorted((ROOT / folder).rglob("*.*"))
        if path.suffix in (".c", ".h", ".py")
    )
    return re.sub(r'"\s*\n\s*f?"', "", text)


def test_messages_are_those_of_the_program() -> None:
    """Each quoted message is a string of the sources, apart from what it fills in (…, names, numbers)."""
    text = sources()
    rows = re.findall(r"^\| (.*?) \|", (ROOT / "docs/messages.md").read_text(), re.MULTILINE)
    quoted = [message for row in rows for message in re.findall(r"`([^`]+)`", row) if " " in message]
    assert len(quoted) > 15
    for message in quoted:
        for part in re.split(r"…|\bx\b|\d+|=FILE", message):
            part = part.strip(" ;:,'")
            assert len(part) < 4 or part in text, f"no source prints {part!r} of {message!r}"


# ---- names in pages ----


def commands() -> list:
    """Lines of pages that call carnot, in blocks or in inline code."""
    lines = []
    for page in PAGES:
        text = re.sub(r"\\\n\s*", " ", page.read_text())
        for code in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) + re.findall(r"`(carnot [^`\n]+)`", text):
            lines += [(page.name, line) for line in code.splitlines() if re.match(r"\s*(\$ )?(\w+=\S+ )*carnot ", line)]
    return lines


def test_commands_and_flags_exist() -> None:
    known = set(re.findall(r"--(\w[\w-]*)", carnot("completion", "man").replace("\\-", "-")))
    # outptu is the typing error that messages.md explains.
    names = set(re.findall(r"^  carnot (\w+)", carnot("help"), re.MULTILINE)) | {"help"}
    assert len(commands()) > 60
    for page, line in commands():
        words = line.split("#")[0].split("carnot ", 1)[1]
        name = words.split()[0]
        assert name in names or name.startswith("--"), f"{page}: there is no command carnot {name}: {line}"
        for flag in re.findall(r"(?<!\S)--(\w[\w-]*)", words.split("|")[0]):
            assert flag in known | {"version", "outptu"}, f"{page}: there is no flag --{flag}: {line}"


def test_headers_and_files_exist() -> None:
    for page in PAGES:
        text = page.read_text()
        for header in re.findall(r"carnot/(\w+\.(?:hpp|h))\b", text):
            assert (ROOT / "include/carnot" / header).exists(), f"{page.name} names carnot/{header}"
        for path in re.findall(r"`((?:examples|demo|tests|tools|bench)/[\w./-]+\.\w+)`", text):
            assert (ROOT / path).exists(), f"{page.name} names {path}"


# ---- pictures and figures ----


def test_pictures_are_those_of_the_data() -> None:
    subprocess.run([sys.executable, ROOT / "tools/dev/pictures", "--check"], check=True)
    for name in ("speed", "roofline", "pipeline"):
        for theme in ("light", "dark"):
            xml.etree.ElementTree.parse(ROOT / f"docs/pictures/{name}-{theme}.svg")
            assert f"docs/pictures/{name}-{theme}.svg" in (ROOT / "README.md").read_text()


def test_a_changed_measurement_needs_a_new_picture(tmp_path: pathlib.Path) -> None:
    for name in ("tools/dev", "docs/results", "docs/pictures"):
        shutil.copytree(ROOT / name, tmp_path / name)
    data = json.loads((tmp_path / "docs/results/models-cpu.json").read_text())
    data["models"][0]["carnot"] *= 2
    data["models"][1]["openvino"] = 10.0
    (tmp_path / "docs/results/models-cpu.json").write_text(json.dumps(data))
    program = tmp_path / "tools/dev/pictures"
    done = subprocess.run([sys.executable, program, "--check"], capture_output=True, text=True)
    assert done.returncode == 1 and "speed-light.svg" in done.stdout
    subprocess.run([sys.executable, program], check=True)
    assert "OpenVINO" in (tmp_path / "docs/pictures/speed-dark.svg").read_text()
    subprocess.run([sys.executable, program, "--check"], check=True)


def test_the_chart_shows_the_table() -> None:
    models = json.loads((ROOT / "docs/results/models-cpu.json").read_text())["models"]
    page = (ROOT / "docs/models.md").read_text().split("## The tables of `make bench`")[0]
    rows = re.findall(r"^\| (\S+) \| ([\d.]+) \| ([\d.]+) \| [\d.]+ \| ([\d.]+) \| \d+ \|", page, re.MULTILINE)
    shown = [(m["model"], m["carnot"], m["onnxruntime"], m["openvino"]) for m in models]
    assert shown == [(name, *map(float, times)) for name, *times in rows]


# ---- the tools themselves ----


def run_docs(tmp_path: pathlib.Path, text: str) -> "subprocess.CompletedProcess[str]":
    page = tmp_path / "page.md"
    page.write_text(text)
    return subprocess.run([sys.executable, ROOT / "tools/dev/run_docs", BUILD, page], capture_output=True, text=True)


def test_run_docs_counts(tmp_path: pathlib.Path) -> None:
    done = run_docs(tmp_path, "```sh\ncarnot --version > v\n```\n\n```python\nassert open('v').read()\n```\n\n"
                    "<!-- run_docs: skip, a reason -->\n```sh\nfalse\n```\n\n<!-- run_docs: exit 3, a reason -->\n```sh\nexit 3\n```\n")  # fmt: skip
    assert done.returncode == 0 and done.stdout.endswith("3 blocks ran, 0 failed, 1 marked\n"), done.stdout
    assert "a reason" in done.stdout


@pytest.mark.parametrize(
    "text, said",
    [
        ("```sh\nfalse\ntrue\n```\n", "exit code 1"),
        ("```python\nraise SystemExit(4)\n```\n", "exit code 4"),
        ("<!-- run_docs: exit 2, a reason -->\n```sh\ntrue\n```\n", "2 is expected"),
        ("<!-- run_docs: skip -->\n```sh\nfalse\n```\n", "has no reason"),
        ("```\ncarnot bench x\n```\n", "without a language"),
        ("```sh\ntrue\n", "has no end"),
    ],
)
def test_run_docs_fails(tmp_path: pathlib.Path, text: str, said: str) -> None:
    done = run_docs(tmp_path, text)
    assert done.returncode == 1 and said in done.stdout + done.stderr


@pytest.mark.parametrize(
    "text, said",
    [
        ("[a](absent.md)", "absent.md is not there"),
        ('<img src="absent.svg">', "absent.svg is not there"),
        ("[a](other.md#nothing) [b](end.md)", "no heading #nothing"),
        ("[a](other.md)", "end.md: no chain of links"),
    ],
)
def test_dead_links_and_dead_ends(tmp_path: pathlib.Path, text: str, said: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/start.md").write_text(f"# Start\n{text}\n")
    (tmp_path / "docs/other.md").write_text("# Some heading\n[back](start.md#start) `[code](no-link)`\n")
    (tmp_path / "docs/end.md").write_text("# End\n")
    done = subprocess.run([sys.executable, ROOT / "tools/dev/check_links.py", "docs/start.md", "docs"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and said in done.stdout


# ---- layers of Caffe ----


def caffe_layers() -> list[str]:
    """A line of the table for each row of the importer's tables."""
    row = re.compile(r'\{"(\w+)",\s*handle_\w+,\s*(NULL|"\w+"),\s*-?\d+,\s*-?\d+,\s*\w+,\s*(NULL|"[^"]*")\}')
    found = [r for path in sorted((ROOT / "src/import/caffe").glob("rows_*.c")) for r in row.findall(path.read_text())]
    lines = []
    for kind, parameters, note in sorted(found):
        cells = ["" if cell == "NULL" else cell.strip('"') for cell in (parameters, note)]
        lines.append(f"| {kind} | {f'`{cells[0]}`' if cells[0] else ''} | {cells[1]} |")
    return lines


def test_every_layer_of_caffe_is_documented() -> None:
    text = (ROOT / "docs/how-to-import-caffe.md").read_text()
    assert len(caffe_layers()) >= 57
    table = text[text.index("| layer |") :].split("\n\n")[0].splitlines()[2:]
    assert table == [*caffe_layers(), "| Input | `input_param` |  |"]
