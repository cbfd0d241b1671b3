// The plan of memory: each tensor is a rectangle, from the layer that makes it to the last that reads
// it, at its address.
const plan = { rects: [] };

function drawMemory() {
  const e = state.engine, canvas = byId("memory-canvas");
  if (!canvas) return;
  const c = canvasContext(canvas), W = canvas.clientWidth, H = canvas.clientHeight, left = 64, bottom = 24;
  const most = Math.max(e.activation_bytes || 0, ...e.memory.map((m) => m[1] + m[2]), 1), n = e.layers.length;
  const X = (i) => left + (i / n) * (W - left - 6), Y = (b) => H - bottom - (b / most) * (H - bottom - 8);
  c.font = "11px system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif";
  c.textAlign = "right";
  for (let k = 0; k <= 4; k++) {
    c.strokeStyle = color("--line");
    c.beginPath();
    c.moveTo(left, Y((most * k) / 4));
    c.lineTo(W - 6, Y((most * k) / 4));
    c.stroke();
    c.fillStyle = color("--soft");
    c.fillText(bytes(Math.round((most * k) / 4)), left - 8, Y((most * k) / 4) + 4);
  }
  c.textAlign = "left";
  c.fillText("first layer", left, H - 7);
  c.textAlign = "right";
  c.fillText("last layer", W - 6, H - 7);
  plan.rects = e.memory.map((m) => ({ m, x: X(m[3]), w: Math.max(1.5, X(m[4] + 1) - X(m[3])), y: Y(m[1] + m[2]), h: Math.max(1, Y(m[1]) - Y(m[1] + m[2])) }));
  const maker = new Map(e.values.map((v, i) => [v[0], e.makers.get(i)]));
  for (const r of plan.rects) {
    const layer = e.layers[maker.get(r.m[0])];
    c.globalAlpha = layer && layer.index === state.selected ? 1 : 0.72;
    c.fillStyle = layer ? color(`--k${kindRank.get(layer.type) ?? 6}`) : color("--soft");
    c.fillRect(r.x, r.y, r.w, r.h);
    c.globalAlpha = 1;
    c.strokeStyle = layer && layer.index === state.selected ? color("--ink") : color("--card");
    c.strokeRect(r.x, r.y, r.w, r.h);
  }
  plan.maker = maker;
}

function showMemory() {
  const e = state.engine, box = byId("memory-body");
  if (!e.memory.length) return fill(box, element("p", { class: "note" }, "The engine plans no memory before its shapes are known, or was built by a version that does not record it."));
  const canvas = element("canvas", { class: "plot", id: "memory-canvas", role: "img", "aria-label": "Memory plan: addresses of intermediate tensors over the layers" });
  const waste = e.activation_bytes - e.activation_bound_bytes;
  fill(box, canvas, element("p", { class: "note" }, `${bytes(e.activation_bytes)} hold ${e.memory.length} tensors; no plan can do with less than ${bytes(e.activation_bound_bytes)}${waste > 0 ? `, ${bytes(waste)} are lost in gaps` : ""}. Scratch memory: ${bytes(e.workspace_bytes)}. Click a tensor for the layer that makes it.`));
  const at = (event) => { const b = canvas.getBoundingClientRect(), x = event.clientX - b.left, y = event.clientY - b.top; return plan.rects.findLast((r) => x >= r.x && x <= r.x + r.w && y >= r.y && y <= r.y + r.h); };
  canvas.addEventListener("pointermove", (event) => { const r = at(event); tip(event, r ? `${r.m[0]}: ${bytes(r.m[2])} at ${r.m[1]}, layers ${r.m[3]} to ${r.m[4]}` : ""); });
  canvas.addEventListener("pointerleave", (event) => tip(event, ""));
  canvas.addEventListener("click", (event) => { const r = at(event); if (r && plan.maker.get(r.m[0]) != null) select(plan.maker.get(r.m[0]), "list"); });
  new ResizeObserver(drawMemory).observe(canvas);
  drawMemory();
}
onChange((why) => (why === "engine" ? showMemory() : drawMemory()));
