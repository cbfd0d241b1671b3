#!/usr/bin/env bash
# The main job in seven acts. Usage: demo.sh BUILD
set -eu
build=$1
carnot=$build/bin/carnot
python=$build/venv/bin/python
work=$build/demo
mkdir -p "$work"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '$ %s\n' "$(echo "$*" | sed "s#$build/bin/##g")"; "$@"; }

say "1. A model that reads digits, on pictures of any size and colour"
show "$carnot" build demo/digits.onnx --output "$work/digits.plan"
"$python" demo/draw_digits.py "$work/digits"
for digit in 2 3 7 9; do show "$carnot" run "$work/digits.plan" --input x="$work/digits/$digit.png" --top 3; done

say "2. The same weights as a frozen graph of TensorFlow and as a network of Caffe"
"$python" demo/write_small_models.py "$work"
show "$carnot" run "$work/digits.pb" --input picture="$work/digits/5.png" --scale=0.00392157 --top 3
show "$carnot" run "$work/digits.prototxt" --model="$work/digits.caffemodel" --input picture="$work/digits/5.png" --scale=0.00392157 --top 3

say "3. ResNet-50 beside ONNX Runtime"
"$python" demo/compare_resnet50.py "$carnot" "$work"

say "4. The same with trtexec's command line"
show "$carnot" exec --loadEngine="$work/resnet50.plan" --duration=0.5 --percentile=90

say "5. Python for TensorRT: polygraphy as it comes from PyPI, without a GPU"
show "$python" -m carnot.alias -m polygraphy run demo/digits.onnx --trt --onnxrt --input-shapes "x:[1,1,28,28]" --silent
echo "(exit code $?: TensorRT's interface and ONNX Runtime agree)"

say "6. What an error looks like: a model with nodes that nobody knows"
"$python" demo/make_unsupported.py "$work/unsupported.onnx"
if show "$carnot" build "$work/unsupported.onnx" --output "$work/unsupported.plan"; then echo "this should have failed"; exit 1; fi
echo "(exit code 1, as it should be)"

say "7. The report page of ResNet-50: graph, layers, roofline, memory, timeline"
show "$carnot" report "$work/resnet50.plan" --output "$work/resnet50.html"
echo "open it in a browser: file://$(realpath "$work/resnet50.html")"
