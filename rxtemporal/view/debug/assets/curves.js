// Numbers of the curves: lateness, rows held, latency; thinned so that no peak is lost.
const MOST_POINTS = 1500;

// places to draw: the highest value of each stretch
function thin(x, y) {
  if (x.length <= MOST_POINTS) return [Array.from(x), Array.from(y)];
  const size = Math.ceil(x.length / MOST_POINTS);
  const [xs, ys] = [[], []];
  for (let i = 0; i < x.length; i += size) {
    let best = i;
    for (let j = i; j < Math.min(i + size, x.length); j++) if (y[j] > y[best]) best = j;
    xs.push(x[best]);
    ys.push(y[best]);
  }
  return [xs, ys];
}

// how far each event lay behind the newest of its stream when it arrived
function latenessOf(arrivals) {
  const [x, y] = [[], []];
  let newest = -Infinity;
  for (let i = 0; i < arrivals.n; i++) {
    if (arrivals.verdict[i] === CTI || !Number.isFinite(arrivals.start[i])) continue;
    newest = Math.max(newest, arrivals.start[i]);
    x.push(arrivals.step[i]);
    y.push(newest - arrivals.start[i]);
  }
  return thin(x, y);
}

// how far the newest event was past a result's end when it came out
function latencyOf(flow) {
  const { rows } = flow.output;
  const newest = newestStarts(flow);
  const order = sortedOrder(rows.known);
  const [x, y] = [[], []];
  for (const row of order) {
    const at = firstAbove(newest.steps, rows.known[row]);
    if (!at || !Number.isFinite(rows.end[row])) continue;
    x.push(rows.known[row]);
    y.push(Math.max(0, newest.times[at - 1] - rows.end[row]));
  }
  return thin(x, y);
}

// the latest start time of all streams after each step
function newestStarts(flow) {
  const all = flow.arrivals.flatMap((each) => Array.from(each.step, (step, i) => [step, each.verdict[i] === CTI ? -Infinity : each.start[i]]));
  if (flow.arrivals.length > 1) all.sort((a, b) => a[0] - b[0]);
  let high = -Infinity;
  return { steps: all.map(([step]) => step), times: all.map(([, start]) => (high = Math.max(high, start))) };
}

// curves over one common axis of steps; what has no value at a step is a gap
function joinCurves(curves) {
  const steps = [...new Set(curves.flatMap(({ data }) => data[0]))].sort((a, b) => a - b);
  const at = new Map(steps.map((step, i) => [step, i]));
  const columns = curves.map(({ data }) => {
    const column = new Array(steps.length).fill(undefined);
    data[0].forEach((step, i) => { column[at.get(step)] = Math.max(column[at.get(step)] ?? -Infinity, data[1][i]); });
    return column;
  });
  return [steps, ...columns];
}

function allCurves(flow) {
  const lateness = flow.arrivals.map((each) => {
    const name = flow.byId.get(each.stream).name;
    return { name, data: latenessOf(each), delay: delayOf(flow, each) };
  });
  const held = flow.nodes.filter(({ heldSteps }) => heldSteps.length)
    .map((node) => ({ name: node.name, data: thin(node.heldSteps, node.heldRows) }));
  return [
    { id: "lateness", title: "Lateness", text: "how far each event lay behind the newest of its stream; dashed: the delay", isTime: true, curves: lateness },
    { id: "held", title: "Rows held", text: "rows that each operator keeps in memory", isTime: false, curves: held },
    { id: "latency", title: "Latency", text: "how far the newest event was past a result’s end when it came out", isTime: true, curves: [{ name: flow.output.name, data: latencyOf(flow) }] },
  ];
}

function delayOf(flow, { stream }) {
  const { name } = flow.byId.get(stream).spec;
  return Object.hasOwn(flow.spec.delay ?? {}, name) ? flow.spec.delay[name] : null;
}
