"""Llama-like decoders of random weights as files write them, for bench/decoders.py and the tests.

FORMS names the ways: "concat" and "scatter" are ONNX's own Attention with past keys and values or with caches that
TensorScatter writes, "genai" is what the builder of onnxruntime-genai writes (GroupQueryAttention over packed
projections), "genai4" the same with weights of 4 bits, "dynamo" and "torchscript" are PyTorch's exporters.
"""
import dataclasses
import pathlib
import warnings

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

BLOCK = 32  # weights of 4 bits that share a scale


@dataclasses.dataclass
class Size:
    layers: int = 8
    hidden: int = 1024
    heads: int = 16
    kv_heads: int = 4
    middle: int = 2816
    vocabulary: int = 32000
    positions: int = 2048

    @property
    def head(self) -> int:
        return self.hidden // self.heads


class Graph:
    """Nodes and weights as they are made; an operator returns the name of its first output."""

    def __init__(self, size: Size, bits: int = 32):
        self.size, self.bits = size, bits
        self.random = np.random.default_rng(5)
        self.nodes, self.weights = [], []

    def op(self, op_type: str, *inputs: str, outputs=1, domain: str = "", **attributes) -> str:
        names = [f"{op_type}_{len(self.nodes)}_{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
        self.nodes.append(helper.make_node(op_type, inputs, names, f"{op_type}_{len(self.nodes)}", domain=domain, **attributes))
        return names[0]

    def constant(self, values: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(values, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def random_weight(self, *dims: int, scale: float = 1) -> np.ndarray:
        return (self.random.standard_normal(dims, np.float32) * np.float32(scale / dims[0] ** 0.5)).astype(np.float32)

    def linear(self, x: str, rows: int, columns: int) -> str:
        w = self.random_weight(rows, columns)
        if self.bits == 32:
            return self.op("MatMul", x, self.constant(w))
        blocks = w.T.reshape(columns, rows // BLOCK, BLOCK)
        scales = (np.abs(blocks).max(-1) / 7).astype(np.float32)
        q = (np.clip(np.rint(blocks / scales[..., None]), -8, 7) + 8).astype(np.uint8)
        return self.op("MatMulNBits", x, self.constant(q[..., ::2] | q[..., 1::2] << 4), self.constant(scales.reshape(-1)),
                       domain="com.microsoft", K=rows, N=columns, bits=4, block_size=BLOCK, accuracy_level=0)

    def gain(self) -> str:
        return self.constant(1 + 0.1 * self.random.standard_normal(self.size.hidden, np.float32))

    def rotary_caches(self) -> tuple[str, str]:
        s = self.size
        angles = np.outer(np.arange(s.positions), 1e4 ** (-np.arange(0, s.head, 2) / s.head))
        return self.constant(np.cos(angles).astype(np.float32)), self.constant(np.sin(angles).astype(np.float32))

    def gated(self, x: str) -> str:
        s = self.size
        gate, up = self.linear(x, s.hidden, s.middle), self.linear(x, s.hidden, s.middle)
        return self.linear(self.op("Mul", self.op("Mul", gate, self.op("Sigmoid", gate)), up), s.middle, s.hidden)

    def embedded(self) -> str:
        return self.op("Gather", self.constant(self.random_weight(self.size.vocabulary, self.size.hidden, scale=100)), "input_ids")

    def finish(self, x: str, inputs: dict, opset: int, path: pathlib.Path, present: str = "total") -> None:
        self.linear(x, self.size.hidden, self.size.vocabulary)
        self.nodes[-1].output[0] = "logits"
        s = self.size
        values = [helper.make_tensor_value_info(name, *of) for name, of in inputs.items()]
        results = [helper.make_tensor_value_info("logits", T.FLOAT, ["batch", "length", s.vocabulary])]
        for i in range(s.layers):
            for kind in ("key", "value"):
                values.append(helper.make_tensor_value_info(f"past_key_values.{i}.{kind}", T.FLOAT, ["batch", s.kv_heads, "past", s.head]))
                results.append(helper.make_tensor_value_info(f"present.{i}.{kind}", T.FLOAT, ["batch", s.kv_heads, present, s.head]))
        graph = helper.make_graph(self.nodes, "decoder", values, results, self.weights)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), str(path))


def caches(i: int, name: str) -> list[str]:
    return [f"{name}.{i}.key", f"{name}.{i}.value"]


def write_genai(size: Size, path: pathlib.Path, bits: int = 32) -> None:
    """What the builder of onnxruntime-genai writes for the CPU: caches hold at least what attention_mask counts."""
    g = Graph(size, bits)
    one, minus = g.ints(1), g.op("ReduceSum", "attention_mask", g.ints(1), keepdims=1)
    seqlens = g.op("Cast", g.op("Sub", minus, one), to=T.INT32)
    total = g.op("Cast", g.op("Gather", g.op("Shape", "attention_mask"), g.constant(np.array(1, np.int64)), axis=0), to=T.INT32)
    cos, sin = g.rotary_caches()
    skip = g.embedded()
    x = g.op("SimplifiedLayerNormalization", skip, g.gain(), axis=-1, epsilon=1e-5, stash_type=1)

    def norm(y: str) -> tuple[str, str]:
        names = [f"norm_{len(g.nodes)}", "", "", f"sum_{len(g.nodes)}"]
        g.op("SkipSimplifiedLayerNormalization", skip, y, g.gain(), outputs=names, domain="com.microsoft", epsilon=1e-5)
        return names[0], names[3]

    for i in range(size.layers):
        qkv = g.linear(x, size.hidden, size.hidden + 2 * size.kv_heads * size.head)
        y = g.op("GroupQueryAttention", qkv, "", "", *caches(i, "past_key_values"), seqlens, total, cos, sin,
                 outputs=[f"attended_{i}", *caches(i, "present")], domain="com.microsoft", num_heads=size.heads,
                 kv_num_heads=size.kv_heads, do_rotary=1, scale=size.head ** -0.5)
        x, skip = norm(g.linear(y, size.hidden, size.hidden))
        x, skip = norm(g.gated(x))
    g.finish(x, {"input_ids": (T.INT64, ["batch", "length"]), "attention_mask": (T.INT64, ["batch", "total"])}, 21, path)


def write_onnx(size: Size, path: pathlib.Path, scatter: bool) -> None:
    """ONNX's own operators: caches grow by concatenation, or TensorScatter writes into them."""
    g = Graph(size)
    cos, sin = g.rotary_caches()
    skip = g.embedded()
    for i in range(size.layers):
        x = g.op("RMSNormalization", skip, g.gain(), axis=-1, epsilon=1e-5)
        q, k, v = (g.linear(x, size.hidden, n * size.head) for n in (size.heads, size.kv_heads, size.kv_heads))
        if scatter:
            q, k, v = (g.op("Transpose", g.op("Reshape", t, g.ints(0, 0, -1, size.head)), perm=[0, 2, 1, 3]) for t in (q, k, v))
        q, k = (g.op("RotaryEmbedding", t, cos, sin, "position_ids", **({} if scatter else {"num_heads": n}))
                for t, n in ((q, size.heads), (k, size.kv_heads)))
        if scatter:
            k, v = (g.op("TensorScatter", past, new, "write_indices", outputs=[present], axis=2)
                    for past, new, present in zip(caches(i, "past_key_values"), (k, v), caches(i, "present")))
            y = g.op("Attention", q, k, v, "", "", "", "nonpad_kv_seqlen", is_causal=1)
            y = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), g.ints(0, 0, -1))
        else:
            y = g.op("Attention", q, k, v, "", *caches(i, "past_key_values"), outputs=[f"attended_{i}", *caches(i, "present")],
                     is_causal=1, q_num_heads=size.heads, kv_num_heads=size.kv_heads)
        skip = g.op("Add", skip, g.linear(y, size.hidden, size.hidden))
        skip = g.op("Add", skip, g.gated(g.op("RMSNormalization", skip, g.gain(), axis=-1, epsilon=1e-5)))
    x = g.op("RMSNormalization", skip, g.gain(), axis=-1, epsilon=1e-5)
    inputs = {"input_ids": (T.INT64, ["batch", "length"]), "position_ids": (T.INT64, ["batch", "length"])}
    if scatter:
        inputs |= {"write_indices": (T.INT64, ["batch"]), "nonpad_kv_seqlen": (T.INT64, ["batch"])}
    g.finish(x, inputs, 24 if scatter else 23, path, "past" if scatter else "total")


def write_torch(size: Size, path: pathlib.Path, dynamo: bool) -> None:
    """transformers' LlamaForCausalLM with past keys and values, by one of PyTorch's exporters."""
    import torch
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(num_hidden_layers=size.layers, hidden_size=size.hidden, intermediate_size=size.middle,
                         num_attention_heads=size.heads, num_key_value_heads=size.kv_heads, vocab_size=size.vocabulary,
                         max_position_embeddings=size.positions, attn_implementation="sdpa" if dynamo else "eager")
    torch.manual_seed(5)
    model = LlamaForCausalLM(config).eval()

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, position_ids, *past):
            cache = DynamicCache(config=config)
            for i in range(size.layers):
                cache.update(past[2 * i], past[2 * i + 1], i)
            out = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache, use_cache=True)
            return (out.logits, *(t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)))

    past, length = 7, 3
    examples = [torch.ones(2, length, dtype=torch.int64), torch.ones(2, past + length, dtype=torch.int64),
                torch.arange(past, past + length).repeat(2, 1)]
    examples += [torch.randn(2, size.kv_heads, past, size.head) for _ in range(2 * size.layers)]
    names = [name for i in range(size.layers) for name in caches(i, "past_key_values")]
    outputs = ["logits", *(name for i in range(size.layers) for name in caches(i, "present"))]
    axes = [{0: "batch", 1: "length"}, {0: "batch", 1: "total"}, {0: "batch", 1: "length"}] + [{0: "batch", 2: "past"}] * len(names)
    inputs = ["input_ids", "attention_mask", "position_ids", *names]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if dynamo:
            dims = {n: torch.export.Dim.DYNAMIC for n in ("batch", "length", "total", "past")}
            shapes = [{a: dims[n] for a, n in of.items()} for of in axes]
            torch.onnx.export(Decoder(), tuple(examples), str(path), input_names=inputs, output_names=outputs, dynamo=True,
                              dynamic_shapes=(*shapes[:3], tuple(shapes[3:])), external_data=False, verbose=False)
        else:
            torch.onnx.export(Decoder(), tuple(examples), str(path), input_names=inputs, output_names=outputs, dynamo=False,
                              opset_version=18, dynamic_axes=dict(zip(inputs, axes)) | {"logits": axes[0]})


FORMS = {
    "genai": write_genai,
    "genai4": lambda size, path: write_genai(size, path, bits=4),
    "concat": lambda size, path: write_onnx(size, path, scatter=False),
    "scatter": lambda size, path: write_onnx(size, path, scatter=True),
    "dynamo": lambda size, path: write_torch(size, path, dynamo=True),
    "torchscript": lambda size, path: write_torch(size, path, dynamo=False),
}


def feeds(form: str, size: Size, past: int, length: int, capacity: int = 0, batch: int = 1, seed: int = 1) -> dict[str, np.ndarray]:
    """Inputs of a run of |length| tokens behind |past|. Forms whose caches have room get caches of |capacity|."""
    random = np.random.default_rng(seed)
    rows = max(capacity, past + length) if form == "scatter" else capacity if form.startswith("genai") and capacity else past
    out = {"input_ids": random.integers(0, size.vocabulary, (batch, length))}
    if form == "scatter":
        out |= {"write_indices": np.full(batch, past), "nonpad_kv_seqlen": np.full(batch, past + length)}
    elif form != "concat":
        out["attention_mask"] = np.ones((batch, past + length), np.int64)
    if not form.startswith("genai"):
        out["position_ids"] = np.tile(np.arange(past, past + length), (batch, 1))
    for i in range(size.layers):
        for name in caches(i, "past_key_values"):
            out[name] = random.standard_normal((batch, size.kv_heads, rows, size.head), np.float32)
            out[name][:, :, past:] = 0
    return out
