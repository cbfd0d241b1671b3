#!/usr/bin/env bash
# The suites on a GPU: conformance through the CUDA backend, layers of halves at odd sizes, models beside the
# processor's rows at two shapes, and short sets under compute-sanitizer. BUILD is a build tree or an unpacked
# bundle (tools/dev/device_bundle). Usage: test_cuda.sh BUILD [PART ..], all parts without one: conformance layers
# gate models streams sanitizers
set -u
build=$(realpath "$1")
shift
wanted=${*:-conformance layers gate models streams sanitizers}
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

# Cases in parts, a process each: a device has room for several.
parts=$(($(nproc) > 14 ? 14 : $(nproc)))
i=0
for case in "$cases"/* "$build"/conformance/constant/*; do
  part=$scratch/part.$(basename "$(dirname "$case")")$((i % parts))  # the two sets share names
  mkdir -p "$part"
  ln -s "$case" "$part/"
  i=$((i + 1))
done
conformance() {
  local part
  for part in "$scratch"/part.*; do
    "$build/bin/conformance" --together --backend=cuda "$@" "$part" > "$scratch/log.$(basename "$part")" 2>&1 &
  done
  wait
  grep -ahE "^FAILED" "$scratch"/log.* | cut -c1-300
  grep -ahE "^[0-9]+ passed" "$scratch"/log.* |
    awk -v flags="$*" '{p += $1; f += $3; s += $5; n++}
                       END {print "conformance", flags ":", p + 0, "passed,", f + 0, "failed,", s + 0, "skipped"
                            exit f != 0 || n != parts}' parts="$(ls -d "$scratch"/part.* | wc -l)" || failed=1
}
if is_wanted conformance; then
  conformance
  conformance --noPasses
fi

run() { # a script of checks that prints a line for each
  "$python" "$here/$1" "${@:2}" > "$scratch/log" 2>&1 || failed=1
  grep -a "^FAILED" "$scratch/log" | cut -c1-300
  echo "$1: $(grep -ac ^passed "$scratch/log") passed, $(grep -ac ^FAILED "$scratch/log") failed"
}
if is_wanted layers; then
  run fused_rows.py "$build/bin/carnot"
  run tile_sizes.py "$build/bin/carnot"
  run few_channels.py "$build/bin/carnot"
  run plain_rows.py "$build/bin/carnot"
fi

for gate in "$build"/bin/gate_{conv,gemm,transformer,dynamic,repeat,threads,layers}_test; do
  is_wanted gate || break
  CARNOT_GATE_DEVICE=cuda "$gate" > "$scratch/log" 2>&1 || { failed=1; grep -aE "ERROR|FAILED" "$scratch/log"; }
  echo "$(basename "$gate"): $(grep -a "PASSED" "$scratch/log")"
done

models=${CARNOT_MODELS:-$HOME/.cache/carnot-models}
for model in "$models"/*.onnx; do
  is_wanted models || break
  [ -e "$model" ] || { echo "skipped: no models in $models"; break; }
  for dim in 1 5; do
    "$python" "$here/compare_places.py" "$build/bin/carnot" "$model" "$dim" || failed=1
  done
done

if is_wanted streams; then
  timed=()
  for name in resnet50 bert_base; do
    [ ! -e "$models/$name.onnx" ] || timed+=("$models/$name.onnx")
  done
  "$python" "$here/streams.py" "$build/bin/carnot" "$build/lib/libcarnot_runtime.so" "${timed[@]}" || failed=1
fi

is_wanted sanitizers || exit $failed
if ! command -v compute-sanitizer > /dev/null; then
  echo "skipped: no compute-sanitizer"
  exit $failed
fi
for tool in memcheck racecheck; do
  sanitizer="compute-sanitizer --tool $tool --error-exitcode 9 --print-limit 5"
  for set in softmax layer_normalization averagepool matmul conv_ reduce_mean concat resize_up topk scatter; do
    # shellcheck disable=SC2086
    $sanitizer "$build/bin/conformance" --together --backend=cuda --filter="test_$set" "$cases" \
      > "$scratch/log" 2>&1 || { failed=1; tail -20 "$scratch/log"; }
    echo "$tool $set: $(grep -a "passed" "$scratch/log" | tail -1)"
  done
  # shellcheck disable=SC2086
  run fused_rows.py '--only=(1,' $sanitizer "$build/bin/carnot"
  # shellcheck disable=SC2086
  run tile_sizes.py '--only=(1,' $sanitizer "$build/bin/carnot"
done
exit $failed
