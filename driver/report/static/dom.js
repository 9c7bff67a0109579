// Elements. Texts are text nodes: nothing that a report names becomes markup.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) set(made, name, value);
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

function set(made, name, value) {
  if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
  else if (name === "vars") for (const [k, v] of Object.entries(value)) made.style.setProperty(k, v);
  else if (typeof value === "boolean") made.toggleAttribute(name, value);
  else if (value !== null && value !== undefined) made.setAttribute(name, value);
}

function replace(id, ...children) {
  const place = typeof id === "string" ? document.getElementById(id) : id;
  place.replaceChildren(...children.flat(Infinity).filter(Boolean));
  return place;
}

// A table: columns are { name, of, text, number, cell }; `of` gives the value that rows are sorted by.
function table(columns, rows, settings = {}) {
  const { sorted = null, down = true, chosen = null, label = "" } = settings;
  const order = { column: sorted, down };
  const body = element("tbody");
  const heads = columns.map((column) => head(column, order, () => fill()));
  const fill = () => {
    heads.forEach((each, i) => each.setAttribute("aria-sort", sortOf(columns[i], order)));
    body.replaceChildren(...inOrder(rows, order).map((row) => line(columns, row, chosen)));
  };
  fill();
  const made = element("table", { "aria-label": label }, element("thead", {}, element("tr", {}, heads)), body);
  return element("div", { class: "table" }, made);
}

function head(column, order, changed) {
  const flip = () => {
    order.down = order.column === column ? !order.down : column.number === true;
    order.column = column;
    changed();
  };
  const button = element("button", { type: "button", onclick: flip }, column.name);
  return element("th", { scope: "col", class: column.number ? "number" : null }, button);
}

function sortOf(column, order) {
  if (order.column !== column) return "none";
  return order.down ? "descending" : "ascending";
}

function inOrder(rows, { column, down }) {
  if (column === null) return rows;
  const compare = down ? d3.descending : d3.ascending;
  return [...rows].sort((a, b) => compare(column.of(a) ?? -1, column.of(b) ?? -1));
}

function line(columns, row, chosen) {
  const cells = columns.map((column) => {
    const shown = column.cell ? column.cell(row) : (column.text ?? column.of)(row);
    return element("td", { class: column.number ? "number" : null }, shown);
  });
  if (chosen === null) return element("tr", {}, cells);
  return element("tr", { class: "choice", "data-step": row.id, onclick: () => chosen(row) }, cells);
}

function facts(pairs) {
  const rows = pairs
    .filter(([, value]) => value !== null && value !== undefined && value !== NONE)
    .map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
  return element("dl", { class: "facts" }, rows);
}

// ** the tip beside the pointer **

function tipped(target, text) {
  const tip = document.getElementById("tip");
  target.addEventListener("pointermove", (event) => {
    tip.textContent = typeof text === "function" ? text() : text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - height - 8)}px`;
  });
  target.addEventListener("pointerleave", () => {
    tip.hidden = true;
  });
}

// ** what is shown **

const state = { reports: [], current: 0, step: null, view: "graph" };
const listeners = { step: [], report: [], view: [] };

const on = (event, listener) => listeners[event].push(listener);
const tell = (event) => listeners[event].forEach((listener) => listener());
const shown = () => state.reports[state.current];

function choose(id) {
  state.step = id;
  tell("step");
}

function chosenStep() {
  return state.step === null ? null : (shown().steps[state.step] ?? null);
}
