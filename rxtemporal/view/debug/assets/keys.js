// Keys of the page; fields that take text keep theirs.
function keyTable(store, actions, view) {
  const scroll = (by) => { document.querySelector("[data-surface]").scrollTop += by; };
  return {
    ArrowLeft: () => view.pan(-0.15), ArrowRight: () => view.pan(0.15),
    ArrowUp: () => scroll(-60), ArrowDown: () => scroll(60),
    "+": () => actions.zoom(1.6), "=": () => actions.zoom(1.6), "-": () => actions.zoom(1 / 1.6), "−": () => actions.zoom(1 / 1.6),
    f: () => view.fit(), n: () => actions.nextEvent(), p: () => actions.previousEvent(),
    c: () => actions.nextCti(), r: () => actions.nextResult(),
    Home: () => actions.setStep(0), End: () => actions.setStep(actions.flow.last),
    "[": () => actions.selectBeside(-1), "]": () => actions.selectBeside(1),
    "/": () => focusFilter(store), "?": () => store.set({ help: true }), Escape: () => actions.clear(),
  };
}

function focusFilter(store) {
  const focus = () => document.getElementById("filter")?.focus();
  store.set({ tab: "rows" });
  if (document.getElementById("filter")) focus();
  else requestAnimationFrame(focus);
}

function listenToKeys(store, actions, view) {
  const keys = keyTable(store, actions, view);
  document.addEventListener("keydown", (event) => {
    if (!store.state.flow.nodes.length || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const { target } = event;
    if (target.matches("input:not([type=range])")) return leaveFilter(event);
    if (target.role === "tab" && ["ArrowLeft", "ArrowRight"].includes(event.key)) return changeTab(store, event.key === "ArrowLeft" ? -1 : 1);
    const isScrolled = event.key.startsWith("Arrow") && target.closest(".grid, .plan-scroll, .slider, .side");
    if (isScrolled || (target.matches(".slider") && ["Home", "End"].includes(event.key)) || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
}

function changeTab(store, shift) {
  const at = TABS.findIndex(([tab]) => tab === store.state.tab);
  store.set({ tab: TABS[(at + shift + TABS.length) % TABS.length][0] });
  requestAnimationFrame(() => document.querySelector("[role=tab][aria-selected=true]").focus());
}

function leaveFilter(event) {
  if (event.key === "Escape") event.target.blur();
}
