// The live page: rows of a served application come in by server-sent events, the newest are kept.
const RING = 2000;

function followLive(store, view) {
  const { flow } = store.state;
  if (!flow.spec.live || !flow.spec.events) return;
  const events = new EventSource(flow.spec.events);
  store.set({ live: "connecting" });
  events.onopen = () => store.set({ live: "connected" });
  events.onerror = () => store.set({ live: events.readyState === EventSource.CLOSED ? "closed" : "connecting again" });
  events.addEventListener("flow", (event) => showFlow(store, view, JSON.parse(event.data)));
  events.addEventListener("part", (event) => showFlow(store, view, addPart(store.state.flow.spec, JSON.parse(event.data))));
}

// the same page with another flow; what is shown stays shown
function showFlow(store, view, spec) {
  const { state } = store;
  const isFollowing = state.step >= state.flow.last;
  const wasWhole = view.from <= view.whole[0] && view.to >= view.whole[1];
  const flow = new Flow({ ...spec, live: true });
  const chosen = flow.byId.has(state.chosen) ? state.chosen : flow.output.id;
  if (flow.times.base !== state.flow.times.base) store.set({ selected: null, trace: null, absence: null });
  view.whole = flow.extent;
  store.set({ flow, chosen, step: isFollowing ? flow.last : Math.min(state.step, flow.last), live: "connected" });
  if (wasWhole) view.fit();
  else view.set(view.from, view.to);
}

// a flow with the new rows of each node, as plain columns; rows that no longer fit are forgotten
function addPart(spec, part) {
  const changes = new Map((part.nodes ?? []).map((node) => [node.id, node]));
  const arrived = new Map((part.arrivals ?? []).map((each) => [each.stream, each]));
  return {
    ...spec, sentence: part.sentence ?? spec.sentence, steps: Math.max(spec.steps ?? 0, (part.step ?? -1) + 1),
    nodes: spec.nodes.map((node) => (changes.has(node.id) ? addToNode(node, changes.get(node.id)) : node)),
    arrivals: spec.arrivals.map((each) => (arrived.has(each.stream) ? addToTable(each, arrived.get(each.stream)) : each)),
  };
}

function addToNode(node, { rows, ctis, heldCurve, ...counters }) {
  return {
    ...node, ...counters, causes: null,
    rows: rows ? addToTable(node.rows, rows) : node.rows,
    ctis: ctis ? addToTable(node.ctis, ctis) : node.ctis,
    heldCurve: heldCurve ? addToTable(node.heldCurve, heldCurve) : node.heldCurve,
  };
}

function addToTable(table, more) {
  const merge = (column, next) => (column && next && typeof column === "object" ? addToColumn(column, next) : column);
  return Object.fromEntries(Object.entries(table).map(([name, value]) => {
    if (name === "payload") return [name, value.map((column, i) => merge(column, more.payload?.[i]))];
    return [name, name === "fields" ? value : merge(value, more[name])];
  }));
}

function addToColumn(column, next) {
  if (column.type === "dict") return addWords(column, next);
  const shift = Number(BigInt(next.origin ?? "0") - BigInt(column.origin ?? "0"));
  const values = [...numbersOf(column), ...[...numbersOf(next)].map((value) => value + shift)].slice(-RING);
  const nulls = column.nulls || next.nulls ? { nulls: plain("u8", [...nullsOf(column), ...nullsOf(next)].slice(-RING)) } : {};
  return { ...column, ...nulls, ...plain(column.type, values) };
}

function nullsOf(column) {
  return column.nulls ? numbersOf(column.nulls) : new Array(column.n).fill(0);
}

function addWords(column, next) {
  const codes = [...numbersOf(column.codes), ...[...numbersOf(next.codes)].map((code) => (code < 0 ? code : code + column.values.length))].slice(-RING);
  const words = [...column.values, ...next.values];
  const places = new Map();
  const values = [];
  const again = codes.map((code) => {
    if (code < 0) return -1;
    const word = words[code];
    if (!places.has(word)) places.set(word, values.push(word) - 1);
    return places.get(word);
  });
  return { ...column, values, codes: plain("i32", again) };
}

function plain(type, values) {
  return { type, n: values.length, data: undefined, values: ARRAYS[type].from(values) };
}

function numbersOf(column) {
  return decodeNumbers(column);
}
