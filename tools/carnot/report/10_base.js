"use strict";
// What every part of the page uses: the data, elements, numbers as text, colours, the selection.
const data = JSON.parse(document.getElementById("data").textContent);
const state = { engine: data.engines[0], selected: -1, listeners: [] };
const byId = (id) => document.getElementById(id);

// element("td", { class: "right" }, "text", child)
function element(tag, attributes, ...children) {
  const svg = ["svg", "g", "path", "line", "circle", "text", "rect", "title"].includes(tag);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "onclick") e.addEventListener("click", value);
    else if (key === "style") e.style.cssText = value;
    else if (value !== false && value != null) e.setAttribute(key, value === true ? "" : value);
  }
  e.append(...children.filter((c) => c != null));
  return e;
}

function fill(parent, ...children) {
  parent.replaceChildren(...children.filter((c) => c != null));
}

// Three digits.
function digits(x) {
  if (!isFinite(x)) return "–";
  const a = Math.abs(x);
  return a >= 100 ? x.toFixed(0) : a >= 10 ? x.toFixed(1) : a >= 0.01 || a === 0 ? x.toFixed(2) : x.toPrecision(2);
}
function microseconds(us) {
  if (us == null || !isFinite(us)) return "–";
  return us >= 1e6 ? digits(us / 1e6) + " s" : us >= 1e3 ? digits(us / 1e3) + " ms" : digits(us) + " µs";
}
function bytes(n) {
  if (n == null) return "–";
  return n >= 1e9 ? digits(n / 1e9) + " GB" : n >= 1e6 ? digits(n / 1e6) + " MB" : n >= 1e3 ? digits(n / 1e3) + " kB" : n + " B";
}
const percent = (x) => (x == null || !isFinite(x) ? "–" : (x * 100).toFixed(x < 0.0995 ? 1 : 0) + " %");
const shape = (dims) => (dims && dims.length ? dims.map((d) => (d < 0 ? "?" : d)).join(" × ") : "scalar");

// ---- layers ----

// The time of a layer: measured, else of the build.
const timeOf = (layer) => (layer.us != null ? layer.us : state.engine.measured ? null : layer.build_us || null);
const efficiencyOf = (layer) => (layer.us > 0 && layer.limit_us != null ? layer.limit_us / layer.us : null);
// How far the layer's result is from the reference's.
const power = (x) => (x >= 1e308 ? "∞" : x ? Number(x).toExponential(1) : "0");
const errorText = (error) => power(error.max_abs);
const precisionOf = (layer) => (layer.precision === "invalid" ? "" : layer.precision);

function prepare(engine) {
  engine.measured = engine.layers.some((l) => l.us != null);
  engine.layers.forEach((l, i) => {
    l.index = i;
    l.search = [l.name, l.type, l.tactic, ...l.operators.flat(2), ...l.out.map((v) => engine.values[v][0])].join("\n").toLowerCase();
  });
  engine.makers = new Map();
  engine.readers = new Map();
  for (const l of engine.layers) {
    for (const v of l.out) engine.makers.set(v, l.index);
    for (const v of l.in) engine.readers.set(v, [...(engine.readers.get(v) || []), l.index]);
  }
  const of = (l) => (l.us != null ? l.us : engine.measured ? 0 : l.build_us || 0);
  engine.total = engine.layers.reduce((sum, l) => sum + of(l), 0);
  engine.limit = engine.layers.reduce((sum, l) => sum + (l.us != null ? l.limit_us || 0 : 0), 0);
  const kinds = new Map();
  for (const l of engine.layers) {
    const k = kinds.get(l.type) || { kind: l.type, time: 0, limit: 0, count: 0 };
    k.time += of(l);
    k.limit += l.us != null ? l.limit_us || 0 : 0;
    k.count++;
    kinds.set(l.type, k);
  }
  engine.kinds = [...kinds.values()].sort((a, b) => b.time - a.time || b.count - a.count);
}
data.engines.forEach(prepare);

// ---- colours: one for each kind, by its rank in the first engine ----

const kindRank = new Map();
for (const engine of data.engines) for (const k of engine.kinds) if (!kindRank.has(k.kind)) kindRank.set(k.kind, Math.min(kindRank.size, 7));
const kindColor = (kind) => `var(--k${kindRank.get(kind) ?? 6})`;
const kindText = (kind) => kind.toLowerCase().replaceAll("_", " ");
let colorCache = new Map();
// The value of a custom property of the page, for canvases.
function color(name) {
  if (!colorCache.has(name)) colorCache.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colorCache.get(name);
}

// ---- selection ----

function onChange(listener) {
  state.listeners.push(listener);
}
// |why|: "engine", "theme", "select" or "search".
function changed(why) {
  for (const listener of state.listeners) listener(why);
}
function select(index, from) {
  state.selected = index;
  state.selectedFrom = from;
  const layer = state.engine.layers[index];
  if (layer) byId("live").textContent = `${layer.name}, ${kindText(layer.type)}, ${microseconds(timeOf(layer))}`;
  changed("select");
}

// ---- the small text beside the pointer ----

function tip(event, text) {
  const box = byId("tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  const x = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8);
  const y = event.clientY + 18 + box.offsetHeight > innerHeight ? event.clientY - box.offsetHeight - 10 : event.clientY + 18;
  box.style.left = Math.max(4, x) + "px";
  box.style.top = y + "px";
}
function layerTip(layer) {
  const e = efficiencyOf(layer);
  return `${layer.name}: ${microseconds(timeOf(layer))}${e == null ? "" : ", " + percent(e) + " of the limit"}, ${layer.tactic}`;
}

// A canvas of the size of its box, with its context in CSS pixels.
function canvasContext(canvas) {
  const ratio = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
  }
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, w, h);
  return c;
}
