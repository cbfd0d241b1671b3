// The graph on a canvas: only what is in view is drawn, text only where it can be read.
const graph = { x: 0, y: 0, scale: 1, nodes: [], edges: [], layerNode: new Map() };

function readLayout() {
  const layout = state.engine.layout || {};
  byId("graph-missing").hidden = !layout.missing;
  byId("graph-missing").textContent = layout.missing || "";
  graph.width = layout.width || 1;
  graph.height = layout.height || 1;
  graph.halfW = (layout.node_width || 0) / 2;
  graph.halfH = (layout.node_height || 0) / 2;
  graph.layerNode = new Map();
  graph.nodes = (layout.nodes || []).map(([kind, index, x, y], i) => {
    if (kind === 0) graph.layerNode.set(index, i);
    return { kind, index, x, y, layer: kind === 0 ? state.engine.layers[index] : null };
  });
  const named = new Set();  // nodes whose tensor has its shape written below
  graph.edges = (layout.edges || []).map(([from, to, value, points]) => {
    const first = !named.has(from);
    named.add(from);
    const a = graph.nodes[from], b = graph.nodes[to], path = new Path2D(), h = graph.halfH;
    const far = !points.length && b.y - a.y > 900;
    if (points.length) {
      path.moveTo(points[0], points[1]);
      for (let i = 2; i + 5 < points.length; i += 6) path.bezierCurveTo(...points.slice(i, i + 6));
    } else {
      const bend = Math.min(160, Math.max(30, (b.y - a.y) / 2));
      path.moveTo(a.x, a.y + h);
      path.bezierCurveTo(a.x, a.y + h + bend, b.x, b.y - h - bend, b.x, b.y - h);
    }
    const xs = [a.x, b.x, ...points.filter((_, i) => i % 2 === 0)], ys = [a.y, b.y];
    return { from, to, value, path, far, first, left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
  });
}

// A canvas knows no var(): the colours are mixed here.
function mix(a, b, t) {
  const parse = (s) => (s.length === 4 ? [1, 2, 3].map((i) => parseInt(s[i] + s[i], 16)) : [1, 3, 5].map((i) => parseInt(s.slice(i, i + 2), 16)));
  const [p, q] = [parse(a), parse(b)];
  return `rgb(${p.map((v, i) => Math.round(v + (q[i] - v) * t)).join()})`;
}
function nodeColor(node) {
  if (!node.layer) return color("--soft");
  const by = byId("graph-color").value, l = node.layer;
  if (by === "kind") return color(`--k${kindRank.get(l.type) ?? 6}`);
  if (by === "time") return mix(color("--line"), color("--bad"), Math.sqrt(Math.min(1, (timeOf(l) || 0) / graph.slowest)));
  const e = efficiencyOf(l);
  return e == null ? color("--line") : mix(color("--bad"), color("--good"), Math.min(1, e));
}

function fit(c, text, width) {
  if (c.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (c.measureText("…" + text.slice(-mid)).width <= width) low = mid;
    else high = mid - 1;
  }
  return "…" + text.slice(-low);
}

function drawNode(c, node, selected, dimmed) {
  const w = graph.halfW * 2, h = graph.halfH * 2, x = node.x - graph.halfW, y = node.y - graph.halfH, hue = nodeColor(node);
  c.globalAlpha = dimmed ? 0.35 : 1;
  if (graph.scale < 0.28) {
    c.fillStyle = hue;
    c.fillRect(x, y, w, h);
  } else {
    c.beginPath();
    c.roundRect(x, y, w, h, node.kind ? h / 2 : 7);
    c.fillStyle = color("--card");
    c.fill();
    c.strokeStyle = selected ? color("--accent") : color("--line");
    c.lineWidth = selected ? 3 : 1.2;
    c.stroke();
    c.fillStyle = hue;
    if (!node.kind) {
      c.beginPath();
      c.roundRect(x, y, 6, h, [7, 0, 0, 7]);
      c.fill();
    }
    const name = node.layer ? node.layer.name : state.engine.values[node.index][0];
    c.font = "600 12px system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif";
    c.fillStyle = color("--ink");
    c.fillText(fit(c, name, w - 24), x + 14, y + 19);
    c.font = "11px system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif";
    c.fillStyle = color("--soft");
    const time = node.layer ? timeOf(node.layer) : null;
    const below = node.layer
      ? kindText(node.layer.type) + (time ? " · " + microseconds(time) : "") + (efficiencyOf(node.layer) != null ? " · " + percent(efficiencyOf(node.layer)) : "")
      : (node.kind === 1 ? "input " : "output ") + shape(state.engine.values[node.index][1]);
    c.fillText(fit(c, below, w - 24), x + 14, y + 36);
  }
  if (selected && graph.scale < 0.28) {
    c.strokeStyle = color("--accent");
    c.lineWidth = 3 / graph.scale;
    c.strokeRect(x, y, w, h);
  }
  c.globalAlpha = 1;
}

function drawEdges(c, view, selectedNode) {
  const near = [];
  c.lineWidth = Math.max(1.1, 0.7 / graph.scale);
  c.strokeStyle = mix(color("--line"), color("--soft"), 0.45);
  for (const e of graph.edges) {
    if (e.right < view.left || e.left > view.right || e.bottom < view.top || e.top > view.bottom) continue;
    if (e.from === selectedNode || e.to === selectedNode) near.push(e);
    c.globalAlpha = e.far ? 0.18 : 1;
    c.stroke(e.path);
  }
  c.globalAlpha = 1;
  c.strokeStyle = color("--accent");
  c.lineWidth = Math.max(2.2, 1.4 / graph.scale);
  for (const e of near) c.stroke(e.path);
  if (graph.scale < 0.55) return;
  c.font = "10.5px system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif";
  c.fillStyle = color("--soft");
  c.strokeStyle = color("--bg");
  c.lineWidth = 4;
  for (const e of graph.edges) {
    if (e.far || e.top > view.bottom || e.bottom < view.top) continue;
    const from = graph.nodes[e.from], text = shape(state.engine.values[e.value][1]);
    if (e.first) {
      c.strokeText(text, from.x + 6, from.y + graph.halfH + 13);
      c.fillText(text, from.x + 6, from.y + graph.halfH + 13);
    }
  }
}

function drawGraph() {
  const canvas = byId("graph-canvas");
  if (!graph.nodes.length || !canvas.clientWidth) return;
  const c = canvasContext(canvas), s = graph.scale, w = canvas.clientWidth, h = canvas.clientHeight;
  const view = { left: graph.x - w / 2 / s, right: graph.x + w / 2 / s, top: graph.y - h / 2 / s, bottom: graph.y + h / 2 / s };
  c.translate(w / 2, h / 2);
  c.scale(s, s);
  c.translate(-graph.x, -graph.y);
  const selected = graph.layerNode.get(state.selected);
  drawEdges(c, view, selected);
  const hits = search.text ? search.set : null;
  graph.nodes.forEach((node, i) => {
    if (node.x + graph.halfW < view.left || node.x - graph.halfW > view.right || node.y + graph.halfH < view.top || node.y - graph.halfH > view.bottom) return;
    drawNode(c, node, i === selected, hits && node.kind === 0 && !hits.has(node.index));
  });
  drawMap(view);
}

function drawMap(view) {
  const canvas = byId("graph-map"), c = canvasContext(canvas), sx = canvas.clientWidth / graph.width, sy = canvas.clientHeight / graph.height;
  for (const node of graph.nodes) {
    c.fillStyle = nodeColor(node);
    c.fillRect((node.x - graph.halfW) * sx, (node.y - graph.halfH) * sy, Math.max(2, graph.halfW * 2 * sx), Math.max(1, graph.halfH * 2 * sy));
  }
  c.strokeStyle = color("--accent");
  c.lineWidth = 2;
  const top = Math.max(1, view.top * sy), bottom = Math.min(canvas.clientHeight - 1, view.bottom * sy);
  c.strokeRect(1, top, canvas.clientWidth - 2, Math.max(3, bottom - top));
}

let frame = 0;
function redraw() {
  if (!frame) frame = requestAnimationFrame(() => { frame = 0; drawGraph(); });
}
function zoom(factor, at) {
  const canvas = byId("graph-canvas"), old = graph.scale;
  graph.scale = Math.min(2.5, Math.max(0.02, old * factor));
  if (at) {
    const dx = at.x - canvas.clientWidth / 2, dy = at.y - canvas.clientHeight / 2;
    graph.x += dx / old - dx / graph.scale;
    graph.y += dy / old - dy / graph.scale;
  }
  redraw();
}
function fitGraph() {
  const canvas = byId("graph-canvas");
  graph.scale = Math.min(1, canvas.clientWidth / (graph.width + 60), canvas.clientHeight / (graph.height + 60));
  graph.x = graph.width / 2;
  graph.y = graph.height / 2;
  redraw();
}
// The first view: the beginning of the network at a readable size.
function showStart() {
  const canvas = byId("graph-canvas");
  graph.scale = Math.max(0.3, Math.min(0.9, canvas.clientWidth / (graph.width + 120)));
  graph.y = Math.min(graph.height / 2, canvas.clientHeight / 2 / graph.scale - 30);
  graph.x = graph.nodes.length ? graph.nodes[0].x : 0;
  if (graph.width * graph.scale < canvas.clientWidth) graph.x = graph.width / 2;
  redraw();
}
function centre(index) {
  const node = graph.nodes[graph.layerNode.get(index)];
  if (!node) return;
  graph.x = node.x;
  graph.y = node.y;
  if (graph.scale < 0.5) graph.scale = 0.8;
  redraw();
}
function nodeAt(event) {
  const canvas = byId("graph-canvas"), box = canvas.getBoundingClientRect();
  const x = (event.clientX - box.left - canvas.clientWidth / 2) / graph.scale + graph.x, y = (event.clientY - box.top - canvas.clientHeight / 2) / graph.scale + graph.y;
  return graph.nodes.find((n) => Math.abs(n.x - x) <= graph.halfW && Math.abs(n.y - y) <= graph.halfH);
}

// ---- keys and pointers ----

function neighbour(down) {
  const layer = state.engine.layers[state.selected], e = state.engine;
  if (!layer) return 0;
  const next = down ? layer.out.flatMap((v) => e.readers.get(v) || []) : layer.in.map((v) => e.makers.get(v)).filter((i) => i != null);
  return next.length ? next[0] : state.selected;
}
function graphKey(event) {
  const last = state.engine.layers.length - 1, keys = {
    ArrowDown: () => select(neighbour(true), "keys"), ArrowUp: () => select(neighbour(false), "keys"),
    ArrowRight: () => select(Math.min(last, state.selected + 1), "keys"), ArrowLeft: () => select(Math.max(0, state.selected - 1), "keys"),
    "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: fitGraph, Enter: () => showDetails("focus"), Escape: () => select(-1) };
  if (event.ctrlKey || event.metaKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
}

function startGraph() {
  const canvas = byId("graph-canvas"), pointers = new Map();
  let moved = 0, spread = 0;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.shiftKey) { graph.x += event.deltaY / graph.scale; redraw(); return; }
    const box = canvas.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * 0.0015), { x: event.clientX - box.left, y: event.clientY - box.top });
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); pointers.set(event.pointerId, event); moved = 0; spread = 0; });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) {
      const node = nodeAt(event);
      canvas.style.cursor = node && node.layer ? "pointer" : "grab";
      return tip(event, node ? (node.layer ? layerTip(node.layer) : state.engine.values[node.index][0]) : "");
    }
    const dx = event.clientX - before.clientX, dy = event.clientY - before.clientY;
    moved += Math.abs(dx) + Math.abs(dy);
    graph.x -= dx / graph.scale / pointers.size;
    graph.y -= dy / graph.scale / pointers.size;
    pointers.set(event.pointerId, event);
    if (pointers.size === 2) {
      const [a, b] = [...pointers.values()], now = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
      if (spread) zoom(now / spread);
      spread = now;
    }
    redraw();
  });
  const end = (event) => {
    const node = pointers.size === 1 && moved < 6 ? nodeAt(event) : null;
    pointers.delete(event.pointerId);
    spread = 0;
    if (node && node.layer) select(node.index, "graph");
    else if (moved < 6 && event.type === "pointerup") select(-1);
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerleave", (event) => tip(event, ""));
  canvas.addEventListener("keydown", graphKey);
  byId("graph-map").addEventListener("click", (event) => {
    const box = event.target.getBoundingClientRect();
    graph.y = ((event.clientY - box.top) / box.height) * graph.height;
    redraw();
  });
  byId("zoom-in").addEventListener("click", () => zoom(1.3));
  byId("zoom-out").addEventListener("click", () => zoom(1 / 1.3));
  byId("zoom-fit").addEventListener("click", fitGraph);
  byId("graph-color").addEventListener("change", () => { showLegend(); redraw(); });
  new ResizeObserver(redraw).observe(canvas);
}

function showLegend() {
  const by = byId("graph-color").value, item = (hue, text) => element("span", {}, element("i", { style: `background:${hue}` }), text);
  const items = by === "kind" ? state.engine.kinds.slice(0, 8).map((k) => item(kindColor(k.kind), kindText(k.kind)))
    : by === "time" ? [item("var(--line)", "fast"), item("var(--bad)", "slow")] : [item("var(--bad)", "far from the limit"), item("var(--good)", "at the limit"), item("var(--line)", "not known")];
  fill(byId("legend"), ...items);
}
onChange((why) => {
  if (why === "engine") {
    graph.slowest = Math.max(1e-9, ...state.engine.layers.map((l) => timeOf(l) || 0));
    readLayout();
    showLegend();
    showStart();
  } else if (why === "select" && state.selected >= 0 && state.selectedFrom !== "graph") {
    centre(state.selected);
  } else {
    redraw();
  }
});
