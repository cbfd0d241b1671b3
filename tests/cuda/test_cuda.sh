#!/usr/bin/env bash
# The suites on a GPU: conformance through the CUDA backend, models beside the CPU's rows, a short set under
# compute-sanitizer. Usage: test_cuda.sh BUILD
set -u
build=$1
cases=$build/conformance/node
if ! nvidia-smi > /dev/null 2>&1; then
  echo "skipped: no device"
  exit 0
fi
failed=0
"$build/bin/conformance" --together --backend=cuda "$cases" || failed=1
"$build/bin/conformance" --together --backend=cuda --noPasses "$cases" || failed=1
for model in "${CARNOT_MODELS:-$HOME/.cache/carnot-models}"/*.onnx; do
  [ -e "$model" ] || { echo "skipped: no models in ${CARNOT_MODELS:-$HOME/.cache/carnot-models}"; break; }
  "${PYTHON:-python3}" tests/cuda/compare_places.py "$build/bin/carnot" "$model" || failed=1
done
for tool in memcheck racecheck; do
  for set in softmax layer_normalization averagepool matmul conv_ reduce_mean concat; do
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/bin/conformance" --together --backend=cuda \
      --filter="test_$set" "$cases" > "$build/sanitizer.log" 2>&1 || { failed=1; tail -20 "$build/sanitizer.log"; }
    echo "$tool $set: $(grep -a passed "$build/sanitizer.log")"
  done
done
exit $failed
