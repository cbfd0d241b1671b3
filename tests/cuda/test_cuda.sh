#!/usr/bin/env bash
# The suites on a GPU: conformance through the CUDA backend, layers in half precision at odd sizes, models against the
# CPU backend at two shapes, and short sets under compute-sanitizer. BUILD is a build tree or an unpacked bundle
# (tools/dev/device_bundle). Needs python3 with numpy, onnx, onnxruntime and pytest; streams and python also PyTorch,
# python also cffi. Usage: test_cuda.sh BUILD [PART ..], all parts without one: conformance layers integration python models
# sanitizers streams (the last measures: it runs alone)
set -u
build=$(realpath "$1")
shift
wanted=${*:-conformance layers integration python models sanitizers streams}
is_wanted() { case " $wanted " in *" $1 "*) ;; *) false ;; esac; }
cases=$build/conformance/node
here=$(dirname "$(realpath "$0")")
python=${PYTHON:-python3}
export CARNOT=$build/bin/carnot CARNOT_MODELS=${CARNOT_MODELS:-$HOME/.cache/carnot-models}
if ! nvidia-smi > /dev/null 2>&1; then
  echo "skipped: no device"
  exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# Commands that run at once, each with a log; `joined` waits for them and prints a line of each log, in order.
jobs=()
at_once() { # NAME COMMAND ..
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
  jobs+=("$1")
  { "${@:2}" > "$scratch/$1.log" 2>&1 || touch "$scratch/$1.failed"; } &
}
joined() { # PATTERN of the line to print; of a failed job the end of its log without passed cases
  wait
  local name
  for name in "${jobs[@]}"; do
    if [ -e "$scratch/$name.failed" ]; then
      failed=1
      echo "FAILED $name:"
      grep -av ^passed "$scratch/$name.log" | tail -30 | cut -c1-600
    else
      echo "$name: $(grep -aE "$1" "$scratch/$name.log" | tail -1)"
    fi
  done
  jobs=()
}

conformance() { # "SET .." OPTION ..: the cases in parts, a process each, which share the device
  local parts=$(($(nproc) > 14 ? 14 : $(nproc))) i=0 set case part
  rm -rf "$scratch/cases"
  for set in $1; do
    for case in "$build/conformance/$set"/*; do
      part=$scratch/cases/$set$((i++ % parts)) # the sets share names
      mkdir -p "$part"
      ln -s "$case" "$part/"
    done
  done
  shift
  for part in "$scratch"/cases/*[0-9]; do
    "$build/bin/conformance" --together --backend=cuda "$@" "$part" > "$part.log" 2>&1 &
  done
  wait
  grep -ahE "^FAILED" "$scratch"/cases/*.log | cut -c1-300
  grep -ahE "^[0-9]+ passed" "$scratch"/cases/*.log |
    awk -v flags="$*" '{p += $1; f += $3; s += $5; d += $7; n++}
                       END {print "conformance", flags ":", p + 0, "passed,", f + 0, "failed,", s + 0, "skipped,",
                              d + 0, "without a step on the processor"
                            exit f != 0 || n != parts}' parts="$(ls -d "$scratch"/cases/*[0-9] | wc -l)" || failed=1
}
if is_wanted conformance; then
  conformance "node constant symbolic microsoft"
  conformance "node constant microsoft" --noPasses
fi

"$python" -c 'import pytest' || { echo "FAILED: $python has no pytest" && exit 1; }
checks() { # MODULE [OPTION ..]: its cases on the GPU
  "$python" -W ignore::FutureWarning -m pytest -q -p no:cacheprovider --device=gpu "$here/$1.py" "${@:2}"
}
alone() { # NAME COMMAND ..: it keeps all CPU cores busy itself
  at_once "$@"
  joined "^[0-9]+ (passed|skipped)"
}
if is_wanted layers; then
  for module in gemm_tiles concat_in_place mixed_heads unrolled_steps quantized_regions weight_only calibrated fused_epilogues small_channels generic_layers data_dependent; do
    alone "$module" checks "test_$module"
  done
fi

if is_wanted integration; then
  export CARNOT_TEST_DEVICE=cuda
  for name in conv gemm transformer dynamic repeat threads layers; do
    at_once "integration_$name" "$build/bin/integration_${name}_test"
  done
  joined PASSED
  unset CARNOT_TEST_DEVICE
fi

if is_wanted python; then
  PYTHONPATH=$build/python:${PYTHONPATH:-} checks test_python_api -rs || failed=1
fi

if is_wanted models; then
  alone models checks test_placement -rP
fi

if is_wanted sanitizers && ! command -v compute-sanitizer > /dev/null; then
  echo "skipped: no compute-sanitizer"
elif is_wanted sanitizers; then
  for tool in memcheck racecheck; do
    for set in softmax layer_normalization averagepool matmul conv_ reduce_mean concat resize_up top_k scatter; do
      at_once "${tool}_$set" timeout 300 compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 5 \
        "$build/bin/conformance" --together --backend=cuda --filter="test_$set" "$cases"
    done
  done
  joined passed
  for tool in memcheck racecheck; do
    # racecheck reports hazards inside a kernel of cuBLASLt.
    [ "$tool" = memcheck ] || export CARNOT_CUDA_TACTICS=-cuda_gemm_cublaslt,cuda_conv_cudnn
    for module in fused_epilogues gemm_tiles; do
      alone "${tool}_$module" checks "test_$module" '--only=(1,|merged' '--only=fp16|merged' --untimed \
        --wrapper="compute-sanitizer --tool $tool --error-exitcode 9 --print-limit 5"
    done
  done
  unset CARNOT_CUDA_TACTICS
fi

if is_wanted streams; then
  checks test_streams -rsP || failed=1
fi
exit $failed
