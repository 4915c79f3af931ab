// The events of the chosen node as a table; only the rows in sight are made.
const ROW_HEIGHT = 28;
const SPARE = 6;

function Table({ state, actions, store }) {
  const node = state.flow.byId.get(state.chosen);
  const source = useMemo(() => tableOf(state.flow, node), [state.flow, state.version, node]);
  const sorting = source.columns.find(({ name }) => name === state.order?.name);
  const sorted = useMemo(() => sortRows(source, sorting, state), [source, sorting, state.order, sorting?.isThen && state.step]);
  const rows = useMemo(() => listRows(source, sorted, state), [source, sorted, state.step, state.filter]);
  return html`<div class="table-part">
    <div class="bar">
      <h2 id="table-title">${source.title} <span class="sub">${node.name}${state.flow.times.isDate ? ", UTC" : ""}</span></h2>
      <span class="sub" data-count>${rows.length === source.n ? plural(source.n, "row") : `${count(rows.length)} of ${plural(source.n, "row")}`}</span>
      <span class="spring"></span>
      <input type="search" id="filter" class="filter" aria-label="Filter rows" placeholder="filter: text, name=…, name>…"
        value=${state.filter} onInput=${(event) => store.set({ filter: event.target.value })} />
    </div>
    ${node.notFinal.length && state.step >= state.flow.last ? html`<${SoFar} node=${node} />` : null}
    <${Grid} state=${state} actions=${actions} store=${store} source=${source} rows=${rows} />
  </div>`;
}

// what the outlines of the timeline are, in words; the newest first
function SoFar({ node }) {
  const { soFar } = node;
  const [all, shown] = [node.countNotFinal(), node.notFinal.slice(-LISTED).reverse()];
  return html`<details class="so-far-list"><summary>${plural(all, "row")} so far, not final</summary>
    <ul>${shown.map((row) => html`<li>${soFar.lifetime(row)}: ${soFar.summary(row)}</li>`)}
      ${all > shown.length ? html`<li>and ${count(all - shown.length)} more</li>` : null}</ul></details>`;
}

// columns of a node's table: a source shows its arrivals, late ones too
function tableOf(flow, node) {
  const arrivals = flow.arrivalsOf.get(node.id);
  return arrivals && !flow.spec.live ? arrivalTable(flow.times, arrivals) : rowTable(flow.times, node.rows);
}

function rowTable(times, rows) {
  const columns = [
    { name: "row", width: 64, text: (row) => String(row), number: (row) => row },
    { name: "start", width: timeWidth(times), isTime: true, text: (row) => times.cell(rows.start[row]), rank: (row) => rows.start[row] },
    {
      name: "end", width: timeWidth(times), isTime: true, isThen: true, rank: (row, step) => rows.endAt(row, step),
      text: (row, step = Infinity) => (rows.isPoint(row) ? "point" : times.cell(rows.endAt(row, step))),
    },
    { name: "known", width: 78, text: (row) => String(rows.known[row]), number: (row) => rows.known[row] },
    ...payloadColumns(rows),
  ];
  return { title: "Rows", n: rows.n, columns, step: rows.known, start: rows.start, rowOf: (row) => row };
}

function arrivalTable(times, arrivals) {
  const end = (i) => (arrivals.kind[i] === 4 ? "CTI" : arrivals.end[i] - arrivals.start[i] <= 1 ? "point" : times.cell(arrivals.end[i]));
  const columns = [
    { name: "arrival", width: 78, text: (i) => String(arrivals.step[i]), number: (i) => arrivals.step[i] },
    { name: "start", width: timeWidth(times), isTime: true, text: (i) => times.cell(arrivals.start[i]), rank: (i) => arrivals.start[i] },
    { name: "end", width: timeWidth(times), isTime: true, text: end, rank: (i) => arrivals.end[i] },
    { name: "verdict", width: 168, text: (i) => arrivals.verdictText(i), late: (i) => arrivals.verdict[i] === LATE, rank: (i) => arrivals.lateness(i) },
    ...payloadColumns(arrivals),
  ];
  return {
    title: "Arrivals", n: arrivals.n, columns, step: arrivals.step, start: arrivals.start, arrivals,
    rowOf: (i) => arrivals.row[i],
  };
}

function timeWidth(times) {
  return times.isOneDay ? 128 : 176;
}

function payloadColumns({ fields, cells }) {
  return cells.map((column, i) => ({
    name: fields[i], width: 128, isPayload: true,
    text: (row) => column.text(row), number: (row) => column.number(row), rank: (row) => column.rank(row),
  }));
}

// all places in the table, in the order of a column; without one in that of arrival
function sortRows(source, column, { order, step }) {
  if (!column) return (source.byStep ??= sortedOrder(source.step));
  const rank = column.rank ?? column.number;
  return directedOrder(Float64Array.from(source.step, (_, row) => rank(row, step)), order.down);
}

// those that pass the filter and were known at the step
function listRows(source, sorted, { flow, step, filter }) {
  if (step >= flow.last && !filter.trim()) return sorted;
  const passes = makeFilter(filter, source.columns);
  return sorted.filter((row) => source.step[row] <= step && passes(row));
}

// a click sorts up, another one down, a third one as the rows came
function nextOrder(order, name) {
  if (order?.name !== name) return { name, down: false };
  return order.down ? null : { name, down: true };
}

function ColumnHead({ name, order, store }) {
  const sort = order?.name === name ? (order.down ? "descending" : "ascending") : null;
  return html`<th scope="col" aria-sort=${sort}><button type="button" title=${`Sort by ${name}`} onClick=${() => store.set({ order: nextOrder(order, name) })}>${name}${sort ? html`<span aria-hidden="true">${order.down ? " ▾" : " ▴"}</span>` : null}</button></th>`;
}

function Grid({ state, actions, store, source, rows }) {
  const scroller = useRef(null);
  const [top, setTop] = useState(0);
  const height = useSize(scroller).height || 320;
  const from = Math.max(0, Math.floor(top / ROW_HEIGHT) - SPARE);
  const to = Math.min(rows.length, Math.ceil((top + height) / ROW_HEIGHT) + SPARE);
  useEffect(() => scrollToSelected(scroller.current, state, source, rows), [state.selected, state.chosen, rows]);
  const width = source.columns.reduce((sum, column) => sum + column.width, 0);
  return html`<div class="grid" ref=${scroller} tabindex="0" onScroll=${(event) => setTop(event.target.scrollTop)} aria-labelledby="table-title" role="region">
    <table aria-labelledby="table-title" aria-rowcount=${rows.length + 1} style=${{ width: `max(100%, ${width}px)` }}>
      <colgroup>${source.columns.map((column) => html`<col style=${{ width: `${column.width}px` }} />`)}</colgroup>
      <thead><tr>${source.columns.map(({ name }) => html`<${ColumnHead} name=${name} order=${state.order} store=${store} />`)}</tr></thead>
      <tbody>
        ${from > 0 ? html`<tr aria-hidden="true" style=${{ height: `${from * ROW_HEIGHT}px` }}></tr>` : null}
        ${[...rows.slice(from, to)].map((row, i) => html`<${GridRow} key=${row} row=${row} index=${from + i} state=${state} actions=${actions} source=${source} />`)}
        ${to < rows.length ? html`<tr aria-hidden="true" style=${{ height: `${(rows.length - to) * ROW_HEIGHT}px` }}></tr>` : null}
      </tbody>
    </table>
    ${rows.length ? null : html`<p class="empty">${source.n ? "No row passes the filter, or none was known at this step." : "Nothing came out of this operator."}</p>`}
  </div>`;
}

function GridRow({ row, index, state, actions, source }) {
  const node = state.flow.byId.get(state.chosen);
  const rowNumber = source.rowOf(row);
  const isLate = source.arrivals && state.selected?.arrival === row && state.selected.node === node.id;
  const kind = isLate ? "selected" : rowNumber < 0 ? "" : relation(state, node, rowNumber);
  const choose = () => (source.arrivals ? actions.selectArrival(node.id, row) : actions.select(node.id, row));
  return html`<tr class=${kind && `is-${kind}`} aria-rowindex=${index + 2} aria-current=${kind === "selected" ? "true" : null} onClick=${choose}>
    ${source.columns.map((column, i) => html`<td class=${column.late?.(row) ? "is-late" : ""}>
      ${i === 0 ? html`<button type="button" class="row-button" aria-label=${`${source.title.slice(0, -1)} ${column.text(row)}${kind && `, ${kind}`}`}>${MARKS[kind]}${column.text(row)}</button>`
        : column.text(row, state.step)}</td>`)}
  </tr>`;
}

const MARKS = { "": "", selected: "● ", cause: "◂ ", effect: "▸ " };

// the selected row, or the first of its causes or effects, scrolls into sight
function scrollToSelected(element, state, source, rows) {
  const { selected, chosen, flow } = state;
  if (!selected || (selected.node !== chosen && !state.trace)) return;
  const node = flow.byId.get(chosen);
  const isIt = selected.node !== chosen ? (row) => source.rowOf(row) >= 0 && relation(state, node, source.rowOf(row))
    : (row) => (selected.row >= 0 ? source.rowOf(row) === selected.row : row === selected.arrival);
  const at = rows.findIndex(isIt);
  const top = at * ROW_HEIGHT;
  if (at >= 0 && (top < element.scrollTop || top + 2 * ROW_HEIGHT > element.scrollTop + element.clientHeight - ROW_HEIGHT)) {
    element.scrollTop = Math.max(0, top - element.clientHeight / 3);
  }
}
