// Causes and effects of a row, through all operators: direct causes are given, effects are their inverse.
const ROLES = ["row", "boundary", "history"];
const NO_LINKS = { offsets: new Int32Array(1), side: [], row: [], role: [] };

function causesOf(node) {
  const spec = node.spec.causes;
  node.causes ??= spec ? {
    offsets: decodeNumbers(spec.offsets), side: decodeNumbers(spec.side),
    row: decodeNumbers(spec.row), role: decodeNumbers(spec.role),
  } : node.spec.links ? linkedCauses(node) : NO_LINKS;
  return node.causes;
}

// causes of a live page name rows by numbers that last; those that are not on the page any more are left out
function linkedCauses(node) {
  const links = Object.fromEntries(Object.entries(node.spec.links).map(([name, column]) => [name, decodeNumbers(column)]));
  const places = node.below.map(({ rows }) => rows.placeOf);
  const found = [];
  links.of.forEach((number, i) => {
    const [of, row] = [node.rows.placeOf.get(number), places[links.side[i]].get(links.row[i])];
    if (of !== undefined && row !== undefined) found.push({ of, side: links.side[i], row, role: links.role[i] });
  });
  found.sort((a, b) => a.of - b.of);
  const offsets = new Int32Array(node.rows.n + 1);
  for (const { of } of found) offsets[of + 1]++;
  for (let i = 0; i < node.rows.n; i++) offsets[i + 1] += offsets[i];
  const column = (name) => Int32Array.from(found, (each) => each[name]);
  return { offsets, side: column("side"), row: column("row"), role: column("role") };
}

// the rows of a node that a row of one of its inputs leads to
function effectsOf(node, side, size) {
  node.effects ??= [];
  return (node.effects[side] ??= invert(causesOf(node), side, size));
}

function invert(causes, side, size) {
  const offsets = new Int32Array(size + 1);
  for (let i = 0; i < causes.row.length; i++) if (causes.side[i] === side) offsets[causes.row[i] + 1]++;
  for (let i = 0; i < size; i++) offsets[i + 1] += offsets[i];
  const rows = new Int32Array(offsets[size]);
  const next = offsets.slice();
  for (let of = 0; of + 1 < causes.offsets.length; of++) {
    for (let i = causes.offsets[of]; i < causes.offsets[of + 1]; i++) {
      if (causes.side[i] === side) rows[next[causes.row[i]]++] = of;
    }
  }
  return { offsets, rows };
}

// direct causes of a row: node, row, role
function directCauses(flow, node, row) {
  const { offsets, side, row: rows, role } = causesOf(node);
  const found = [];
  for (let i = offsets[row]; i < (offsets[row + 1] ?? 0); i++) {
    found.push({ node: flow.byId.get(node.inputs[side[i]]), row: rows[i], role: role[i] });
  }
  return found;
}

function directEffects(flow, node, row) {
  const found = [];
  for (const below of flow.nodes) {
    below.inputs.forEach((id, side) => {
      if (id !== node.id) return;
      const { offsets, rows } = effectsOf(below, side, node.rows.n);
      for (let i = offsets[row]; i < offsets[row + 1]; i++) found.push({ node: below, row: rows[i] });
    });
  }
  return found;
}

// all rows that can be reached: a map from node to the set of its rows
function reach(flow, node, row, links) {
  const reached = new Map();
  const waiting = [{ node, row }];
  while (waiting.length) {
    const at = waiting.pop();
    for (const next of links(flow, at.node, at.row)) {
      if (!reached.has(next.node.id)) reached.set(next.node.id, new Set());
      const rows = reached.get(next.node.id);
      if (rows.has(next.row)) continue;
      rows.add(next.row);
      waiting.push(next);
    }
  }
  return reached;
}

function traceRow(flow, node, row) {
  return { causes: reach(flow, node, row, directCauses), effects: reach(flow, node, row, directEffects) };
}

// the place of a row in a trace: selected, cause, effect or nothing
function relation(state, node, row) {
  if (state.selected?.node === node.id && state.selected.row === row) return "selected";
  if (state.trace?.causes.get(node.id)?.has(row)) return "cause";
  if (state.trace?.effects.get(node.id)?.has(row)) return "effect";
  return "";
}
