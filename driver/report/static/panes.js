// The code of the chosen step's kernel at four stages; lines that belong together are lit together.

const STAGES = ["tile", "loops", "llvm", "asm"];
const TITLES = { tile: "tile", loops: "loops", llvm: "LLVM", asm: "assembly" };
const panes = { lists: {}, pinned: null, hidden: new Set(["loops"]), kernel: null };

function showCode() {
  const step = chosenStep();
  const kernel = step && shown().kernels.get(step.kernel);
  panes.kernel = kernel ?? null;
  document.body.classList.toggle("with-code", Boolean(kernel));
  if (!kernel) return replace("code");
  panes.pinned = null;
  panes.maps = linkedLines(kernel);
  const present = STAGES.filter((stage) => kernel.panes[stage]);
  replace("code", grip(), codeHead(kernel, present), element("div", { class: "panes" }, present.map((stage) => pane(kernel, stage))));
  const first = kernel.panes.tile.heads.findIndex((head, line) => head === line && panes.maps.tile.made.has(head));
  if (first >= 0) light({ stage: "tile", line: first }, { scrolls: true });
  return undefined;
}

function codeHead(kernel, present) {
  const switches = present.map((stage) =>
    element(
      "button",
      { type: "button", class: "switch", "aria-pressed": String(!panes.hidden.has(stage)), onclick: () => flip(stage) },
      TITLES[stage],
    ),
  );
  const hint = kernel.note || "point at a line, or move with \u2191 and \u2193: its lines in all panes light up";
  return element("div", { class: "code-head" }, element("code", {}, kernel.name), switches, element("span", { class: "hint" }, hint));
}

function flip(stage) {
  if (!panes.hidden.delete(stage)) panes.hidden.add(stage);
  showCode();
}

function pane(kernel, stage) {
  const lines = kernel.panes[stage].text.split("\n");
  const made = lines.map((text, i) => element("div", { class: "line", id: `${stage}-${i}`, "data-line": i }, element("i", {}, String(i + 1)), text || " "));
  const list = element(
    "div",
    {
      class: "lines",
      role: "listbox",
      tabindex: 0,
      "aria-label": `${TITLES[stage]} of ${kernel.name}`,
      onpointerover: (event) => pointed(event, stage),
      onpointerleave: () => light(panes.pinned),
      onclick: (event) => pin(event, stage),
      onkeydown: (event) => paneKey(event, stage),
    },
    made,
  );
  made.forEach((each) => each.setAttribute("role", "option"));
  panes.lists[stage] = made;
  const title = element("h3", {}, TITLES[stage], element("span", { class: "sub" }, ` ${plural(lines.length, "line")}`));
  return element("div", { class: "pane", "data-stage": stage, hidden: panes.hidden.has(stage) }, title, list);
}

// ** which lines belong together **

// For each stage: the heads of its lines, their origins in the stage before, and what is made of them.
function linkedLines(kernel) {
  const maps = {};
  for (const [i, stage] of STAGES.entries()) {
    const found = kernel.panes[stage];
    if (!found) continue;
    const rows = d3.group(d3.range(found.heads.length), (line) => found.heads[line]);
    maps[stage] = { heads: found.heads, origins: found.origins, rows, made: new Map() };
    const before = maps[STAGES[i - 1]];
    if (before) found.origins.forEach((origin, line) => link(before.made, origin, found.heads[line]));
  }
  return maps;
}

function link(made, origin, head) {
  if (origin < 0 || head < 0) return;
  if (!made.has(origin)) made.set(origin, new Set());
  made.get(origin).add(head);
}

// The heads of the lines in each stage that belong to a line.
function family({ stage, line }) {
  const head = panes.maps[stage].heads[line];
  if (head < 0) return {};
  const found = { [stage]: new Set([head]) };
  const at = STAGES.indexOf(stage);
  for (let i = at; i > 0 && panes.maps[STAGES[i]]; i--) found[STAGES[i - 1]] = origins(STAGES[i], found[STAGES[i]]);
  for (let i = at; i + 1 < STAGES.length && panes.maps[STAGES[i + 1]]; i++) found[STAGES[i + 1]] = results(STAGES[i], found[STAGES[i]]);
  return found;
}

function origins(stage, heads) {
  const { rows, origins: from } = panes.maps[stage];
  return new Set([...heads].flatMap((head) => rows.get(head).map((line) => from[line])).filter((head) => head >= 0));
}

const results = (stage, heads) => new Set([...heads].flatMap((head) => [...(panes.maps[stage].made.get(head) ?? [])]));

// ** lighting **

function light(place, { scrolls = false } = {}) {
  for (const each of document.querySelectorAll(".line.lit, .line.here")) each.classList.remove("lit", "here");
  if (place === null) return;
  const found = family(place);
  for (const [stage, heads] of Object.entries(found)) {
    const lines = [...heads].flatMap((head) => panes.maps[stage].rows.get(head) ?? []).sort(d3.ascending);
    for (const line of lines) panes.lists[stage][line].classList.add("lit");
    if (scrolls && stage !== place.stage && lines.length) into(panes.lists[stage][lines[0]]);
  }
  panes.lists[place.stage][place.line].classList.add("here");
}

// Scroll a pane, and nothing else, so that a line is in view.
function into(line) {
  const list = line.parentNode;
  const [top, height] = [line.offsetTop - list.offsetTop, list.clientHeight];
  if (top < list.scrollTop || top > list.scrollTop + height - 24) list.scrollTop = top - height / 3;
}

function lineOf(event) {
  const line = event.target.closest(".line");
  return line ? Number(line.dataset.line) : null;
}

function pointed(event, stage) {
  const line = lineOf(event);
  if (line !== null && panes.pinned === null) light({ stage, line });
}

function pin(event, stage) {
  const line = lineOf(event);
  if (line === null) return;
  const same = panes.pinned !== null && panes.pinned.stage === stage && panes.pinned.line === line;
  panes.pinned = same ? null : { stage, line };
  light(panes.pinned, { scrolls: true });
}

const TURNS = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 };

function paneKey(event, stage) {
  if (event.key === "Escape") {
    panes.pinned = null;
    return light(null);
  }
  const turn = TURNS[event.key];
  if (turn === undefined) return undefined;
  event.preventDefault();
  const last = panes.lists[stage].length - 1;
  const from = panes.pinned?.stage === stage ? panes.pinned.line : -1;
  const line = Math.min(last, Math.max(0, from + turn));
  panes.pinned = { stage, line };
  event.currentTarget.setAttribute("aria-activedescendant", `${stage}-${line}`);
  light(panes.pinned, { scrolls: true });
  into(panes.lists[stage][line]);
  return undefined;
}

// ** the height of the panes **

function grip() {
  const move = (height) => document.body.style.setProperty("--code-height", `${Math.min(80, Math.max(12, height))}vh`);
  const height = () => (100 * document.getElementById("code").offsetHeight) / innerHeight;
  const handle = element("div", {
    class: "grip",
    role: "separator",
    tabindex: 0,
    "aria-orientation": "horizontal",
    "aria-label": "Height of the code",
    onpointerdown: (event) => handle.setPointerCapture(event.pointerId),
    onpointermove: (event) => handle.hasPointerCapture(event.pointerId) && move((100 * (innerHeight - event.clientY)) / innerHeight),
    onkeydown: (event) => {
      if (event.key === "ArrowUp") move(height() + 5);
      if (event.key === "ArrowDown") move(height() - 5);
    },
  });
  return handle;
}

on("step", showCode);
on("report", showCode);
