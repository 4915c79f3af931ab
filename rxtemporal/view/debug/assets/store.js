// The state of the page in one place: what is chosen, selected, filtered, and up to which step.
class Store {
  constructor(state) {
    this.state = state;
    this.listeners = new Set();
  }

  set(changes) {
    this.state = { ...this.state, ...changes };
    for (const listener of this.listeners) listener(this.state);
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

function firstState(flow) {
  return {
    flow, step: flow.last, chosen: flow.output?.id, selected: null, trace: null, absence: null,
    order: null, filter: "", tab: "rows", field: "", help: false, theme: "auto", live: "", spoken: "",
    expanded: {}, scrollTo: 0, notice: "",
  };
}

function useStore(store) {
  const [state, setState] = useState(store.state);
  useLayoutEffect(() => store.subscribe(setState), [store]);
  return state;
}
