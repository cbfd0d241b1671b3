// The timeline of one run: what each thread, the stream and the copies did when.
const timeline = { from: 0, to: 1, bars: [] };

function drawTimeline() {
  const t = state.engine.timeline, canvas = byId("timeline-canvas");
  if (!t || !canvas) return;
  const c = canvasContext(canvas), W = canvas.clientWidth, left = W > 600 ? 118 : 74, lane = 30, span = timeline.to - timeline.from;
  const X = (us) => left + ((us - timeline.from) / span) * (W - left - 8);
  c.font = "11px system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif";
  c.fillStyle = color("--soft");
  for (let k = 0; k <= 4; k++) {
    const us = timeline.from + (span * k) / 4;
    c.textAlign = k === 4 ? "right" : k ? "center" : "left";
    c.fillText(microseconds(us), X(us), 12);
  }
  c.textAlign = "left";
  t.lanes.forEach((name, i) => {
    c.fillStyle = color("--soft");
    c.fillText(name, 0, 24 + i * lane + 18);
    c.fillStyle = color("--bg");
    c.fillRect(left, 22 + i * lane, W - left - 8, lane - 4);
  });
  timeline.bars = [];
  c.save();
  c.beginPath();
  c.rect(left, 0, W - left - 8, canvas.clientHeight);
  c.clip();
  for (const event of t.events) {
    const [lane_, start, duration, layer, name] = event;
    if (start + duration < timeline.from || start > timeline.to) continue;
    const l = state.engine.layers[layer], x = X(start), w = Math.max(0.7, X(start + duration) - x), y = 22 + lane_ * lane;
    c.globalAlpha = state.selected >= 0 && layer !== state.selected ? 0.45 : 1;
    c.fillStyle = l ? color(`--k${kindRank.get(l.type) ?? 6}`) : color("--soft");
    c.fillRect(x, y, w, lane - 4);
    if (w > 40) {
      c.fillStyle = color("--card");
      c.fillText(fit(c, l ? l.name : name, w - 8), x + 4, y + 17);
    }
    timeline.bars.push({ x, w, y, h: lane - 4, event });
  }
  c.restore();
}

function showTimeline() {
  const t = state.engine.timeline, box = byId("timeline-body");
  if (!t || !t.events.length) return fill(box, element("p", { class: "note" }, "No run was recorded. `carnot report` records one where it can run the engine; --profile also takes a file of --exportTimeline."));
  timeline.from = 0;
  timeline.to = Math.max(...t.events.map((e) => e[1] + e[2]));
  const full = timeline.to, canvas = element("canvas", { class: "plot", id: "timeline-canvas", tabindex: "0", role: "img", "aria-label": "Timeline of one run", style: `height:${26 + t.lanes.length * 30}px` });
  const scale = (factor, middle) => {
    const span = Math.min(full, Math.max(1, (timeline.to - timeline.from) * factor)), share = (middle - timeline.from) / (timeline.to - timeline.from);
    timeline.from = Math.max(0, Math.min(full - span, middle - share * span));
    timeline.to = timeline.from + span;
    drawTimeline();
  };
  const middle = () => (timeline.from + timeline.to) / 2;
  const button = (text, label, run) => element("button", { type: "button", "aria-label": label, onclick: run }, text);
  const pan = (share) => { const d = (timeline.to - timeline.from) * share, s = timeline.to - timeline.from; timeline.from = Math.max(0, Math.min(full - s, timeline.from + d)); timeline.to = timeline.from + s; drawTimeline(); };
  fill(box, element("div", { class: "bar", style: "padding:0 0 10px;border:0" }, element("span", { class: "note grow", style: "margin:0" }, `One run of ${microseconds(full)}. Each step is timed, which makes a run slower.`),
    button("←", "Earlier", () => pan(-0.5)), button("→", "Later", () => pan(0.5)), button("−", "Show more time", () => scale(1.6, middle())), button("+", "Show less time", () => scale(0.6, middle())), button("All", "Show all", () => scale(1e9, 0))), canvas);
  const at = (event) => { const b = canvas.getBoundingClientRect(), x = event.clientX - b.left, y = event.clientY - b.top; return timeline.bars.find((r) => x >= r.x && x <= r.x + r.w && y >= r.y && y <= r.y + r.h); };
  canvas.addEventListener("pointermove", (event) => { const r = at(event); tip(event, r ? `${(state.engine.layers[r.event[3]] || {}).name || r.event[4]}: ${microseconds(r.event[2])} from ${microseconds(r.event[1])}` : ""); });
  canvas.addEventListener("pointerleave", (event) => tip(event, ""));
  canvas.addEventListener("click", (event) => { const r = at(event); if (r && r.event[3] >= 0) select(r.event[3], "list"); });
  new ResizeObserver(drawTimeline).observe(canvas);
  drawTimeline();
}
onChange((why) => (why === "engine" ? showTimeline() : drawTimeline()));
