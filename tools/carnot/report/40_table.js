// The table of layers: sorts by any column, filters by text and kind.
const columns = [
  { title: "#", get: (l) => l.index, right: true },
  { title: "Layer", get: (l) => l.name, name: true },
  { title: "Kind", get: (l) => l.type, text: (l) => [element("i", { class: "dot", style: `background:${kindColor(l.type)}` }), kindText(l.type)] },
  { title: "Time", get: (l) => timeOf(l) ?? -1, text: (l) => [microseconds(timeOf(l))], right: true, down: true },
  { title: "Share", get: (l) => timeOf(l) ?? -1, text: (l) => [state.engine.total ? percent((timeOf(l) || 0) / state.engine.total) : "–"], right: true, down: true },
  { title: "% of limit", get: (l) => efficiencyOf(l) ?? 9, text: (l) => [percent(efficiencyOf(l))], right: true },
  { title: "To gain", get: (l) => (efficiencyOf(l) == null ? -1 : Math.max(0, l.us - l.limit_us)), text: (l) => [efficiencyOf(l) == null ? "–" : microseconds(Math.max(0, l.us - l.limit_us))], right: true, down: true },
  { title: "GFLOP", get: (l) => l.flops, text: (l) => [digits(l.flops / 1e9)], right: true, down: true },
  { title: "MB", get: (l) => l.bytes, text: (l) => [digits(l.bytes / 1e6)], right: true, down: true },
  { title: "Precision", get: (l) => precisionOf(l) },
  { title: "Output", get: (l) => (l.out.length ? shape(state.engine.values[l.out[0]][1]) : "") },
  { title: "Tactic", get: (l) => l.tactic },
];
if (data.engines.some((e) => e.layers.some((l) => l.error)))
  columns.splice(-2, 0, { title: "Error", get: (l) => (l.error ? l.error.max_abs : -1), text: (l) => [l.error ? errorText(l.error) : "–"], right: true, down: true });
const table = { sort: 0, down: false, shown: 200, rows: [] };

function tableRow(l) {
  const cells = columns.map((c) => {
    const content = c.text ? c.text(l) : [String(c.get(l))];
    if (c.name) return element("td", { class: "name", title: l.name }, element("button", { type: "button" }, l.name));
    return element("td", { class: c.right ? "right" : null }, ...content);
  });
  return element("tr", { "data-layer": l.index, "aria-selected": l.index === state.selected ? "true" : "false" }, ...cells);
}

function showTable() {
  const text = byId("filter").value.trim().toLowerCase(), kind = byId("filter-kind").value, column = columns[table.sort];
  table.rows = state.engine.layers.filter((l) => (!kind || l.type === kind) && (!text || l.search.includes(text)));
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
  table.rows.sort((a, b) => (table.down ? -1 : 1) * compare(column.get(a), column.get(b)) || a.index - b.index);
  fill(document.querySelector("#table thead"), element("tr", {}, ...columns.map((c, i) =>
    element("th", { scope: "col", class: c.right ? "right" : null, "aria-sort": i === table.sort ? (table.down ? "descending" : "ascending") : null },
      element("button", { type: "button", onclick: () => sortBy(i) }, c.title + (i === table.sort ? (table.down ? " ↓" : " ↑") : ""))))));
  fill(document.querySelector("#table tbody"), ...table.rows.slice(0, table.shown).map(tableRow));
  byId("row-count").textContent = `${table.rows.length} of ${state.engine.layers.length} layers`;
  byId("more").hidden = table.rows.length <= table.shown;
  byId("more").textContent = `Show ${Math.min(500, table.rows.length - table.shown)} more`;
}
function sortBy(i) {
  table.down = i === table.sort ? !table.down : !!columns[i].down;
  table.sort = i;
  showTable();
  document.querySelectorAll("#table th button")[i].focus();
}

function startTable() {
  byId("filter").addEventListener("input", () => { table.shown = 200; showTable(); });
  byId("filter-kind").addEventListener("change", showTable);
  byId("more").addEventListener("click", () => { table.shown += 500; showTable(); });
  document.querySelector("#table tbody").addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row) select(+row.dataset.layer, "table");
  });
}
onChange((why) => {
  if (why === "engine") {
    fill(byId("filter-kind"), element("option", { value: "" }, "all"), ...state.engine.kinds.map((k) => element("option", { value: k.kind }, `${kindText(k.kind)} (${k.count})`)));
    showTable();
  }
  if (why === "select")
    for (const row of document.querySelectorAll("#table tbody tr")) row.setAttribute("aria-selected", +row.dataset.layer === state.selected ? "true" : "false");
});
