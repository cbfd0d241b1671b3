#!/usr/bin/env bash
# Times Carnot, and PyTorch by the script PEERS, on the same GPU. Usage: bench_cuda.sh BUILD [PEERS]
set -u
build=$1
models=${CARNOT_MODELS:-$HOME/.cache/carnot-models}
if ! nvidia-smi > /dev/null 2>&1; then
  echo "skipped: no device"
  exit 0
fi
for model in "$models"/*.onnx; do
  for batch in 1 32; do
    case $(basename "$model") in
      bert_*|minilm*) shapes=input_ids:${batch}x128,attention_mask:${batch}x128 ;;
      lstm*|gpt2*) continue ;;
      *) shapes=input:${batch}x3x224x224 ;;
    esac
    "$build/bin/carnot" bench "$model" --backend=cuda --shapes=$shapes --duration=1 || echo "FAILED $model"
  done
done
[ $# -lt 2 ] || "${PYTHON:-python3}" "$2"
