// Search, sections, theme; then everything is drawn once.
const search = { text: "", hits: [], set: new Set(), at: -1 };

function runSearch() {
  search.text = byId("search").value.trim().toLowerCase();
  search.hits = search.text ? state.engine.layers.filter((l) => l.search.includes(search.text)).map((l) => l.index) : [];
  search.set = new Set(search.hits);
  search.at = -1;
  byId("found").textContent = search.text ? `${search.hits.length} found` : "";
  changed("search");
}
function nextHit(step) {
  if (!search.hits.length) return;
  search.at = (search.at + step + search.hits.length) % search.hits.length;
  byId("found").textContent = `${search.at + 1} of ${search.hits.length}`;
  select(search.hits[search.at], "search");
}
function startSearch() {
  const box = byId("search");
  box.addEventListener("input", runSearch);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") { event.stopPropagation(); box.value = ""; runSearch(); box.blur(); }
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing) { event.preventDefault(); box.focus(); }
    else if (event.key === "Escape" && !typing && state.selected >= 0) select(-1);
  });
}

function startSections() {
  const sections = [...document.querySelectorAll("section[data-title]")].filter((s) => !s.hidden);
  fill(byId("nav"), ...sections.map((s) => element("a", { href: "#" + s.id }, s.dataset.title)));
  const links = [...byId("nav").children];
  // The section that lies under the header; at the end of the page the last one, which may be too short to get there.
  const mark = () => {
    const line = document.querySelector("header").getBoundingClientRect().bottom + 40;
    let current = 0;
    sections.forEach((s, i) => { if (s.getBoundingClientRect().top <= line) current = i; });
    if (scrollY > 0 && scrollY + innerHeight >= document.documentElement.scrollHeight - 2) current = sections.length - 1;
    links.forEach((a, i) => (i === current ? a.setAttribute("aria-current", "true") : a.removeAttribute("aria-current")));
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
}

function startTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const set = (theme) => {
    document.documentElement.dataset.theme = theme;
    document.documentElement.style.colorScheme = theme;
    colorCache = new Map();
    changed("theme");
  };
  byId("theme").addEventListener("click", () => set(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  dark.addEventListener("change", () => set(dark.matches ? "dark" : "light"));
  document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
}

startTheme();
startTable();
startGraph();
startSearch();
startCompare();
startSections();
changed("engine");
document.documentElement.dataset.ready = "true";
