// What lies below a place of the timeline: a row, a late event, or an empty place of a lane.
const NEAR = 5;

function hit(scene, { x, y }) {
  const contentY = y + scene.scroll;
  const band = scene.layout.bands.find(({ top, height }) => contentY >= top && contentY < top + height);
  if (!band || x < scene.left) return null;
  const time = scene.time(x);
  const slack = scene.time(x + NEAR) - time;
  if (band.late !== null && contentY >= band.late) {
    return { band, time, key: "", arrival: nearestLate(scene, band.arrivals, time, slack) };
  }
  const lane = band.lanes.find(({ top, height }) => contentY >= top && contentY < top + height);
  if (!lane) return { band, time, key: "" };
  const number = Math.floor((contentY - trackTop(lane, 0) + 2) / TRACK);
  const row = nearestRow(scene, band.node.rows, lane.tracks[number], time, slack);
  return { band, time, key: lane.label, row, notFinal: nearestOutline(scene, lane.outlines[number], time, slack) };
}

function nearestOutline({ step, flow }, track, time, slack) {
  if (!track || step < flow.last) return undefined;
  const [from, to] = track.span(time - slack, time + slack);
  const away = (at) => distance(time, track.starts[at], track.ends[at]);
  const near = Array.from({ length: to - from }, (_, i) => from + i).filter((at) => away(at) <= slack);
  return near.length ? track.rows[near.reduce((a, b) => (away(a) <= away(b) ? a : b))] : undefined;
}

// the row at a time, or the one that begins or ends next to it
function nearestRow(scene, rows, track, time, slack) {
  if (!track) return undefined;
  const [from, to] = track.span(time - slack, time + slack);
  let found;
  let nearest = slack;
  for (let i = from; i < to; i++) {
    const row = track.rows[i];
    if (rows.known[row] > scene.step) continue;
    const away = distance(time, rows.start[row], rows.endAt(row, scene.step));
    if (away <= nearest) [found, nearest] = [row, away];
  }
  return found;
}

function distance(time, start, end) {
  if (time < start) return start - time;
  return time < end ? 0 : time - end;
}

function nearestLate(scene, arrivals, time, slack) {
  const near = [...arrivals.late].filter((i) => arrivals.step[i] <= scene.step
    && distance(time, arrivals.start[i], arrivals.start[i] + arrivals.by[i]) <= slack);
  if (!near.length) return undefined;
  return near.reduce((a, b) => (Math.abs(arrivals.start[a] - time) <= Math.abs(arrivals.start[b] - time) ? a : b));
}

// a line about what lies below the pointer
function describeHit(scene, found) {
  const { band, row, notFinal, arrival } = found;
  const { times } = scene.flow;
  if (row !== undefined) return `${band.node.rows.summary(row)} · ${band.node.rows.lifetime(row, scene.step)}`;
  if (notFinal !== undefined) return `not final, so far: ${band.node.soFar.summary(notFinal)} · ${band.node.soFar.lifetime(notFinal)}`;
  if (arrival !== undefined) return `${times.full(band.arrivals.start[arrival])} · ${band.arrivals.verdictText(arrival)}`;
  return times.full(found.time);
}
