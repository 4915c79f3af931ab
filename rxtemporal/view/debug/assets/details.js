// Beside the timeline: the selected row with its causes and effects, or the answer about an empty place.
const LISTED = 10;

function Details({ state, actions }) {
  const { selected, absence } = state;
  const close = html`<button type="button" class="quiet" aria-label="Close" title="Close (Esc)" onClick=${() => actions.clear()}>×</button>`;
  if (absence) return html`<${Absence} absence=${absence} close=${close} />`;
  if (!selected) return html`<${Hint} />`;
  return selected.row >= 0 ? html`<${RowDetails} state=${state} actions=${actions} close=${close} />`
    : html`<${LateDetails} state=${state} close=${close} />`;
}

function Hint() {
  return html`<div class="details is-empty"><h2>Why?</h2>
    <p>Click a row to see its causes and effects. Click an empty place of a lane to ask why no row is there.</p>
    <p>With the keyboard: <kbd>[</kbd> <kbd>]</kbd> select rows, <kbd>n</kbd> <kbd>p</kbd> step by event, <kbd>?</kbd> shows all keys.</p></div>`;
}

function Absence({ absence, close }) {
  return html`<div class="details" data-absence><header><h2>${absence.title}</h2>${close}</header>
    <ul class="facts">${absence.sentences.map((sentence) => html`<li>${sentence}</li>`)}</ul>
    <p class="scope">${absence.scope}</p></div>`;
}

function LateDetails({ state, close }) {
  const { node: id, arrival } = state.selected;
  const { flow } = state;
  const arrivals = flow.arrivalsOf.get(id);
  const dropped = arrivals.verdict[arrival] === LATE;
  return html`<div class="details" data-selected><header><h2>Arrival ${arrivals.step[arrival]} <span class="sub">${flow.byId.get(id).name}</span></h2><${Link} state=${state} />${close}</header>
    <p class="lifetime">${flow.times.full(arrivals.start[arrival])}</p>
    <p>${KINDS[arrivals.kind[arrival]]}, ${arrivals.verdictText(arrival)}.${dropped ? " It was dropped: no row stands on it." : ""}</p>
    ${dropped ? html`<p>A delay longer by ${flow.times.span(arrivals.by[arrival])} would have kept it.</p>` : null}
    <${Origin} arrivals=${arrivals} index=${arrival} />
    <${Payload} table=${arrivals} row=${arrival} /></div>`;
}

function RowDetails({ state, actions, close }) {
  const { flow, selected, trace, step } = state;
  const node = flow.byId.get(selected.node);
  const { rows } = node;
  const arrivals = flow.arrivalsOf.get(node.id);
  const from = arrivals ? arrivals.ofRow(selected.row) : -1;
  return html`<div class="details" data-selected><header><h2>Row ${selected.row} <span class="sub">${node.name}</span></h2><${Link} state=${state} />${close}</header>
    <p class="lifetime">${lifetimeText(flow.times, rows, selected.row, step)}</p>
    <p class="sub">${knownText(flow, rows, selected.row, step)}</p>
    <${Payload} table=${rows} row=${selected.row} />
    ${from >= 0 ? html`<${Origin} arrivals=${arrivals} index=${from} />` : null}
    <${Related} title="Causes" kind="cause" sets=${trace.causes} state=${state} actions=${actions} node=${node} />
    <${Related} title="Effects" kind="effect" sets=${trace.effects} state=${state} actions=${actions} node=${node} />
  </div>`;
}

// the address of what is selected, to copy
function Link({ state }) {
  const link = linkOf(state);
  return link ? html`<a class="link-here" href=${link} title="The address of this row: copy it">link</a>` : null;
}

function knownText(flow, rows, row, step) {
  if (rows.known[row] > step) return `not known before ${stepName(flow)} ${count(rows.known[row])}`;
  return `known since ${stepName(flow)} ${count(rows.known[row])}${rows.closed[row] > step ? ", still open" : ""}`;
}

function lifetimeText(times, rows, row, step) {
  if (rows.isPoint(row)) return `${times.full(rows.start[row])} · point`;
  const end = rows.endAt(row, step);
  return times.range(rows.start[row], end) + (end === Infinity ? "" : ` · ${times.span(end - rows.start[row]).replaceAll(" ", "\u00a0")}`);
}

function Origin({ arrivals, index }) {
  const input = arrivals.input?.text(index);
  const place = arrivals.position[index] >= 0 ? `, record ${count(arrivals.position[index])}` : "";
  const reason = arrivals.reason && !arrivals.reason.isNull(index) ? arrivals.reason.text(index) : "";
  return html`<p class="sub">arrival ${count(arrivals.step[index])}${input && input !== "null" ? ` from ${input}` : ""}${place}${reason ? ` · ${reason}` : ""}${arrivals.verdict[index] === ADJUSTED ? ` · ${arrivals.verdictText(index)}` : ""}</p>`;
}

function Payload({ table, row }) {
  return html`<dl class="payload">${table.fields.map((name, i) => html`<div><dt>${name}</dt><dd>${table.cells[i].exact(row)}</dd></div>`)}</dl>`;
}

// causes or effects, operator by operator; long lists are cut and counted
function Related({ title, kind, sets, state, actions, node }) {
  const { flow } = state;
  const note = kind === "cause" ? node.spec.causesNote : null;
  const total = [...sets.values()].reduce((sum, rows) => sum + rows.size, 0);
  const roles = kind === "cause" ? rolesOf(flow, node, state.selected.row) : new Map();
  const groups = flow.nodes.filter(({ id }) => sets.has(id));
  if (kind === "cause") groups.reverse();
  return html`<section class=${`related is-${kind}`} aria-label=${title}>
    <h3><i class=${`sign bar ${kind}`}></i>${title} <span class="sub">${total ? count(total) : node.isSource && kind === "cause" ? "none: this is an input" : "none"}</span></h3>
    ${note ? html`<p class="scope">${show(note)}</p>` : null}
    ${groups.map((each) => html`<details key=${`${node.id}/${state.selected.row}/${each.id}`} open=${isShort(node, each, sets)}>
      <summary>${each.name} <span class="sub">${plural(sets.get(each.id).size, "row")}</span></summary>
      ${sets.get(each.id).size > LISTED ? html`<${Summary} node=${each} rows=${sets.get(each.id)} times=${flow.times} />` : null}
      <ul>${[...sets.get(each.id)].sort((a, b) => a - b).slice(0, LISTED).map((row) => html`<li><button type="button" onClick=${() => actions.select(each.id, row)}>
        <b>${each.rows.isPoint(row) ? flow.times.short(each.rows.start[row]) : `${flow.times.short(each.rows.start[row])}–${flow.times.short(each.rows.end[row])}`}</b>
        ${" "}${each.rows.summary(row)} ${roles.get(`${each.id}/${row}`) ? html`<i>${roles.get(`${each.id}/${row}`)}</i>` : null}</button></li>`)}</ul>
      ${sets.get(each.id).size > LISTED ? html`<p class="sub">and ${count(sets.get(each.id).size - LISTED)} more</p>` : null}</details>`)}
  </section>`;
}

// what many rows have in common: their span of time, and range and mean of each number
function Summary({ node, rows, times }) {
  const starts = [...rows].map((row) => node.rows.start[row]);
  const numeric = node.rows.cells.map((cells, i) => ({ name: node.rows.fields[i], cells })).filter(({ cells }) => cells.isNumeric);
  return html`<ul class="summary" data-summary>
    <li>${times.range(least(starts), most(starts))}</li>
    ${numeric.map(({ name, cells }) => html`<li>${name} ${summarize([...rows].map((row) => cells.number(row)))}</li>`)}
  </ul>`;
}

function summarize(values) {
  const given = values.filter((value) => !Number.isNaN(value));
  if (!given.length) return "has no values";
  const mean = given.reduce((sum, value) => sum + value, 0) / given.length;
  return `${rounded(least(given))} to ${rounded(most(given))}, mean ${rounded(mean)}`;
}

function least(values) {
  return values.reduce((a, b) => Math.min(a, b), Infinity);
}

function most(values) {
  return values.reduce((a, b) => Math.max(a, b), -Infinity);
}

// lists that begin open: of inputs, of neighbours in the plan, and all that are short
function isShort(node, each, sets) {
  return each.isSource || node.inputs.includes(each.id) || each.inputs.includes(node.id) || sets.get(each.id).size <= 4;
}

// roles of the direct causes, where they are not simply rows
function rolesOf(flow, node, row) {
  return new Map(directCauses(flow, node, row).filter(({ role }) => role > 0)
    .map((cause) => [`${cause.node.id}/${cause.row}`, ROLES[cause.role]]));
}
