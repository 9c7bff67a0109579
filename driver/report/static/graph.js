// The graph of the steps: dagre places them, d3 draws, pans and zooms.

const BOX = { width: 212, height: 46 };
const MEMBER = { width: 168, height: 28 };
const END = { width: 132, height: 26 };
const HEADER = 10; // the room above an open group for its time
const MOST = 800; // steps from which layers are not put in order, and groups stay closed
const graph = { open: new Set(), found: [], at: -1, boxes: new Map() };

function graphView(place) {
  graph.svg = d3.create("svg").attr("class", "graph").attr("role", "group").attr("aria-label", "Graph of the steps");
  graph.layer = graph.svg.append("g");
  graph.zoom = d3.zoom().scaleExtent([0.03, 3]).on("zoom", ({ transform }) => graph.layer.attr("transform", transform));
  graph.svg.call(graph.zoom).on("dblclick.zoom", null);
  graph.svg.node().append(arrows());
  replace(place, toolbar(), element("div", { class: "stage" }, graph.svg.node()), legend());
  draw();
  requestAnimationFrame(beginning);
}

function toolbar() {
  const count = element("output", { id: "found", "aria-live": "polite" });
  const search = element("input", {
    type: "search",
    id: "search",
    placeholder: "Search nodes, ops, kernels  ( / )",
    "aria-label": "Search nodes, ops and kernels",
    oninput: () => find(search.value),
    onkeydown: (event) => searchKey(event, search),
  });
  const button = (text, action, id) => element("button", { type: "button", onclick: action, id }, text);
  return element(
    "div",
    { class: "toolbar" },
    search,
    count,
    element("span", { class: "space" }),
    button("Fit", fit, "fit"),
    button("Open groups", () => openAll(true), "open-all"),
    button("Close groups", () => openAll(false), "close-all"),
  );
}

function legend() {
  const { most, isMeasured } = shown();
  const swatch = (kind, text) => element("span", { class: "key" }, element("i", { class: kind }), text);
  const scale = element(
    "span",
    { class: "key" },
    "0 %",
    element("i", { class: "scale" }),
    shareText(most),
    isMeasured ? " of the time" : " of the estimate",
  );
  return element("div", { class: "legend" }, scale, swatch("numpy", "NumPy"), swatch("conversion", "conversion"), swatch("end", "input, output"));
}

function arrows() {
  const marker = d3.create("svg:defs").append("marker");
  marker.attr("id", "arrow").attr("viewBox", "0 0 8 8").attr("refX", 7).attr("refY", 4);
  marker.attr("markerWidth", 7).attr("markerHeight", 7).attr("orient", "auto");
  marker.append("path").attr("d", "M0,0.8 L8,4 L0,7.2 z").attr("class", "arrowhead");
  return marker.node().parentNode;
}

// ** layout **

const isLarge = () => shown().steps.length > MOST;
const canOpen = (step) => step.ops.length > 1 && !isLarge();
const isOpen = (step) => canOpen(step) && graph.open.has(step.id);
const memberId = (step, i) => `${step.id}.${i}`;

function laidOut() {
  const { steps, report } = shown();
  const made = new dagre.graphlib.Graph({ compound: true });
  made.setGraph({ rankdir: "TB", nodesep: 26, ranksep: 38, marginx: 20, marginy: 20 });
  made.setDefaultEdgeLabel(() => ({}));
  for (const step of steps) place(made, step);
  for (const edge of report.edges) made.setEdge(...ends(steps[edge.source], steps[edge.target]), { edge });
  if (isLarge()) layered(made, steps);
  else dagre.layout(made);
  return made;
}

// A layout in layers: a step is below all that it reads. Steps are in the order of the program.
function layered(made, steps) {
  const rank = [];
  for (const step of steps) rank.push(1 + (d3.max(step.before, (id) => rank[id]) ?? -1));
  for (const step of steps) {
    if (!step.before.length) rank[step.id] = Math.max(0, (d3.min(step.after, (id) => rank[id]) ?? 1) - 1);
  }
  const [across, down] = [BOX.width + 26, BOX.height + 38];
  const rows = d3.group(steps, (step) => rank[step.id]);
  const width = across * d3.max(rows.values(), (row) => row.length);
  for (const [number, row] of rows) {
    row.forEach((step, i) => {
      const x = width / 2 + (i - (row.length - 1) / 2) * across;
      Object.assign(made.node(String(step.id)), { x, y: number * down + BOX.height });
    });
  }
  for (const edge of made.edges()) {
    const [from, to] = [made.node(edge.v), made.node(edge.w)];
    made.edge(edge).points = [{ x: from.x, y: from.y + from.height / 2 }, { x: to.x, y: to.y - to.height / 2 }];
  }
  Object.assign(made.graph(), { width, height: rows.size * down + BOX.height });
}

function place(made, step) {
  if (!isOpen(step)) {
    const size = step.kind === "input" || step.kind === "output" ? END : BOX;
    made.setNode(String(step.id), { step, ...size });
    return;
  }
  made.setNode(String(step.id), { step, isCluster: true });
  step.ops.forEach((op, i) => {
    made.setNode(memberId(step, op), { step, op: step.members[i], ...MEMBER });
    made.setParent(memberId(step, op), String(step.id));
  });
  for (const [a, b] of step.inner) made.setEdge(memberId(step, a), memberId(step, b), {});
}

// The ends of an edge: the first op of an open group, or its last one, as clusters have no edges.
function ends(source, target) {
  const fed = new Set(target.inner.map(([, b]) => b));
  const used = new Set(source.inner.map(([a]) => a));
  const first = target.ops.find((op) => !fed.has(op)) ?? target.ops[0];
  const last = source.ops.findLast((op) => !used.has(op)) ?? source.ops.at(-1);
  return [
    isOpen(source) ? memberId(source, last) : String(source.id),
    isOpen(target) ? memberId(target, first) : String(target.id),
  ];
}

// ** drawing **

function draw() {
  const made = laidOut();
  const nodes = made.nodes().map((id) => ({ id, ...made.node(id) }));
  graph.boxes = new Map(nodes.map((node) => [node.id, node]));
  graph.size = made.graph();
  graph.layer.selectChildren().remove();
  drawClusters(nodes.filter((node) => node.isCluster));
  drawEdges(made.edges().map((edge) => made.edge(edge)));
  drawBoxes(nodes.filter((node) => !node.isCluster));
  drawToggles(nodes.filter((node) => !node.op && canOpen(node.step)));
  mark();
}

function drawClusters(nodes) {
  const boxes = graph.layer.append("g").selectAll("g").data(nodes).join("g").attr("class", "cluster");
  boxes.attr("data-step", (node) => node.step.id);
  rectangle(boxes, 8);
  boxes
    .select("rect")
    .attr("y", (node) => node.y - node.height / 2 - HEADER)
    .attr("height", (node) => node.height + HEADER);
  boxes
    .append("text")
    .attr("x", (node) => node.x - node.width / 2 + 10)
    .attr("y", (node) => node.y - node.height / 2 + 8)
    .text((node) => timeLine(node.step));
}

function drawEdges(edges) {
  const path = d3.line((point) => point.x, (point) => point.y).curve(d3.curveBasis);
  const lines = graph.layer.append("g").selectAll("path").data(edges).join("path").attr("class", "edge");
  lines.attr("d", (edge) => path(edge.points)).attr("marker-end", "url(#arrow)");
  lines.each(function (edge) {
    if (edge.edge) tipped(this, `${edge.edge.type}${edge.edge.bytes === null ? "" : `, ${sizeText(edge.edge.bytes)}`}`);
  });
}

function drawBoxes(nodes) {
  const boxes = graph.layer.append("g").selectAll("g").data(nodes).join("g").attr("class", boxClass);
  boxes
    .attr("data-step", (node) => node.step.id)
    .attr("role", "button")
    .attr("tabindex", (node, i) => (i === 0 ? 0 : -1))
    .attr("aria-label", spoken)
    .style("--heat-share", (node) => `${(100 * heat(node.step)).toFixed(0)}%`)
    .on("click", (event, node) => choose(node.step.id))
    .on("dblclick", (event, node) => toggle(node.step))
    .on("focus", (event, node) => reveal(node))
    .on("keydown", boxKey);
  rectangle(boxes, 6);
  boxes.filter((node) => node.width === BOX.width).each(boxTexts);
  boxes.filter((node) => node.width !== BOX.width).each(smallText);
  boxes.each(function (node) {
    tipped(this, () => spoken(node));
  });
}

function boxClass(node) {
  const share = heat(node.step);
  const hot = share > 0.52 ? " hot" : share > 0.2 ? " warm" : "";
  return `box ${node.step.kind}${node.op ? " member" : ""}${node.op && !node.op.native ? " numpy" : ""}${hot}`;
}

const heat = (step) => (step.share === null ? 0 : Math.sqrt(Math.min(1, step.share / shown().most)));

function rectangle(boxes, radius) {
  boxes
    .append("rect")
    .attr("x", (node) => node.x - node.width / 2)
    .attr("y", (node) => node.y - node.height / 2)
    .attr("width", (node) => node.width)
    .attr("height", (node) => node.height)
    .attr("rx", (node) => (node.step.kind === "input" || node.step.kind === "output" ? node.height / 2 : radius));
}

function boxTexts(node) {
  const box = d3.select(this);
  const left = node.x - node.width / 2 + 11;
  const right = node.x + node.width / 2 - 11;
  const time = node.step.seconds === null ? "" : timeText(node.step.seconds);
  const room = Math.floor(26 - time.length);
  const names = nodeOf(node.step) ?? node.step.type;
  box.append("text").attr("class", "name").attr("x", left).attr("y", node.y - 4).text(shortened(node.step.title, room));
  box.append("text").attr("class", "time").attr("x", right).attr("y", node.y - 4).text(time);
  box.append("text").attr("class", "sub").attr("x", left).attr("y", node.y + 13).text(shortened(names, 30 - (canOpen(node.step) ? 5 : 0)));
}

function smallText(node) {
  const text = node.op ? `${node.op.op.replace(/^nn\./, "")}` : node.step.title;
  d3.select(this).append("text").attr("class", "middle").attr("x", node.x).attr("y", node.y + 4).text(shortened(text, node.op ? 22 : 18));
}

function drawToggles(nodes) {
  const groups = graph.layer.append("g").selectAll("g").data(nodes).join("g").attr("class", "toggle");
  const x = (node) => node.x + node.width / 2 - 17;
  const y = (node) => (node.isCluster ? node.y - node.height / 2 + 4 : node.y + 10);
  groups.on("click", (event, node) => toggle(node.step)).each(function (node) {
    tipped(this, isOpen(node.step) ? "close the group (o)" : `open the group of ${node.step.ops.length} ops (o)`);
  });
  groups.append("rect").attr("x", (n) => x(n) - 10).attr("y", (n) => y(n) - 8).attr("width", 22).attr("height", 16).attr("rx", 8);
  groups
    .append("text")
    .attr("x", (n) => x(n) + 1)
    .attr("y", (n) => y(n) + 4)
    .text((node) => (isOpen(node.step) ? "\u2212" : `+${node.step.ops.length}`));
}

function timeLine(step) {
  return step.seconds === null ? "" : `${timeText(step.seconds)}, ${shareText(step.share)}`;
}

function spoken(node) {
  const { step, op } = node;
  const parts = op ? [op.op, op.node, op.place] : [step.title, step.nodes.join(", "), step.type, timeLine(step)];
  return parts.filter(Boolean).join("\n");
}

// ** groups, search, selection **

function toggle(step) {
  if (!canOpen(step)) return;
  if (!graph.open.delete(step.id)) graph.open.add(step.id);
  draw();
  focusOn(step.id);
}

function openAll(isWanted) {
  graph.open = new Set(isWanted ? shown().steps.map((step) => step.id) : []);
  draw();
  if (state.step === null) beginning();
  else centre(state.step);
}

function find(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const { steps } = shown();
  graph.found = words.length ? steps.filter((step) => words.every((word) => searched(step).includes(word))).map((step) => step.id) : [];
  graph.at = -1;
  const answer = words.length ? `${graph.found.length} found` : "";
  document.getElementById("found").textContent = answer;
  mark();
  if (graph.found.length) centre(graph.found[0]);
}

const searched = (step) =>
  [step.title, step.label, step.kernel, ...step.nodes, ...step.members.flatMap((op) => [op.op, op.node, ...op.consumed])]
    .join("\n")
    .toLowerCase();

function searchKey(event, search) {
  if (event.key === "Escape") {
    search.value = "";
    find("");
  }
  if (event.key !== "Enter" || !graph.found.length) return;
  const turn = event.shiftKey ? -1 : 1;
  graph.at = (graph.at + turn + graph.found.length) % graph.found.length;
  document.getElementById("found").textContent = `${graph.at + 1} of ${graph.found.length}`;
  choose(graph.found[graph.at]);
}

// Mark the boxes of the chosen step, and those that the search found.
function mark() {
  const found = new Set(graph.found);
  const chosen = chosenStep();
  graph.layer
    .selectAll("[data-step]")
    .classed("chosen", (node) => node.step === chosen)
    .classed("dim", (node) => found.size > 0 && !found.has(node.step.id))
    .classed("match", (node) => found.has(node.step.id));
  const near = chosen ? new Set([...chosen.before, ...chosen.after]) : new Set();
  graph.layer.selectAll(".edge").classed("near", ({ edge }) => Boolean(edge && chosen && touches(edge, chosen.id, near)));
}

const touches = (edge, id, near) =>
  (edge.source === id && near.has(edge.target)) || (edge.target === id && near.has(edge.source));

// ** the keyboard **

const MOVES = { ArrowDown: "after", ArrowUp: "before" };

function boxKey(event, node) {
  if (event.key === "Enter" || event.key === " ") choose(node.step.id);
  else if (event.key === "o") toggle(node.step);
  else if (MOVES[event.key]) move(node.step[MOVES[event.key]][0]);
  else if (event.key === "ArrowRight" || event.key === "ArrowLeft") sideways(node, event.key === "ArrowRight" ? 1 : -1);
  else return;
  event.preventDefault();
}

function move(id) {
  if (id !== undefined) focusOn(id);
}

// The next box in the order of the program.
function sideways(node, turn) {
  move(shown().steps[node.step.id + turn]?.id);
}

function focusOn(id) {
  const box = graph.layer.select(`.box[data-step="${id}"]`).node();
  if (!box) return;
  graph.layer.selectAll(".box").attr("tabindex", -1);
  box.setAttribute("tabindex", 0);
  box.focus({ preventScroll: true });
}

// ** the part of the graph that is visible **

const area = () => graph.svg.node().getBoundingClientRect();

function fit() {
  const { width, height } = area();
  const scale = Math.min(1.2, 0.96 * Math.min(width / graph.size.width, height / graph.size.height));
  show(scale, graph.size.width / 2, graph.size.height / 2);
}

// The beginning of the graph, at a size that can be read.
function beginning() {
  const { width, height } = area();
  if (!width) return;
  const whole = Math.min(width / graph.size.width, height / graph.size.height);
  const scale = Math.min(1.15, Math.max(0.9, whole * 0.96));
  const first = graph.boxes.get("0");
  const x = whole * 0.96 >= scale ? graph.size.width / 2 : (first?.x ?? 0);
  const y = whole * 0.96 >= scale ? graph.size.height / 2 : height / scale / 2;
  show(scale, x, y);
}

function show(scale, x, y) {
  const { width, height } = area();
  const shift = d3.zoomIdentity.translate(width / 2 - scale * x, height / 2 - scale * y).scale(scale);
  graph.svg.call(graph.zoom.transform, shift);
}

function centre(id) {
  const box = graph.boxes.get(String(id));
  if (box) show(Math.max(0.7, d3.zoomTransform(graph.svg.node()).k), box.x, box.y);
}

// Pan if a box is outside.
function reveal(node) {
  const { k, x, y } = d3.zoomTransform(graph.svg.node());
  const { width, height } = area();
  const [left, top] = [node.x * k + x, node.y * k + y];
  const margin = 40;
  if (left < margin || top < margin || left > width - margin || top > height - margin) show(k, node.x, node.y);
}

on("step", () => {
  if (state.view !== "graph" || !graph.layer) return;
  mark();
  const box = graph.boxes.get(String(state.step));
  if (box) requestAnimationFrame(() => reveal(box));
});
