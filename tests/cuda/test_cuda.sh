#!/usr/bin/env bash
# The suites on a GPU: conformance through the CUDA backend, layers of halves at odd sizes, models beside the
# processor's rows at two shapes, and short sets under compute-sanitizer. BUILD is a build tree or an unpacked
# bundle (tools/dev/device_bundle). Usage: test_cuda.sh BUILD [PART ..], all parts without one: conformance layers
# gate python models sanitizers streams (the last measures: it runs alone)
set -u
build=$(realpath "$1")
shift
wanted=${*:-conformance layers gate python models sanitizers streams}
is_wanted() { case " $wanted " in *" $1 "*) ;; *) false ;; esac; }
cases=$build/conformance/node
here=$(dirname "$(realpath "$0")")
python=${PYTHON:-python3}
if ! nvidia-smi > /dev/null 2>&1; then
  echo "skipped: no device"
  exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# Commands that run at once, each with a log; `joined` prints what `show` finds in each, in order.
jobs=()
at_once() { # NAME COMMAND ..
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
  jobs+=("$1")
  { "${@:2}" > "$scratch/$1.log" 2>&1 || touch "$scratch/$1.failed"; } &
}
joined() { # PATTERN of the line to print; of a job that failed all but what passed
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

conformance() { # "SET .." OPTION ..: cases in parts, a process each: a device has room for several
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
  conformance "node constant symbolic"
  conformance "node constant" --noPasses
fi

checks() { # SCRIPT that prints a line for each of its checks
  local log rc
  log=$(mktemp -p "$scratch")
  "$python" "$here/$1" "${@:2}" > "$log" 2>&1
  rc=$?
  cat "$log"
  echo "$(grep -ac ^passed "$log") of its checks passed"
  return "$rc"
}
alone() { # NAME COMMAND ..: it keeps all processors busy itself
  at_once "$@"
  joined "checks passed$"
}
if is_wanted layers; then
  for script in tile_sizes fused_rows few_channels plain_rows late_steps; do
    alone "$script" checks "$script.py" "$build/bin/carnot"
  done
fi

if is_wanted gate; then
  export CARNOT_GATE_DEVICE=cuda
  for gate in conv gemm transformer dynamic repeat threads layers; do
    at_once "gate_$gate" "$build/bin/gate_${gate}_test"
  done
  joined PASSED
  unset CARNOT_GATE_DEVICE
fi

if is_wanted python; then
  PYTHONPATH=$build/python:${PYTHONPATH:-} "$python" -W ignore::FutureWarning "$here/python_api.py" || failed=1
fi

models=${CARNOT_MODELS:-$HOME/.cache/carnot-models}
if is_wanted models; then
  for model in "$models"/*.onnx; do
    [ -e "$model" ] || { echo "skipped: no models in $models"; break; }
    for dim in 1 5; do
      at_once "$(basename "$model" .onnx)_$dim" "$python" "$here/compare_places.py" "$build/bin/carnot" "$model" "$dim"
    done
  done
  joined .
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
    # In a kernel of cuBLASLt racecheck finds hazards.
    [ "$tool" = memcheck ] || export CARNOT_CUDA_ROWS=-cuda_gemm_cublaslt,cuda_conv_cudnn
    for script in fused_rows tile_sizes; do
      alone "${tool}_$script" checks "$script.py" '--only=(1,' --only=--fp16 --untimed \
        compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 5 "$build/bin/carnot"
    done
  done
  unset CARNOT_CUDA_ROWS
fi

if is_wanted streams; then
  timed=()
  for name in resnet50 bert_base; do
    [ ! -e "$models/$name.onnx" ] || timed+=("$models/$name.onnx")
  done
  "$python" "$here/streams.py" "$build/bin/carnot" "$build/lib/libcarnot_runtime.so" "${timed[@]}" || failed=1
fi
exit $failed
