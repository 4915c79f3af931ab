// The sentence on top: that of the run's end, or, at an earlier step, what was known then.
function sentenceAt(flow, step) {
  if (step >= flow.last || !flow.nodes.length) return flow.spec.sentence;
  return [tellFinal(flow, step), ...flow.arrivals.flatMap((each) => tellLateThen(flow, each, step))].join(" ");
}

function tellFinal(flow, step) {
  const { output, times } = flow;
  const begin = `At ${stepName(flow)} ${count(step)}`;
  const rows = plural(output.rows.countKnown(step), "row");
  const cti = output.ctiAt(step);
  if (cti === Infinity) return `${begin}: everything is final; ${output.name} has ${rows}.`;
  const final = cti === -Infinity ? `nothing of ${output.name} is final yet` : `${output.name} is final up to ${times.cell(cti)}, with ${rows}`;
  return `${begin}: ${final}.${tellWait(flow, step)}`;
}

// the source for which the result waits: from input to input, the one that is furthest back
function tellWait(flow, step) {
  let node = flow.output;
  while (node.inputs.length) {
    node = node.inputs.map((id) => flow.byId.get(id)).reduce((a, b) => (b.ctiAt(step) < a.ctiAt(step) ? b : a));
  }
  const cti = node.ctiAt(step);
  if (node === flow.output || cti === Infinity) return "";
  return ` It waits for ${node.name}, ${cti === -Infinity ? "which has no CTI yet" : `whose CTI is ${flow.times.cell(cti)}`}.`;
}

function tellLateThen(flow, arrivals, step) {
  const seen = firstAbove(arrivals.step, step);
  let [late, events] = [0, 0];
  for (let i = 0; i < seen; i++) {
    late += arrivals.verdict[i] === LATE || arrivals.verdict[i] === ADJUSTED;
    events += arrivals.verdict[i] !== CTI;
  }
  if (!late) return [];
  const of = flow.spec.live || flow.spec.sampled ? plural(late, "event") : `${count(late)} of ${plural(events, "event")}`;
  return [`${of} of ${flow.byId.get(arrivals.stream).name} had come late.`];
}
