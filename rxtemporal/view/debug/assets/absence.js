// An answer to "why is there no row here?", from what the page knows: sentences, each one a fact.
const NAMED = 3;

function explainAbsence(state, node, time, key) {
  const question = { flow: state.flow, step: state.step, node, time, key, at: state.flow.times.full(time) };
  const inputs = node.inputs.map((id) => state.flow.byId.get(id));
  const sentences = [
    ...tellRow(question), ...tellSoFar(question), ...tellCti(question), ...tellWindow(question),
    ...inputs.flatMap((input) => tellInput(question, input)), ...tellLate(question),
  ];
  return { node: node.id, time, key, title: question.isThere ? `A row of ${node.name} is here` : `Why no row of ${node.name} here?`, sentences, scope: tellScope(state.flow) };
}

function isOfKey(rows, row, key) {
  return !key || rows.key(row) === key;
}

// rows of a table that are alive at a time; with their nearest neighbours
function findNear(rows, time, key) {
  const near = { alive: [], before: -1, after: -1 };
  for (let row = 0; row < rows.n; row++) {
    if (!isOfKey(rows, row, key)) continue;
    if (rows.start[row] > time) {
      if (near.after < 0 || rows.start[row] < rows.start[near.after]) near.after = row;
    } else if (rows.end[row] > time) near.alive.push(row);
    else if (near.before < 0 || rows.end[row] > rows.end[near.before]) near.before = row;
  }
  return near;
}

function ofKey({ key }) {
  return key ? ` for ${key}` : "";
}

function tellRow(question) {
  const { node, time, key, step, at } = question;
  const { rows } = node;
  const near = findNear(rows, time, key);
  const later = near.alive.filter((row) => rows.known[row] > step);
  if (later.length) {
    return [`There is a row of ${node.name}${ofKey(question)} at ${at}; it became known only at ${stepName(question.flow)} ${firstKnown(rows, later)}, and the slider stands at ${step}.`];
  }
  question.isThere = near.alive.length > 0;
  if (question.isThere) return [`There is a row of ${node.name}${ofKey(question)} at ${at}: ${rows.summary(near.alive[0])}.`];
  return [`No row of ${node.name}${ofKey(question)} is alive at ${at}.` + tellNeighbours(question, near, rows)];
}

// what the row would be if nothing more came
function tellSoFar({ flow, node: { soFar, notFinal }, step, time, key }) {
  const here = notFinal.filter((row) => isOfKey(soFar, row, key) && soFar.start[row] <= time && soFar.end[row] > time);
  return step < flow.last ? [] : here.slice(0, NAMED).map((row) => `The result so far is ${soFar.summary(row)}; it is not final.`);
}

function tellNeighbours({ flow, time }, { before, after }, rows) {
  const parts = [];
  if (before >= 0) parts.push(`the one before ends ${flow.times.span(time - rows.end[before])} earlier`);
  if (after >= 0) parts.push(`the one after starts ${flow.times.span(rows.start[after] - time)} later`);
  return parts.length ? ` Of its neighbours, ${parts.join(", ")}.` : "";
}

function tellCti({ flow, node, step, time }) {
  const cti = node.ctiAt(step);
  if (cti === -Infinity) return [`${node.name} has no CTI yet, so none of its times is final.`];
  if (cti === Infinity) return [`All inputs of ${node.name} have ended, so this time is final.`];
  if (time < cti) return [`The CTI of ${node.name} is ${flow.times.full(cti)}, so this time is final: no row will come here any more.`];
  const behind = node.inputs.map((id) => flow.byId.get(id)).sort((a, b) => a.ctiAt(step) - b.ctiAt(step))[0];
  const cause = behind ? ` Of its inputs, ${behind.name} is furthest back, at ${flow.times.full(behind.ctiAt(step))}.` : "";
  return [`The CTI of ${node.name} is ${flow.times.full(cti)}, ${flow.times.span(time - cti)} before this time: a row may still come.${cause}`];
}

function tellWindow({ flow, node, time, step }) {
  if (!node.window) return [];
  const { start, end } = node.window;
  const at = firstAbove(start, time) - 1;
  if (at < 0 || end[at] <= time) return [`No window of ${node.name} covers this time.`];
  const others = countBefore(node.window, at, time);
  const bounds = `${others ? `The last of ${others + 1} windows here` : "The window here"} is [${flow.times.short(start[at])}, ${flow.times.short(end[at])})`;
  const inside = node.inputs.flatMap((id) => rowsInside(flow.byId.get(id).rows, start[at], end[at]));
  const waits = node.ctiAt(step) < end[at] ? "; its rows are final when the CTI has passed its end" : "";
  return [`${bounds}, with ${plural(inside.length, "row")} of the input in it${waits}.`];
}

// windows that began earlier and cover the time, too
function countBefore({ start, end }, at, time) {
  let count = 0;
  for (let i = at - 1; i >= 0 && start[at] - start[i] < end[at] - start[at]; i--) if (end[i] > time) count++;
  return count;
}

function rowsInside(rows, from, to) {
  return [...rows.byStart.subarray(0, firstAbove(rows.sortedStarts, to - 0.5))]
    .filter((row) => rows.end[row] > from);
}

function tellInput(question, input) {
  const { flow, node, time, key } = question;
  const hasKey = key && input.rows.keys && input.rows.spec.lane.values.map((each) => show(each)).includes(key);
  const near = findNear(input.rows, time, hasKey ? key : "");
  const whose = `${input.name}${hasKey ? ` for ${key}` : ""}`;
  if (!near.alive.length) return [`${whose} has no row at this time.` + tellNeighbours(question, near, input.rows)];
  const alive = near.alive.filter((row) => input.rows.known[row] <= question.step);
  if (!alive.length) return [`${whose} has ${plural(near.alive.length, "row")} at this time, not known before ${stepName(question.flow)} ${firstKnown(input.rows, near.alive)}.`];
  const side = node.inputs.indexOf(input.id);
  const { offsets } = effectsOf(node, side, input.rows.n);
  const idle = alive.filter((row) => offsets[row] === offsets[row + 1]);
  const named = alive.slice(0, NAMED).map((row) => `(${input.rows.summary(row)})`).join(", ");
  const many = `${whose} has ${plural(alive.length, "row")} at this time: ${named}${alive.length > NAMED ? ", …" : ""}.`;
  if (!node.spec.causes || !idle.length) return [many];
  return [`${many} ${tellIdle(idle.length, alive.length)} row of ${node.name}.`];
}

function tellIdle(idle, all) {
  if (all === 1) return "It leads to no";
  if (idle === all) return "None of them leads to a";
  return idle === 1 ? "One of them leads to no" : `${idle} of them lead to no`;
}

function firstKnown(rows, found) {
  return found.reduce((first, row) => Math.min(first, rows.known[row]), Infinity);
}

// late events of the sources above that the row here might have stood on
function tellLate({ flow, node, time, step }) {
  const reach = node.window ? node.window.end[0] - node.window.start[0] : (flow.extent[1] - flow.extent[0]) / 200;
  return flow.sourcesOf(node).flatMap((source) => {
    const arrivals = flow.arrivalsOf.get(source.id);
    if (!arrivals) return [];
    const near = [...arrivals.late].filter((i) => arrivals.verdict[i] === LATE && Math.abs(arrivals.start[i] - time) <= reach && arrivals.step[i] <= step);
    if (!near.length) return [];
    const worst = near.reduce((a, b) => (arrivals.by[a] > arrivals.by[b] ? a : b));
    return [`${plural(near.length, "late event")} of ${source.name} near this time ${near.length === 1 ? "was" : "were"} dropped, late by up to ${flow.times.span(arrivals.by[worst])} (arrival ${arrivals.step[worst]}).`];
  });
}

function tellScope(flow) {
  const sample = flow.spec.sampled ? " The page shows a sample of the events, so rows may be missing from this answer." : "";
  return "Computed from the rows on this page. rxt.why_not(query, at=…) also evaluates the conditions of the operators." + sample;
}
