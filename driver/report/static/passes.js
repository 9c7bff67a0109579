// What each pass changed.

function passesView(place) {
  const { passes } = shown().report;
  if (!passes.length) return replace(place, element("p", { class: "hint" }, "The passes of this program are not known."));
  const diff = element("div", { class: "diff", tabindex: 0, role: "region", "aria-label": "Changes" });
  const rows = passes.map((each) => passRow(each));
  const pick = (i) => {
    rows.forEach((row, j) => {
      row.setAttribute("aria-selected", String(i === j));
      row.tabIndex = i === j ? 0 : -1;
    });
    showDiff(diff, passes[i]);
  };
  rows.forEach((row, i) => {
    row.addEventListener("click", () => pick(i));
    row.addEventListener("keydown", (event) => passKey(event, rows, i, pick));
  });
  const list = element("div", { class: "passes", role: "listbox", "aria-label": "Passes" }, withStages(passes, rows));
  replace(place, element("div", { class: "split" }, list, diff));
  pick(Math.max(0, passes.findIndex((each) => each.changed && each.diff.length)));
  return undefined;
}

function passRow(each) {
  const changes =
    each.changed === null
      ? [element("span", { class: "sub" }, "too long to compare")]
      : each.changed && (each.added || each.removed)
        ? [element("span", { class: "added" }, `+${each.added}`), element("span", { class: "removed" }, `\u2212${each.removed}`)]
        : [element("span", { class: "sub" }, "unchanged")];
  return element(
    "div",
    { class: "pass", role: "option" },
    element("span", { class: "name" }, each.name),
    element("span", { class: "changes" }, changes),
    element("span", { class: "sub number" }, timeText(each.seconds)),
  );
}

function withStages(passes, rows) {
  return passes.flatMap((each, i) => {
    const isFirst = i === 0 || passes[i - 1].stage !== each.stage;
    return isFirst ? [element("h3", {}, `to ${each.stage}`), rows[i]] : [rows[i]];
  });
}

function passKey(event, rows, i, pick) {
  const turn = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (turn === undefined) return;
  event.preventDefault();
  const next = Math.min(rows.length - 1, Math.max(0, i + turn));
  pick(next);
  rows[next].focus();
}

const KINDS = { "+": "added", "-": "removed", "@": "place" };

function showDiff(place, each) {
  const lines = each.diff.map((line) => element("div", { class: `line ${KINDS[line[0]] ?? ""}` }, line || " "));
  const total = each.added + each.removed;
  const cut = each.diff.length && total > each.diff.filter((line) => "+-".includes(line[0])).length;
  const title = element("h2", {}, each.name, element("span", { class: "sub" }, ` to ${each.stage}, ${timeText(each.seconds)}`));
  const empty = each.changed === null ? "The program is too long to be compared." : "The pass changed nothing.";
  const more = cut ? element("p", { class: "hint" }, `Only the first lines are shown, of ${plural(total, "changed line")}.`) : null;
  place.replaceChildren(...[title, lines.length ? element("div", { class: "lines" }, lines) : element("p", { class: "hint" }, empty), more].filter(Boolean));
  place.scrollTop = 0;
}
