// New rows put behind older ones, column by column; the newest are kept.
const RING = 2000;
const MOST_LINKS = 40000;

function addPart(spec, part) {
  const changes = new Map((part.nodes ?? []).map((node) => [node.id, node]));
  const arrived = new Map((part.arrivals ?? []).map((each) => [each.stream, each]));
  return {
    ...spec, sentence: part.sentence ?? spec.sentence, steps: Math.max(spec.steps ?? 0, (part.step ?? -1) + 1),
    nodes: spec.nodes.map((node) => (changes.has(node.id) ? addToNode(node, changes.get(node.id)) : node)),
    arrivals: spec.arrivals.map((each) => (arrived.has(each.stream) ? addToTable(each, arrived.get(each.stream)) : each)),
  };
}

function addToNode(node, { rows, ctis, heldCurve, links, ...counters }) {
  return {
    ...node, ...counters, causes: null, links: links ? addLinks(node.links, links) : node.links,
    rows: rows ? addToTable(node.rows, rows) : node.rows,
    ctis: ctis ? addToTable(node.ctis, ctis) : node.ctis,
    heldCurve: heldCurve ? addToTable(node.heldCurve, heldCurve) : node.heldCurve,
  };
}

function addToTable(table, more) {
  const keep = keepRows(table, more);
  const merge = (column, next) => (isColumn(column) && next ? addToColumn(column, next, keep) : column);
  return Object.fromEntries(Object.entries(table).map(([name, value]) => {
    if (name === "payload") return [name, value.map((column, i) => merge(column, more.payload?.[i]))];
    return [name, merge(value, more[name])];
  }));
}

// causes of rows, by the numbers of the rows; those of a row that comes again replace the first
function addLinks(links, more) {
  if (!links) return more;
  const [of, again] = [decodeNumbers(links.of), new Set(decodeNumbers(more.of))];
  const merge = ([name, column]) => {
    const values = [...decodeNumbers(column)].filter((_, i) => !again.has(of[i]));
    for (const value of decodeNumbers(more[name])) values.push(value);
    return [name, plain(column.type, values, MOST_LINKS)];
  };
  return Object.fromEntries(Object.entries(links).map(merge));
}

function isColumn(value) {
  return value !== null && typeof value === "object" && typeof value.type === "string";
}

// a row whose end has become known comes again with the number of its edge, and replaces the first
function keepRows(table, more) {
  if (!table.edge || !more.edge) return () => true;
  const again = new Set([...decodeNumbers(more.edge)].filter(Boolean));
  const edges = decodeNumbers(table.edge);
  return (_, row) => !again.has(edges[row]);
}

function addToColumn(column, next, keep) {
  if (column.type === "dict") return addWords(column, next, keep);
  const shift = Number(BigInt(next.origin ?? "0") - BigInt(column.origin ?? "0"));
  const values = [...decodeNumbers(column)].filter(keep);
  for (const value of decodeNumbers(next)) values.push(value + shift);
  const nulls = column.nulls || next.nulls ? { nulls: plain("u8", [...nullsOf(column)].filter(keep).concat([...nullsOf(next)])) } : {};
  return { ...column, ...nulls, ...plain(column.type, values) };
}

function nullsOf(column) {
  return column.nulls ? decodeNumbers(column.nulls) : new Array(column.n).fill(0);
}

// texts by code: the codes of both, and only the texts that are still used
function addWords(column, next, keep) {
  const words = [...column.values, ...next.values];
  const codes = [...decodeNumbers(column.codes)].filter(keep);
  for (const code of decodeNumbers(next.codes)) codes.push(code < 0 ? code : code + column.values.length);
  const places = new Map();
  const again = codes.slice(-RING).map((code) => {
    if (code >= 0 && !places.has(words[code])) places.set(words[code], places.size);
    return code < 0 ? -1 : places.get(words[code]);
  });
  return { ...column, values: [...places.keys()], codes: plain("i32", again) };
}

function plain(type, values, most = RING) {
  const kept = ARRAYS[type].from(values.slice(-most));
  return { type, n: kept.length, data: undefined, values: kept };
}
