// Memory: the arena over the calls of a segment, and what conversions move.

function memoryView(place) {
  const { arenas, conversions } = shown().report;
  const parts = arenas.map((arena) => {
    const plot = element("div", { class: "plot arena" });
    return { arena, plot, made: figure(`Arena of ${arena.segment}`, arenaText(arena), plot) };
  });
  const table = conversions.length ? figure("Conversions", conversionText(conversions), conversionTable(conversions)) : null;
  const none = parts.length || table ? null : element("p", { class: "hint" }, "The program has no arena, and converts nothing.");
  replace(place, element("div", { class: "scroll" }, parts.map((part) => part.made), table, none));
  for (const { arena, plot } of parts) drawArena(plot, arena);
}

const arenaText = ({ bytes, buffers, calls }) => `${sizeText(bytes)} hold ${plural(buffers.length, "buffer")} of ${sizeText(d3.sum(buffers, (each) => each.bytes))} over ${plural(calls.length, "call")}`;

function drawArena(place, { bytes, calls, buffers }) {
  const [width, height] = [Math.max(520, place.clientWidth), 320];
  const x = d3.scaleLinear([0, calls.length], [ROOM.left, width - ROOM.right]);
  const y = d3.scaleLinear([0, bytes], [height - ROOM.bottom, ROOM.top]);
  const svg = canvas(place, width, height);
  svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - ROOM.bottom})`).call(d3.axisBottom(x).ticks(Math.min(12, calls.length)).tickFormat(d3.format("d")).tickSizeOuter(0));
  svg.append("g").attr("class", "axis").attr("transform", `translate(${ROOM.left},0)`).call(d3.axisLeft(y).tickValues(sizeTicks(bytes)).tickFormat(sizeText).tickSizeOuter(0));
  svg.append("text").attr("class", "label").attr("x", width - ROOM.right).attr("y", height - 8).attr("text-anchor", "end").text("calls in order");
  const common = buffers.filter((each) => !each.private);
  const boxes = svg.append("g").selectAll("rect").data(common).join("rect").attr("class", "buffer");
  boxes
    .attr("x", (each) => x(each.first) + 0.5)
    .attr("width", (each) => Math.max(1, x(each.last + 1) - x(each.first) - 1))
    .attr("y", (each) => y(each.offset + each.bytes) + 0.5)
    .attr("height", (each) => Math.max(1, y(each.offset) - y(each.offset + each.bytes) - 1))
    .attr("rx", 2)
    .attr("data-tone", (each, i) => i % 4)
    .each(function (each) {
      tipped(this, `${each.name || "buffer"}: ${sizeText(each.bytes)} at ${sizeText(each.offset)}\nwritten by ${calls[each.first]}\nlast used by ${calls[each.last]}`);
    });
}

// Multiples of a power of two, at most six.
function sizeTicks(bytes) {
  const step = 2 ** Math.max(0, Math.ceil(Math.log2(bytes / 6)));
  return d3.range(0, bytes + 1, step);
}

function conversionText(conversions) {
  const byOp = d3.rollups(conversions, (all) => [all.length, d3.sum(all, (each) => each.bytes)], (each) => each.op);
  return byOp.map(([op, [count, bytes]]) => `${count} \u00d7 ${op.replace("place.", "")}: ${sizeText(bytes)}`).join("; ");
}

function conversionTable(conversions) {
  const columns = [
    { name: "conversion", of: (each) => each.op.replace("place.", "") },
    { name: "value of", of: (each) => each.value },
    { name: "from", of: (each) => each.source },
    { name: "to", of: (each) => each.target },
    { name: "bytes", of: (each) => each.bytes, text: (each) => sizeText(each.bytes), number: true },
    { name: "estimate", of: (each) => each.estimate, text: (each) => (each.estimate ? timeText(each.estimate) : "no move"), number: true },
    { name: "read by", of: (each) => each.readers.join(", ") },
  ];
  return table(columns, conversions, { sorted: columns[4], label: "Conversions" });
}
