// Rows on the canvas: bars, ticks for points, a fading bar where no end is known yet.
const FADE = 90;

// left and right edge of a span of time, cut to what the canvas shows
function edges(scene, start, end) {
  const left = Math.max(scene.x(start), scene.left - 4);
  const right = Math.min(scene.x(end), scene.width + 4);
  return [left, Math.max(right, left + 2)];
}

// the right edge of a bar's colour: bars that are wide enough leave a gap to their neighbour
function rightEdge(left, right, least) {
  return Math.max(right - left > 4 ? Math.floor(right) - 1 : right - 0.5, left + least);
}

function fillBar(scene, start, end, top, fill) {
  const { ink } = scene;
  const [left, right] = edges(scene, start, end);
  ink.fillStyle = fill;
  ink.fillRect(left, top, rightEdge(left, right, 2) - left, TRACK - 2);
}

// an open row: full up to the CTI, fading after it
function fillOpen(scene, start, cti, top, colour) {
  const { ink } = scene;
  const left = Math.max(scene.x(start), scene.left - 4);
  const sure = Math.min(Math.max(scene.x(cti), left + 3), scene.width);
  ink.fillStyle = colour;
  ink.fillRect(left, top, sure - left, TRACK - 2);
  for (let i = 0; i < FADE; i += 6) {
    ink.globalAlpha = scene.alpha * (1 - i / FADE) * 0.8;
    ink.fillRect(sure + i, top, 6, TRACK - 2);
  }
  ink.globalAlpha = scene.alpha;
}

// many rows to a pixel: one rectangle for all that begin in it
function drawDense(scene, track, top, cti, colour) {
  const { ink, view } = scene;
  let [at, stop] = track.span(view.from, view.to);
  ink.fillStyle = colour;
  while (at < stop) {
    const left = Math.max(Math.floor(scene.x(track.starts[at])), scene.left - 4);
    const next = Math.max(firstAbove(track.starts, scene.time(left + 1), at, stop), at + 1);
    const end = track.reach[next - 1];
    if (end === Infinity) {
      fillOpen(scene, track.starts[at], cti, top, colour);
      ink.fillStyle = colour;
    } else {
      const right = Math.min(scene.x(end), scene.width + 4);
      ink.fillRect(left, top, rightEdge(left, right, next - at > 1 ? 1.5 : 2) - left, TRACK - 2);
    }
    at = next;
  }
}

// rows as they were known at an earlier step, one by one
function drawThen(scene, rows, track, top, cti, colour) {
  const { step, view } = scene;
  const [from, to] = track.span(view.from, view.to);
  let covered = -Infinity;
  for (let i = from; i < to; i++) {
    const row = track.rows[i];
    if (rows.known[row] > step) continue;
    if (rows.closed[row] > step) { fillOpen(scene, rows.start[row], cti, top, colour); continue; }
    const right = scene.x(rows.end[row]);
    if (right < covered) continue;
    fillBar(scene, rows.start[row], rows.end[row], top, colour);
    covered = Math.floor(right) + 1;
  }
}

function drawRows(scene, band) {
  const { node } = band;
  const colour = rowColour(scene.palette, scene.flow, node);
  const cti = node.ctiAt(scene.step);
  for (const lane of band.lanes) {
    if (!scene.isVisible(lane.top, lane.height)) continue;
    lane.tracks.forEach((track, number) => {
      const top = trackTop(lane, number) - scene.scroll;
      if (scene.step >= scene.flow.last) drawDense(scene, track, top, cti, colour);
      else drawThen(scene, node.rows, track, top, cti, colour);
    });
    if (scene.step >= scene.flow.last) drawOutlines(scene, lane, colour);
  }
}

// rows that are not final: dashed outlines, many to a pixel as one
function drawOutlines(scene, lane, colour) {
  const { ink, view } = scene;
  ink.strokeStyle = colour;
  ink.lineWidth = 1.5;
  ink.setLineDash([4, 2]);
  lane.outlines.forEach((track, number) => {
    const top = trackTop(lane, number) - scene.scroll;
    let covered = -Infinity;
    for (let [at, stop] = track.span(view.from, view.to); at < stop; at++) {
      const [left, right] = edges(scene, track.starts[at], track.ends[at]);
      if (right < covered + 1) continue;
      covered = right;
      ink.strokeRect(left + 0.75, top + 0.75, rightEdge(left, right, 5) - left - 1.5, TRACK - 3.5);
    }
  });
  ink.setLineDash([]);
}

// rows of the trace, on top of the others: stripes for causes, dots for effects, a frame for the row itself
function drawTraced(scene, band) {
  const { trace, selected } = scene.state;
  if (trace) {
    drawSet(scene, band, trace.causes.get(band.node.id), scene.palette.cause);
    drawSet(scene, band, trace.effects.get(band.node.id), scene.palette.effect);
  }
  if (selected?.node === band.node.id && selected.row >= 0) drawFrame(scene, band, selected.row, scene.palette.select);
}

function drawSet(scene, band, rows, fills) {
  for (const row of rows ?? []) drawOne(scene, band, row, fills);
}

function rowTop(scene, band, row) {
  const lane = band.lanes[band.place.lane[row]];
  return trackTop(lane, band.place.track[row]) - scene.scroll;
}

function drawOne(scene, band, row, [colour, pattern]) {
  const { rows } = band.node;
  const [start, end] = [rows.start[row], rows.endAt(row, scene.step)];
  if (rows.known[row] > scene.step || end < scene.view.from || start > scene.view.to) return;
  const top = rowTop(scene, band, row);
  if (end === Infinity) return fillOpen(scene, start, band.node.ctiAt(scene.step), top, colour);
  const [left, right] = edges(scene, start, end);
  if (right - left > 5) return fillBar(scene, start, end, top, pattern);
  fillBar(scene, start, end, top - 1, colour);
  scene.ink.fillRect(left, top - 1, 3, TRACK);
}

function drawFrame(scene, band, row, colour) {
  const { rows } = band.node;
  if (rows.known[row] > scene.step) return;
  const top = rowTop(scene, band, row);
  const [left, right] = edges(scene, rows.start[row], rows.endAt(row, scene.step));
  scene.ink.fillStyle = colour;
  scene.ink.fillRect(left, top - 1, Math.max(3, right - left), TRACK);
  scene.ink.strokeStyle = scene.palette.text;
  scene.ink.lineWidth = 2;
  scene.ink.strokeRect(left - 2, top - 3, Math.max(3, right - left) + 4, TRACK + 4);
}
