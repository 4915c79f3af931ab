// What a reader can do, as changes of the state; buttons, keys and clicks share these.
class Actions {
  constructor(store, view) {
    this.store = store;
    this.view = view;
  }

  get state() {
    return this.store.state;
  }

  get flow() {
    return this.state.flow;
  }

  choose(id) {
    const node = this.flow.byId.get(id);
    this.store.set({ chosen: id, tab: this.state.tab === "field" ? "field" : "rows", spoken: `${node.name} chosen: ${plural(node.rows.n, "row")}` });
  }

  select(id, row) {
    const node = this.flow.byId.get(id);
    const trace = traceRow(this.flow, node, row);
    this.store.set({
      chosen: id, selected: { node: id, row }, trace, absence: null, notice: "",
      spoken: `Row ${row} of ${node.name}, ${node.rows.lifetime(row)}. ` + countTrace(trace),
    });
    this.view.reveal(node.rows.start[row], node.rows.end[row]);
  }

  // an arrival: its row if it made one, or the late event itself
  selectArrival(id, index) {
    const arrivals = this.flow.arrivalsOf.get(id);
    if (arrivals.row[index] >= 0) return this.select(id, arrivals.row[index]);
    this.store.set({
      chosen: id, selected: { node: id, row: -1, arrival: index }, trace: null, absence: null,
      spoken: `Arrival ${arrivals.step[index]} of ${this.flow.byId.get(id).name}, ${arrivals.verdictText(index)}`,
    });
    this.view.reveal(arrivals.start[index]);
  }

  ask(id, time, key) {
    const at = this.flow.times.coarse(time, this.view.to - this.view.from);
    const absence = explainAbsence(this.state, this.flow.byId.get(id), at, key);
    this.store.set({ chosen: id, absence, selected: null, trace: null, spoken: absence.sentences[0] });
  }

  clear() {
    this.store.set({ selected: null, trace: null, absence: null, help: false, spoken: "Nothing selected" });
  }

  // zoom around the selected row if it is in sight
  zoom(factor) {
    const { selected } = this.state;
    const rows = selected?.row >= 0 ? this.flow.byId.get(selected.node).rows : null;
    const at = rows?.start[selected.row];
    this.view.zoom(factor, at >= this.view.from && at <= this.view.to ? at : undefined);
  }

  // the row before or after the selected one, in the order of start times
  selectBeside(shift) {
    const node = this.flow.byId.get(this.state.chosen);
    const order = node.rows.byStart;
    if (!order.length) return;
    const { selected } = this.state;
    const now = selected?.node === node.id ? order.indexOf(selected.row) : shift > 0 ? -1 : order.length;
    this.select(node.id, order[Math.min(Math.max(now + shift, 0), order.length - 1)]);
  }

  setStep(step) {
    const at = Math.min(Math.max(step, 0), this.flow.last);
    const found = at < this.flow.last ? this.flow.arrivalAt(at) : null;
    this.store.set({ step: at, spoken: describeStep(this.flow, at) });
    if (found) this.view.reveal(found.arrivals.start[found.index]);
  }

  nextEvent() {
    const { step } = this.state;
    if (this.flow.spec.live) return this.setStep(step + 1);
    const next = this.flow.arrivals.map(({ step: steps }) => steps[firstAbove(steps, step)]);
    this.setStep(Math.min(...next.filter((each) => each !== undefined), this.flow.last));
  }

  previousEvent() {
    const { step } = this.state;
    if (this.flow.spec.live) return this.setStep(step - 1);
    const before = this.flow.arrivals.map(({ step: steps }) => steps[firstAbove(steps, step - 1) - 1]);
    this.setStep(Math.max(...before.filter((each) => each !== undefined), 0));
  }

  nextCti() {
    const { ctiSteps } = this.flow.byId.get(this.state.chosen);
    this.setStep(ctiSteps[firstAbove(ctiSteps, this.state.step)] ?? this.flow.last);
  }

  // the step at which the next result came out, with this result selected
  nextResult() {
    const { rows, id } = this.flow.output;
    const next = rows.knownOrder[firstAbove(rows.knownOrder, this.state.step)];
    if (next === undefined) return this.setStep(this.flow.last);
    this.setStep(next);
    this.select(id, rows.known.indexOf(next));
  }

  toggleKeys(id) {
    const node = this.flow.byId.get(id);
    this.store.set({ expanded: { ...this.state.expanded, [id]: !isExpanded(this.state, node) } });
  }

  setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    this.store.set({ theme, spoken: `Colours: ${theme}` });
  }
}

function countTrace({ causes, effects }) {
  const size = (sets) => [...sets.values()].reduce((sum, rows) => sum + rows.size, 0);
  return `${plural(size(causes), "cause")}, ${plural(size(effects), "effect")}`;
}

function describeStep(flow, step) {
  const found = flow.arrivalAt(step);
  if (!found) return flow.spec.live ? "the page stands still here" : `Arrival ${step}`;
  const { arrivals, index } = found;
  const name = flow.byId.get(arrivals.stream).name;
  const kind = arrivals.kind[index] === 4 ? "CTI" : `${KINDS[arrivals.kind[index]]}, ${arrivals.verdictText(index)}`;
  return `${name} ${flow.times.cell(arrivals.start[index])}: ${kind}`;
}
