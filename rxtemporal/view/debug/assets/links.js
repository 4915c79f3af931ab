// Links to a row or an arrival: the part of the address after #, which says what is selected and at which step.
function linkOf({ selected, step, flow }) {
  if (!selected || flow.spec.live) return "";
  const place = selected.row >= 0 ? `row=${selected.row}` : `arrival=${selected.arrival}`;
  return `#node=${selected.node}&${place}${step < flow.last ? `&step=${step}` : ""}`;
}

// the address follows the selection
function followSelection(store, actions) {
  store.subscribe((state) => {
    const link = linkOf(state);
    const isOurs = location.hash.startsWith("#node=");
    if (link !== location.hash && (link || isOurs)) history.replaceState(null, "", link || location.pathname + location.search);
  });
  addEventListener("hashchange", () => followLink(store, actions));
}

// select what the address names; the page says so if it has no such row
function followLink(store, actions) {
  const { flow } = store.state;
  const asked = new URLSearchParams(location.hash.slice(1));
  if (!asked.has("node")) return;
  const number = (name) => Number(asked.get(name) ?? NaN);
  const node = flow.byId.get(number("node"));
  const [row, arrival] = [number("row"), number("arrival")];
  if (asked.has("step")) store.set({ step: Math.min(Math.max(number("step") || 0, 0), flow.last) });
  if (isPlace(row, node?.rows.n)) return actions.select(node.id, row);
  if (isPlace(arrival, flow.arrivalsOf.get(node?.id)?.n)) return actions.selectArrival(node.id, arrival);
  store.set({ notice: "The row that the link names is not on this page." });
}

function isPlace(number, count) {
  return Number.isInteger(number) && number >= 0 && number < count;
}
