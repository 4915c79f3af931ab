// One picture of the timeline: axis, shaded windows, rows, CTIs, late events.
const AXIS = 24;

// all that a picture needs, and how times become places
function makeScene(ink, size, layout, state, view, palette, scroll) {
  const left = size.gutter;
  const scale = (size.width - left) / (view.to - view.from);
  return {
    ink, layout, state, view, palette, left, width: size.width, height: size.height,
    flow: state.flow, step: state.step, scroll: scroll - AXIS, alpha: 1,
    x: (time) => left + (time - view.from) * scale,
    time: (x) => view.from + (x - left) / scale,
    isVisible: (top, height) => top - scroll + AXIS < size.height && top + height - scroll > 0,
  };
}

function drawScene(scene) {
  const { ink, width, height, layout } = scene;
  ink.clearRect(0, 0, width, height);
  ink.save();
  ink.beginPath();
  ink.rect(scene.left, AXIS, width - scene.left, height - AXIS);
  ink.clip();
  const grid = scene.flow.times.grid(scene.view.from, scene.view.to, (scene.view.to - scene.view.from) * 92 / (width - scene.left));
  const bands = layout.bands.filter((band) => scene.isVisible(band.top, band.height));
  for (const band of bands) drawBand(scene, band);
  drawGrid(scene, grid);
  for (const band of bands) drawContents(scene, band);
  drawQuestion(scene);
  ink.restore();
  drawAxis(scene, grid);
}

// the ground of a lane: windows shaded, and the times after the CTI, where nothing is final, hatched
function drawBand(scene, band) {
  const { ink, palette } = scene;
  const top = band.top - scene.scroll;
  ink.fillStyle = palette.band;
  ink.fillRect(scene.left, top, scene.width - scene.left, band.height);
  if (band.node.window) shadeWindows(scene, band.node.window, top, band.height);
  const settled = Math.max(scene.x(band.node.ctiAt(scene.step)), scene.left);
  if (settled < scene.width) {
    ink.fillStyle = palette.unsettled;
    ink.fillRect(settled, top, scene.width - settled, band.height);
  }
}

function shadeWindows(scene, { start, end }, top, height) {
  const { ink, view } = scene;
  const from = Math.max(0, firstAbove(start, view.from) - 1 - MOST_TRACKS);
  const to = firstAbove(start, view.to);
  if (to - from > (scene.width - scene.left) / 5) return;
  ink.fillStyle = scene.palette.window;
  for (let i = from; i < to; i++) {
    if (end[i] < view.from) continue;
    const [left, right] = edges(scene, start[i], Math.min(end[i], start[i + 1] ?? Infinity));
    if (i % 2) ink.fillRect(left, top, right - left, height);
    ink.fillRect(Math.round(left), top, 1, height);
  }
}

function drawGrid(scene, { places }) {
  scene.ink.fillStyle = scene.palette.grid;
  for (const at of places) scene.ink.fillRect(Math.round(scene.x(at)), AXIS, 1, scene.height);
}

function drawContents(scene, band) {
  scene.ink.globalAlpha = scene.alpha = scene.state.trace ? 0.4 : 1;
  drawRows(scene, band);
  if (band.late !== null) drawLate(scene, band);
  scene.ink.globalAlpha = scene.alpha = 1;
  drawTraced(scene, band);
  drawArrival(scene, band);
  drawCti(scene, band);
}

// the CTI of a stream: a line with a flag
function drawCti(scene, band) {
  const { ink, palette } = scene;
  const x = Math.round(scene.x(band.node.ctiAt(scene.step)));
  if (!(x >= scene.left && x <= scene.width)) return;
  const top = band.top - scene.scroll;
  ink.fillStyle = palette.cti;
  ink.fillRect(x - 1, top, 2, band.height);
  ink.beginPath();
  ink.moveTo(x, top);
  ink.lineTo(x - 7, top);
  ink.lineTo(x, top + 8);
  ink.fill();
}

// late events: a triangle at their time, hollow if they were adjusted, and a line to the CTI that they missed
function drawLate(scene, band) {
  const { ink, view, palette, step } = scene;
  const { late, start, by, step: steps, verdict } = band.arrivals;
  const y = band.late - scene.scroll + LATE_STRIP / 2;
  const selected = scene.state.selected?.arrival;
  let drawn = -Infinity;
  ink.fillStyle = palette.late;
  for (const i of late) {
    if (start[i] > view.to) break;
    if (start[i] + by[i] < view.from || steps[i] > step) continue;
    const x = scene.x(start[i]);
    const right = Math.min(scene.x(start[i] + by[i]), scene.width);
    if (x - drawn < 1 && selected !== i) continue;
    drawn = x;
    ink.fillRect(x, y, Math.max(1, right - x), 1);
    if (right < scene.width) ink.fillRect(right - 1, y - 3, 1, 7);
    drawTriangle(ink, x, y, selected === i ? 6 : 4);
    if (verdict[i] !== ADJUSTED) continue;
    ink.fillStyle = palette.band;
    drawTriangle(ink, x, y + 0.5, 1.5);
    ink.fillStyle = palette.late;
  }
}

function drawTriangle(ink, x, y, size) {
  ink.beginPath();
  ink.moveTo(x, y - size);
  ink.lineTo(x + size, y + size);
  ink.lineTo(x - size, y + size);
  ink.fill();
}

// the event that arrived at the step of the slider
function drawArrival(scene, band) {
  const { ink, step, flow, palette } = scene;
  const found = step < flow.last ? flow.arrivalAt(step) : null;
  if (!found || found.arrivals !== band.arrivals || found.arrivals.verdict[found.index] === CTI) return;
  const row = found.arrivals.row[found.index];
  const x = scene.x(found.arrivals.start[found.index]);
  const y = row < 0 ? (band.late ?? band.top) - scene.scroll + LATE_STRIP / 2 : rowTop(scene, band, row) + TRACK / 2 - 1;
  ink.strokeStyle = palette.text;
  ink.lineWidth = 1.5;
  ink.beginPath();
  ink.arc(x, y, 8, 0, 2 * Math.PI);
  ink.stroke();
}

// the place of which somebody asked why it is empty
function drawQuestion(scene) {
  const { absence } = scene.state;
  const band = absence && scene.layout.bands.find(({ node }) => node.id === absence.node);
  if (!band) return;
  const { ink, palette } = scene;
  const x = Math.round(scene.x(absence.time));
  ink.fillStyle = palette.select;
  ink.fillRect(x, 0, 1, scene.height);
  ink.beginPath();
  ink.arc(x, band.top - scene.scroll + band.height / 2, 8, 0, 2 * Math.PI);
  ink.fill();
  ink.fillStyle = palette.panel;
  ink.font = "bold 12px system-ui, sans-serif";
  ink.textAlign = "center";
  ink.fillText("?", x, band.top - scene.scroll + band.height / 2 + 4);
}

function drawAxis(scene, { step, places }) {
  const { ink, palette, flow } = scene;
  ink.fillStyle = palette.panel;
  ink.fillRect(0, 0, scene.width, AXIS);
  ink.fillStyle = palette.line;
  ink.fillRect(0, AXIS - 1, scene.width, 1);
  ink.fillStyle = palette.muted;
  ink.font = "11px system-ui, sans-serif";
  ink.textAlign = "center";
  for (const at of places) {
    const x = scene.x(at);
    if (x > scene.left + 24 && x < scene.width - 24) ink.fillText(flow.times.label(at, step), x, 15);
    if (x > scene.left) ink.fillRect(Math.round(x), AXIS - 5, 1, 4);
  }
}
