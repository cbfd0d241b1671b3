// Layers over heads in their plain form: attention as one operator, rotary embedding, linear
// attention, convolution along time with a state. The formulas are those of ops/attention.c and so on.

// Element |e| of row |t| of the past and new keys (or values) of head |kv| of all batches.
DEVICE f64 cached(const carnot_cuda_heads& p, int input, int past, i64 kv, i64 t, i64 e, i64 size) {
  const carnot_cuda_io& io = p.io;
  if (t < p.past) return real_of(io.in_type[past], io.in[past], (kv * p.past + t) * size + e);
  i64 fresh = p.keys - p.past, b = kv / p.kv_heads, h = kv % p.kv_heads;
  i64 row = p.heads_last ? (b * fresh + t - p.past) * p.kv_heads + h : kv * fresh + t - p.past;
  return real_of(io.in_type[input], io.in[input], row * size + e);
}

// What is added to the score of query |i| and key |j|; -inf: not seen.
DEVICE f64 attention_bias(const carnot_cuda_heads& p, i64 b, i64 h, i64 i, i64 j) {
  const carnot_cuda_io& io = p.io;
  const f64 unseen = ends<f64>::low();
  i64 length = io.in[6] ? whole_of(io.in_type[6], io.in[6], b) : p.keys;
  i64 at = i + (io.in[6] ? length - p.queries : p.past);
  if (j >= length || (p.causal && j > at) || (p.left >= 0 && j < at - p.left) ||
      (p.right >= 0 && j > at + p.right))
    return unseen;
  if (!io.in[3]) return 0;
  if (j >= p.mask_length) return unseen;
  f64 m = real_of(io.in_type[3], io.in[3], b * p.mask_s[0] + h * p.mask_s[1] + i * p.mask_s[2] + j);
  return io.in_type[3] != CARNOT_CUDA_BOOL ? m : m != 0 ? 0 : unseen;
}

DEVICE void attention_row(const carnot_cuda_heads& p, i64 row, f64* scores) {
  const carnot_cuda_io& io = p.io;
  const f64 low = ends<f64>::low();
  i64 i = row % p.queries, h = row / p.queries % p.q_heads, b = row / p.queries / p.q_heads;
  i64 kv = b * p.kv_heads + h / (p.q_heads / p.kv_heads);
  i64 place = p.heads_last ? (b * p.queries + i) * p.q_heads + h : row;
  f64 top = low, sum = 0;
  for (i64 j = threadIdx.x; j < p.keys; j += blockDim.x) {
    f64 s[4] = {0, 0, 0, 0};
    for (i64 e = 0; e < p.size; e++)
      s[0] += real_of(io.in_type[0], io.in[0], place * p.size + e) * cached(p, 1, 4, kv, j, e, p.size);
    s[0] *= p.scale;
    s[1] = p.softcap > 0 ? p.softcap * tanh(s[0] / p.softcap) : s[0];
    s[2] = s[1] + attention_bias(p, b, h, i, j);
    if (io.out[3] && p.mode < 3) any_store(io.out_type[3], io.out[3], row * p.keys + j, s[p.mode]);
    scores[j] = s[2];
    top = hi(s[2], top);
  }
  top = over_block<max_of<f64>, f64>(top, low);
  for (i64 j = threadIdx.x; j < p.keys; j += blockDim.x) sum += scores[j] = exp(scores[j] - top);
  sum = over_block<add_of<f64>, f64>(sum, 0);
  for (i64 j = threadIdx.x; j < p.keys; j += blockDim.x) {
    scores[j] = top == low ? 0 : scores[j] / sum;  // no key is seen: zeros
    if (io.out[3] && p.mode == 3) any_store(io.out_type[3], io.out[3], row * p.keys + j, scores[j]);
  }
  __syncthreads();
  for (i64 e = threadIdx.x; e < p.value_size; e += blockDim.x) {
    f64 v = 0;
    for (i64 j = 0; j < p.keys; j++) v += scores[j] * cached(p, 2, 5, kv, j, e, p.value_size);
    any_store(io.out_type[0], io.out[0], place * p.value_size + e, v);
  }
  __syncthreads();
}

// Past and new rows as outputs 1 and 2, by the block of a key head's first query.
DEVICE void keep_present(const carnot_cuda_heads& p, int output, i64 kv, i64 size) {
  if (!p.io.out[output]) return;
  for (i64 n = threadIdx.x; n < p.keys * size; n += blockDim.x)
    any_store(p.io.out_type[output], p.io.out[output], kv * p.keys * size + n,
              cached(p, output, output + 3, kv, n / size, n % size, size));
}

// Each block takes every io.count-th row; its scores stand in its part of the scratch.
DEVICE void attention(const carnot_cuda_heads& p, i64 item) {
  for (i64 row = item; row < p.rows; row += p.io.count) {
    attention_row(p, row, (f64*)p.io.scratch + item * p.keys);
    i64 head = row / p.queries, share = p.q_heads / p.kv_heads;
    if (row % p.queries || head % share) continue;
    keep_present(p, 1, head / share, p.size);
    keep_present(p, 2, head / share, p.value_size);
  }
}

// Positions outside the caches give zeros.
DEVICE void rotary(const carnot_cuda_heads& p, i64 i) {
  const carnot_cuda_io& io = p.io;
  i64 e = i % p.size, row = i / p.size, half = p.turned / 2;
  i64 step = p.heads_last ? row / p.q_heads : row / p.queries / p.q_heads * p.queries + row % p.queries;
  f64 x = real_of(io.in_type[0], io.in[0], i), cosine = 0, sine = 0;
  i64 at = io.in[3] ? whole_of(io.in_type[3], io.in[3], step) : step;
  i64 k = p.interleaved ? e / 2 : e % half;
  bool second = p.interleaved ? e % 2 : e >= half;
  if (e < p.turned) {
    i64 apart = p.interleaved ? 1 : half;
    f64 other = real_of(io.in_type[0], io.in[0], second ? i - apart : i + apart);
    if (at >= 0 && at < p.rows) {
      cosine = real_of(io.in_type[1], io.in[1], at * half + k);
      sine = real_of(io.in_type[2], io.in[2], at * half + k);
    }
    x = second ? sine * other + cosine * x : cosine * x - sine * other;
  }
  any_store(io.out_type[0], io.out[0], i, x);
}

// One thread a column of the state of a batch's key head.
DEVICE void linear_attention(const carnot_cuda_heads& p, i64 item) {
  const carnot_cuda_io& io = p.io;
  i64 j = item % p.value_size, part = item / p.value_size, b = part / p.kv_heads, h = part % p.kv_heads;
  i64 share = p.q_heads / p.kv_heads, first = part * p.size * p.value_size + j, n = p.value_size;
  f64* state = (f64*)io.scratch + first;
  for (i64 i = 0; i < p.size; i++)
    state[i * n] = io.in[3] ? real_of(io.in_type[3], io.in[3], first + i * n) : 0;
  for (i64 t = 0; t < p.queries; t++) {
    i64 at = b * p.queries + t, row = at * p.kv_heads + h;
    bool by_key = p.decay_width != p.kv_heads;
    f64 change = real_of(io.in_type[2], io.in[2], row * n + j);
    for (i64 i = 0; io.in[4] && i < p.size; i++)
      state[i * n] *= exp(real_of(io.in_type[4], io.in[4], at * p.decay_width + (by_key ? h * p.size + i : h)));
    if (io.in[5]) {
      for (i64 i = 0; i < p.size; i++)
        change -= real_of(io.in_type[1], io.in[1], row * p.size + i) * state[i * n];
      change *= real_of(io.in_type[5], io.in[5], at * p.beta_width + (p.beta_width > 1 ? h : 0));
    }
    for (i64 i = 0; i < p.size; i++)
      state[i * n] += real_of(io.in_type[1], io.in[1], row * p.size + i) * change;
    for (i64 g = at * p.q_heads + h * share; g < at * p.q_heads + (h + 1) * share; g++) {
      f64 y = 0;
      for (i64 i = 0; i < p.size; i++)
        y += p.scale * real_of(io.in_type[0], io.in[0], g * p.size + i) * state[i * n];
      if (io.out[0]) any_store(io.out_type[0], io.out[0], g * n + j, y);
    }
  }
  for (i64 i = 0; io.out[1] && i < p.size; i++)
    any_store(io.out_type[1], io.out[1], first + i * n, state[i * n]);
}

// Of a lane of state and input: results where the window begins before |length|, the new state behind.
DEVICE f64 in_lane(const carnot_cuda_causal& p, i64 lane, i64 at) {
  i64 before = p.taps - 1;
  if (at >= before) return real_of(p.io.in_type[0], p.io.in[0], lane * p.length + at - before);
  return p.io.in[3] ? real_of(p.io.in_type[3], p.io.in[3], lane * before + at) : 0;
}
DEVICE void causal_conv(const carnot_cuda_causal& p, i64 i) {
  const carnot_cuda_io& io = p.io;
  i64 before = p.taps - 1, lane = i / (p.length + before), at = i % (p.length + before), c = lane % p.channels;
  if (at >= p.length) {
    if (io.out[1]) any_store(io.out_type[1], io.out[1], lane * before + at - p.length, in_lane(p, lane, at));
  } else if (io.out[0]) {
    f64 sum = io.in[2] ? real_of(io.in_type[2], io.in[2], c) : 0;
    for (i64 k = 0; k < p.taps; k++)
      sum += real_of(io.in_type[1], io.in[1], c * p.taps + k) * in_lane(p, lane, at + k);
    any_store(io.out_type[0], io.out[0], lane * p.length + at, p.silu ? sum / (1 + exp(-sum)) : sum);
  }
}

ANY_BLOCK(attention, carnot_cuda_heads)
ANY(rotary, carnot_cuda_heads)
ANY(linear_attention, carnot_cuda_heads)
ANY(causal_conv, carnot_cuda_causal)
