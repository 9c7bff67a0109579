// The views, and the keys that work everywhere.

const VIEWS = [
  ["graph", "Graph", graphView],
  ["steps", "Steps", tableView],
  ["roofline", "Roofline", rooflineView],
  ["threads", "Threads", threadsView],
  ["passes", "Passes", passesView],
  ["memory", "Memory", memoryView],
  ["compilation", "Compilation", compilationView],
  ["compare", "Compare", compareView],
  ["about", "About", aboutView],
];
const OF_STEPS = new Set(["graph", "steps", "roofline", "threads"]);

function tabs() {
  const made = VIEWS.map(([id, title]) =>
    element("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": `view-${id}`, onclick: () => view(id), onkeydown: tabKey }, title),
  );
  replace("tabs", made);
  replace("views", VIEWS.map(([id]) => element("section", { id: `view-${id}`, class: "view", role: "tabpanel", "aria-labelledby": `tab-${id}` })));
}

function view(id) {
  state.view = id;
  for (const [each, , draw] of VIEWS) {
    const isShown = each === id;
    const tab = document.getElementById(`tab-${each}`);
    tab.setAttribute("aria-selected", String(isShown));
    tab.tabIndex = isShown ? 0 : -1;
    const place = document.getElementById(`view-${each}`);
    place.hidden = !isShown;
    if (isShown) document.body.classList.toggle("of-steps", OF_STEPS.has(id));
    if (isShown && (id === "compare" || !place.hasChildNodes())) draw(place);
  }
  markRow();
  markPoints();
  if (id === "graph" && graph.layer) mark();
}

function tabKey(event) {
  const at = VIEWS.findIndex(([id]) => id === state.view);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: VIEWS.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const [id] = VIEWS[(to + VIEWS.length) % VIEWS.length];
  view(id);
  document.getElementById(`tab-${id}`).focus();
}

function again() {
  showHead();
  graph.open.clear();
  graph.found = [];
  for (const [id] of VIEWS) replace(`view-${id}`);
  view(state.view);
}

function pageKey(event) {
  const isTyping = event.target.matches("input, select, textarea");
  if (event.key === "/" && !isTyping) {
    event.preventDefault();
    view("graph");
    document.getElementById("search").focus();
  }
  if (event.key === "Escape" && !isTyping && !event.target.closest(".pane")) choose(null);
}

// Plots are drawn for a width, so they are drawn again when it changes.
function resized() {
  for (const id of ["roofline", "threads", "memory", "compilation"]) {
    if (id !== state.view) replace(`view-${id}`);
  }
  if (["roofline", "threads", "memory"].includes(state.view)) {
    replace(`view-${state.view}`);
    view(state.view);
  }
}

async function begin() {
  state.reports = (await unpacked()).map(indexed);
  tabs();
  showHead();
  showDetails();
  on("report", again);
  document.addEventListener("keydown", pageKey);
  let pause = 0;
  addEventListener("resize", () => {
    clearTimeout(pause);
    pause = setTimeout(resized, 150);
  });
  view(state.reports.length > 1 ? "compare" : "graph");
  document.body.dataset.ready = "true";
}

begin();
