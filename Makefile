# Carnot: `make demo` shows the main job, `make test` runs everything that a change must pass.
BUILD  ?= build
VENV   ?= $(BUILD)/venv
PYTHON ?= python3
JOBS   ?= $(shell nproc)

.PHONY: setup build demo test test-long conformance fuzz clean

build: setup
	cmake -G Ninja -B $(BUILD) -DCMAKE_BUILD_TYPE=Release
	ninja -C $(BUILD) -j$(JOBS)

setup:
	@tools/dev/setup $(BUILD)

$(VENV)/python.stamp: tools/dev/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --requirement tools/dev/requirements.txt
	@touch $@

$(BUILD)/conformance/onnx_version.txt: $(VENV)/python.stamp tests/conformance/export_cases.py
	$(VENV)/bin/python tests/conformance/export_cases.py $(BUILD)/conformance

SETS = $(addprefix $(BUILD)/conformance/,node light simple pytorch-converted pytorch-operator)

demo: build $(VENV)/python.stamp
	@demo/demo.sh $(BUILD)

conformance: build $(BUILD)/conformance/onnx_version.txt
	$(BUILD)/bin/conformance $(SETS)

test: build $(BUILD)/conformance/onnx_version.txt
	tools/dev/checks $(BUILD)
	tools/dev/sanitize $(BUILD)
	ctest --test-dir $(BUILD) --output-on-failure --timeout 900

# The full matrices: every ISA level this machine has, passes off, sanitizers, longer fuzzing.
test-long: test
	tools/dev/test_long $(BUILD)

# SECONDS= of each target.
FUZZ_SECONDS ?= 300
fuzz: build
	tools/dev/fuzz $(BUILD) $(FUZZ_SECONDS)

clean:
	rm -rf $(BUILD) $(BUILD)-*
