// Lanes of the timeline: one for each stream and operator, with a sub-lane for each key.
const TRACK = 11;
const SHORTEST = 20;
const GAP = 7;
const CAPTION = 19;
const LATE_STRIP = 14;
const MOST_KEYS = 40;
const KEYS_SHOWN_AT_FIRST = 6;

function keyCount(node) {
  return new Set([node.rows, node.soFar].flatMap((rows) => rows.spec.lane?.values ?? [])).size;
}

function isExpanded(state, node) {
  const count = keyCount(node);
  return count > 1 && (state.expanded[node.id] ?? count <= KEYS_SHOWN_AT_FIRST);
}

// rows of a node by key, each list in the order of start times, and those that are not final; keys past the limit
// share a lane
function rowsByKey(node, split) {
  if (!split) return [{ label: "", rows: node.rows.byStart, notFinal: node.notFinal }];
  const groups = new Map();
  const find = (key) => {
    const label = groups.has(key) || groups.size < MOST_KEYS ? key : null;
    if (!groups.has(label)) groups.set(label, { label, rows: [], notFinal: [] });
    return groups.get(label);
  };
  for (const row of node.rows.byStart) find(node.rows.key(row)).rows.push(row);
  for (const row of node.notFinal) find(node.soFar.key(row)).notFinal.push(row);
  const rest = groups.get(null);
  groups.delete(null);
  const lanes = [...groups.values()];
  lanes.sort((a, b) => a.label.localeCompare(b.label, "en", { numeric: true }));
  return rest ? [...lanes, { ...rest, label: plural(keyCount(node) - MOST_KEYS, "more key") }] : lanes;
}

// the packed lanes of a node, kept until its rows or their split change
function packedLanes(node, split) {
  if (node.packed?.rows !== node.rows || node.packed.split !== split) {
    const lanes = rowsByKey(node, split).map((lane) => packLane(node, lane));
    node.packed = { rows: node.rows, split, lanes, place: findPlaces(node, lanes) };
  }
  return node.packed;
}

// outlines stand in the tracks of the rows, behind them
function packLane(node, { label, rows, notFinal }) {
  const ends = [];
  const packed = packTracks(node.rows, rows, ends);
  const outlines = packTracks(node.soFar, notFinal, ends);
  const fill = (tracks, table) => ends.map((_, at) => tracks[at] ?? new Track([], table));
  return { label, tracks: fill(packed, node.rows), outlines: fill(outlines, node.soFar) };
}

// lane and track of each row
function findPlaces(node, lanes) {
  const place = { lane: new Int16Array(node.rows.n), track: new Int8Array(node.rows.n) };
  lanes.forEach((lane, at) => lane.tracks.forEach((track, number) => {
    for (const row of track.rows) { place.lane[row] = at; place.track[row] = number; }
  }));
  return place;
}

// nodes in the order of the plan, with the tops and heights of their lanes
function layLanes(state, narrow) {
  let top = GAP;
  const bands = state.flow.nodes.map((node) => {
    const split = isExpanded(state, node);
    const packed = packedLanes(node, split);
    const arrivals = state.flow.arrivalsOf.get(node.id);
    const band = { node, top, split, place: packed.place, arrivals, lanes: [] };
    top += narrow ? CAPTION : 0;
    for (const lane of packed.lanes) {
      const height = Math.max(SHORTEST, lane.tracks.length * TRACK + 6);
      band.lanes.push({ ...lane, top, height });
      top += height;
    }
    if (!packed.lanes.length) top += SHORTEST;
    band.late = arrivals?.late.length ? top : null;
    if (band.late !== null) top += LATE_STRIP;
    band.height = Math.max(top - band.top, 34);
    top = band.top + band.height + GAP;
    return band;
  });
  return { bands, height: top };
}

function trackTop(lane, number) {
  return lane.top + (lane.height - lane.tracks.length * TRACK) / 2 + number * TRACK + 1;
}
