// A field of the chosen operator over application time: a line for each key, over the span of the timeline.
const MOST_LINES = INKS.length;

function FieldChart({ state, actions, store, view }) {
  const { flow } = state;
  const node = flow.byId.get(state.chosen);
  const place = useRef(null);
  const width = useWidth(place);
  const names = node.rows.fields.filter((_, i) => node.rows.cells[i].isNumeric);
  const field = names.includes(state.field) ? state.field : names[0];
  const lines = useMemo(() => fieldLines(node.rows, field, state.step), [node.rows, field, state.step]);
  useEffect(() => {
    if (!width || !lines.shown.length) return undefined;
    const plot = new uPlot(fieldOptions(flow.times, lines.shown, width), fieldData(lines.shown, view), place.current);
    const follow = onFrame(() => plot.root.isConnected && plot.setData(fieldData(lines.shown, view)));
    plot.over.addEventListener("click", () => selectNearest(plot, lines.shown, view, actions, node));
    view.listeners.add(follow);
    return () => { view.listeners.delete(follow); plot.destroy(); };
  }, [width, lines, state.theme, state.dark]);
  return html`<figure class="chart field" data-chart="field" aria-label=${fieldLabel(node, field, lines)}>
    <figcaption class="bar"><b>${node.name}</b>
      ${names.length ? html`<label>field <select class="filter" aria-label="Field" value=${field} onChange=${(event) => store.set({ field: event.target.value })}>
        ${names.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>` : null}
      <span class="sub">over application time, in the span of the timeline</span></figcaption>
    <div ref=${place} class="chart-place"></div>
    ${lines.shown.length ? html`<ul class="legend">${lines.shown.map((line, i) => html`<li><i class="sign line" style=${`--ink: var(${INKS[i]})`}></i>${line.name}: ${summarize(line.values)}</li>`)}
      ${lines.hidden ? html`<li>${plural(lines.hidden, "more key")} not drawn</li>` : null}</ul>`
      : html`<p class="empty">${names.length ? "No row was known at this step." : "No field of this operator is a number."}</p>`}
  </figure>`;
}

function fieldLabel(node, field, { shown }) {
  return `${field ?? "No field"} of ${node.name} over time. ` + shown.map((line) => `${line.name}: ${summarize(line.values)}`).join("; ");
}

// the values of each key in the order of time, those of the keys with the most rows
function fieldLines(rows, field, step) {
  const cells = rows.cells[rows.fields.indexOf(field)];
  const byKey = new Map();
  for (const row of cells ? rows.byStart : []) {
    if (rows.known[row] > step || !Number.isFinite(rows.start[row]) || Number.isNaN(cells.number(row))) continue;
    const name = rows.key(row) || field;
    if (!byKey.has(name)) byKey.set(name, { name, rows: [], times: [], values: [] });
    const line = byKey.get(name);
    line.rows.push(row);
    line.times.push(rows.start[row]);
    line.values.push(cells.number(row));
  }
  const all = [...byKey.values()].sort((a, b) => b.rows.length - a.rows.length);
  const shown = all.slice(0, MOST_LINES).sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  return { shown, hidden: all.length - shown.length };
}

// the places of a line in a span of time, and one more on either side
function placesIn({ times }, { from, to }) {
  return [Math.max(0, firstAbove(times, from) - 1), Math.min(times.length, firstAbove(times, to) + 1)];
}

function fieldData(lines, view) {
  const thinned = lines.map((line) => {
    const [first, end] = placesIn(line, view);
    return thinBoth(line.times.slice(first, end), line.values.slice(first, end));
  });
  const times = [...new Set([view.from, view.to, ...thinned.flatMap(([x]) => x)])].sort((a, b) => a - b);
  const at = new Map(times.map((time, i) => [time, i]));
  return [times, ...thinned.map(([x, y]) => {
    const column = new Array(times.length).fill(undefined);
    x.forEach((time, i) => { column[at.get(time)] = y[i]; });
    return column;
  })];
}

// the lowest and the highest value of each stretch
function thinBoth(x, y) {
  if (x.length <= MOST_POINTS) return [x, y];
  const size = Math.ceil(2 * x.length / MOST_POINTS);
  const kept = [];
  for (let i = 0; i < x.length; i += size) {
    let [low, high] = [i, i];
    for (let j = i; j < Math.min(i + size, x.length); j++) {
      if (y[j] < y[low]) low = j;
      if (y[j] > y[high]) high = j;
    }
    kept.push(...new Set([Math.min(low, high), Math.max(low, high)]));
  }
  return [kept.map((i) => x[i]), kept.map((i) => y[i])];
}

function fieldOptions(times, lines, width) {
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: ink("--muted"), grid: { stroke: ink("--grid"), width: 1 }, ticks: { stroke: ink("--grid"), width: 1 }, font: "11px system-ui, sans-serif" };
  const grid = (from, to) => times.grid(from, to, (to - from) * 92 / width);
  return {
    width, height: 168, legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } },
    scales: { x: { time: false } },
    series: [{}, ...lines.map((line, i) => ({ stroke: ink(INKS[i]), width: 1.5, dash: DASHES[i % DASHES.length], spanGaps: true, points: { show: line.rows.length < 80, size: 4, fill: ink(INKS[i]) } }))],
    axes: [{
      ...axis, size: 30, splits: (_plot, _axis, from, to) => grid(from, to).places,
      values: (_, splits) => splits.map((at) => times.label(at, splits.length > 1 ? splits[1] - splits[0] : 1)),
    }, { ...axis, size: 74, values: (_, splits) => splits.map(rounded) }],
  };
}

// the row whose point is nearest to the pointer
function selectNearest(plot, lines, view, actions, node) {
  const { left, top } = plot.cursor;
  let [found, nearest] = [-1, Infinity];
  for (const line of lines) {
    const [first, end] = placesIn(line, view);
    for (let i = first; i < end; i++) {
      const away = Math.hypot(plot.valToPos(line.times[i], "x") - left, plot.valToPos(line.values[i], "y") - top);
      if (away < nearest) [found, nearest] = [line.rows[i], away];
    }
  }
  if (found >= 0) actions.select(node.id, found);
}
