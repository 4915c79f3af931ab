// Lanes of the timeline: one for each stream and operator, with a sub-lane for each key.
const TRACK = 11;
const SHORTEST = 20;
const GAP = 7;
const CAPTION = 19;
const LATE_STRIP = 14;
const MOST_KEYS = 40;
const KEYS_SHOWN_AT_FIRST = 6;

function keyCount(node) {
  return node.rows.spec.lane ? node.rows.spec.lane.values.length : 0;
}

function isExpanded(state, node) {
  const count = keyCount(node);
  return count > 1 && (state.expanded[node.id] ?? count <= KEYS_SHOWN_AT_FIRST);
}

// rows of a node by key, each list in the order of start times; keys past the limit share a lane
function rowsByKey(node, split) {
  if (!split) return [{ label: "", rows: node.rows.byStart }];
  const groups = new Map();
  const codes = node.rows.keys.codes;
  for (const row of node.rows.byStart) {
    const code = Math.min(codes[row], MOST_KEYS);
    if (!groups.has(code)) groups.set(code, []);
    groups.get(code).push(row);
  }
  const rest = groups.get(MOST_KEYS);
  groups.delete(MOST_KEYS);
  const lanes = [...groups.values()].map((rows) => ({ label: node.rows.keys.text(rows[0]), rows }));
  lanes.sort((a, b) => a.label.localeCompare(b.label, "en", { numeric: true }));
  return rest ? [...lanes, { label: plural(keyCount(node) - MOST_KEYS, "more key"), rows: rest }] : lanes;
}

// the packed lanes of a node, kept until its rows or their split change
function packedLanes(node, split) {
  if (node.packed?.rows !== node.rows || node.packed.split !== split) {
    const lanes = rowsByKey(node, split).map(({ label, rows }) => ({ label, tracks: packTracks(node.rows, rows) }));
    node.packed = { rows: node.rows, split, lanes, place: findPlaces(node, lanes) };
  }
  return node.packed;
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
    for (const { label, tracks } of packed.lanes) {
      const height = Math.max(SHORTEST, tracks.length * TRACK + 6);
      band.lanes.push({ label, tracks, top, height });
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
