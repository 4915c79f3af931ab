// The keys of the page, in a dialog.
const KEYS = [
  ["← →", "pan the timeline"], ["↑ ↓", "scroll its lanes"], ["+ −", "zoom in and out"], ["f", "show everything"],
  ["n p", "next and previous event"], ["c", "next CTI of the chosen operator"], ["r", "next result"],
  ["Home End", "first and last arrival"], ["[ ]", "select the row before and after"], ["/", "filter the table"],
  ["Esc", "clear the selection"], ["?", "this help"],
];

function Help({ state, store }) {
  const dialog = useRef(null);
  useEffect(() => {
    if (state.help && !dialog.current.open) dialog.current.showModal();
    if (!state.help && dialog.current.open) dialog.current.close();
  }, [state.help]);
  return html`<dialog class="help" ref=${dialog} aria-labelledby="help-title" onClose=${() => store.set({ help: false })}>
    <header><h2 id="help-title">Keys</h2><button type="button" class="quiet" aria-label="Close help" onClick=${() => store.set({ help: false })}>×</button></header>
    <dl>${KEYS.map(([keys, text]) => html`<div><dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${text}</dd></div>`)}</dl>
    <p class="sub">Mouse: drag to pan, wheel to zoom, Shift and drag to zoom to a span, Alt and wheel to scroll. Touch: one finger pans, two zoom. All times are UTC.</p>
  </dialog>`;
}
