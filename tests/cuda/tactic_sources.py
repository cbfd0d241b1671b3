#!/usr/bin/env python3
"""What libraries an engine calls, by --tacticSources and by what loading them costs, with a stand-in of cuBLASLt on the library path and the stand-in driver.

Usage: tactic_sources.py CARNOT
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import onnx
from fused_rows import Net

LIBRARY, OWN = "cuda_gemm_cublaslt", "cuda_gemm_32x32"


def network(rows: int, depth: int, columns: int) -> onnx.ModelProto:
    net = Net(x=[rows, depth])
    return net.model(net.add("Gemm", "x", net.weight(depth, columns), net.weight(columns)))


def main() -> int:
    good = True

    def check(name: str, holds: bool, said: str) -> None:
        nonlocal good
        good &= holds
        print(f"passed {name}" if holds else f"FAILED {name}: {said[-600:]}", flush=True)

    def carnot(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True,
                              env={**os.environ, **environment})

    with tempfile.TemporaryDirectory() as folder:
        model, plan = pathlib.Path(folder) / "net.onnx", pathlib.Path(folder) / "net.plan"
        onnx.save(network(8, 16, 24), model)

        def layers_of(*flags: str) -> tuple[list[str], list[str], str]:
            """Tactics and libraries of the engine, and why others were not taken."""
            done = carnot("build", model, "--output", plan, "--backend=cuda:sm_90", *flags)
            if done.returncode:
                return [], [], done.stderr
            told = json.loads(carnot("inspect", plan, "--json").stdout)
            return ([layer["TacticName"] for layer in told["Layers"]], told["Libraries"],
                    " ".join(layer["Rejected"] for layer in told["Layers"]))

        tactics, libraries, why = layers_of()
        check("all sources are on", LIBRARY in tactics and libraries == ["cuBLASLt"], f"{tactics} {libraries} {why}")
        tactics, libraries, why = layers_of("--tacticSources=-CUBLAS_LT,-CUDNN")
        check("a source that is off is left out", OWN in tactics and libraries == [], f"{tactics} {libraries} {why}")
        check("the reason is told", f"{LIBRARY}: needs cuBLASLt, which the tactic sources leave out" in why, why)
        told = carnot("inspect", plan).stdout
        check("inspect tells what an engine needs", "libraries: none but the driver" in told, told)
        done = carnot("bench", plan, "--iterations=1", "--duration=0", LD_LIBRARY_PATH="")
        check("the driver alone runs it", done.returncode == 0, done.stderr)
        tactics, libraries, why = layers_of("--tacticSources=-CUBLAS_LT,+CUBLAS_LT")
        check("a source is put back", LIBRARY in tactics, why)
        for wrong in ("CUDNN", "-CUDN", "+"):
            _, _, said = layers_of(f"--tacticSources={wrong}")
            check(f"{wrong} is refused", f"tactic source '{wrong}' must be + or -" in said, said)
        done = carnot("exec", f"--onnx={model}", "--backend=cuda:sm_90", "--skipInference", f"--saveEngine={plan}",
                      "--tacticSources=-CUBLAS_LT")
        tactics = json.loads(carnot("inspect", plan, "--json").stdout)["Layers"]
        check("exec takes it too", OWN in [layer["TacticName"] for layer in tactics], done.stderr)
        # A millisecond of loading is worth a nanosecond of a run; what the timing cache holds decides.
        onnx.save(network(64, 64, 64), model)
        cache, rows = pathlib.Path(folder) / "times", f"{LIBRARY},cuda_tile_64x64"
        times = {LIBRARY: 1000, "cuda_tile_64x64": 1200, "start": 300000000}  # close: the descent tries both, in vain

        def libraries_with(times: dict[str, int | None]) -> tuple[list[str], str]:
            """Of an engine built where these times (None: none) stood under the keys of the build before; its cache."""
            lines = [line.split() for line in cache.read_text().splitlines()[1:]] if cache.exists() else []
            cache.write_text("\n".join(["carnot-timing-cache 1",
                                        *(f"{key} {what} {times.get(what, ns)}" for key, what, ns in lines
                                          if times.get(what, ns) is not None), ""]))
            done = carnot("build", model, "--output", plan, "--backend=cuda", "--fp16", f"--timingCacheFile={cache}",
                          CARNOT_CUDA_ROWS=rows)
            told = json.loads(carnot("inspect", plan, "--json").stdout)["Libraries"] if done.returncode == 0 else []
            return told, f"{done.stderr} {cache.read_text()}"

        libraries_with({})
        _, said = libraries_with({**times, "with": None, "without": None})
        check("the run is timed with the library and without", said.count(LIBRARY) == 2 and " without " in said, said)
        for without, stays in ((1300, True), (1299, False), (900, False), (2000, True)):
            libraries, said = libraries_with({**times, "with": 1000, "without": without})
            check(f"300 ms of loading for {without - 1000} ns of a run: {'used' if stays else 'left out'}",
                  ("cuBLASLt" in libraries) == stays and " without " in said, f"{libraries} {said}")
    return not good


if __name__ == "__main__":
    sys.exit(main())
