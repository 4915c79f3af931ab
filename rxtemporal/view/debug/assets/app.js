// The page: all parts together, and what starts them.
function App({ store, actions, view }) {
  const state = useStore(store);
  const { flow } = state;
  return html`
    <${Top} state=${state} actions=${actions} store=${store} />
    ${flow.nodes.length ? html`<${Main} state=${state} actions=${actions} store=${store} view=${view} />`
      : html`<main><p class="empty">${flow.spec.live ? "Nothing has come from the server yet." : "The flow has no streams."}</p></main>`}
    <p class="spoken" role="status" aria-live="polite">${state.spoken}</p>
    <${Help} state=${state} store=${store} />`;
}

const TABS = [["rows", "Events"], ["field", "Field"], ["curves", "Curves"]];

function Main({ state, actions, store, view }) {
  return html`<main>
      <${Plan} state=${state} actions=${actions} />
      <${Steps} state=${state} actions=${actions} />
      <div class="columns">
        <${Timeline} state=${state} actions=${actions} view=${view} />
        <section class="lower" aria-label="Events and curves">
          <div class="tabs" role="tablist" aria-label="Events and curves">
            ${TABS.map(([tab, text]) => html`<button type="button" role="tab" id=${`tab-${tab}`} aria-controls="tab-panel"
              aria-selected=${state.tab === tab} onClick=${() => store.set({ tab })}>${text}</button>`)}
          </div>
          <div role="tabpanel" id="tab-panel" aria-labelledby=${`tab-${state.tab}`}>
            ${state.tab === "rows" ? html`<${Table} state=${state} actions=${actions} store=${store} />`
              : state.tab === "field" ? html`<${FieldChart} state=${state} actions=${actions} store=${store} view=${view} />`
              : html`<${Charts} state=${state} actions=${actions} />`}
          </div>
        </section>
        <aside class="side" aria-label="Selection" tabindex="-1"><${Details} state=${state} actions=${actions} /></aside>
      </div>
    </main>`;
}

function Top({ state, actions, store }) {
  const { flow } = state;
  const { sampled, title, every } = flow.spec;
  const sentence = useMemo(() => sentenceAt(flow, state.step), [flow, state.step]);
  const next = { auto: "dark", dark: "light", light: "auto" }[state.theme];
  return html`<header class="top">
    <h1>${show(title || "Event flow")} <span class="sub">event flow</span></h1>
    ${state.live ? html`<span class=${`live is-${state.live.split(" ")[0]}`} role="status">${state.live}</span>` : null}
    ${state.live === "token needed" ? html`<${Token} store=${store} />` : null}
    <span class="spring"></span>
    <button type="button" class="quiet" aria-label=${`Colours: ${state.theme}; switch to ${next}`} title="Dark, light or as the system" onClick=${() => actions.setTheme(next)}>Colours: ${state.theme}</button>
    <button type="button" class="quiet" aria-label="Help: keys" title="Keys (?)" onClick=${() => store.set({ help: true })}>?</button>
    ${sentence ? html`<p class="sentence">${flow.nodes.some(({ spec }) => spec.holdsBack) ? html`<${Hourglass} />` : null}${show(sentence, 600)}</p>` : null}
    ${state.notice ? html`<p class="sampled" role="note">${state.notice}</p>` : null}
    ${sampled ? html`<p class="sampled" role="note">A sample: ${count(sampled.shown)} of ${plural(sampled.of, "event")} are shown.</p>` : null}
    ${every > 1 ? html`<p class="sampled" role="note">One step stands for ${count(every)} arrivals.</p>` : null}
  </header>`;
}

// the token that the server asks for; it stays in the memory of this page
function Token({ store }) {
  const field = useRef(null);
  const send = (event) => {
    event.preventDefault();
    store.feed.giveToken(field.current.value);
  };
  return html`<form class="token" onSubmit=${send}><input ref=${field} type="password" class="filter" autocomplete="off" aria-label="Token" placeholder="token" />
    <button type="submit" class="quiet">Connect</button></form>`;
}

function start() {
  const flow = new Flow(JSON.parse(document.getElementById("flow").textContent));
  const store = new Store(firstState(flow));
  const view = new View(flow);
  const actions = new Actions(store, view);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => store.set({ dark: event.matches }));
  const page = document.getElementById("page");
  page.textContent = "";
  render(html`<${App} store=${store} actions=${actions} view=${view} />`, page);
  listenToKeys(store, actions, view);
  followSelection(store, actions);
  followLink(store, actions);
  store.feed = followLive(store, view);
}

start();
