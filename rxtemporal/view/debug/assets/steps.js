// Steps over arrival time: buttons, and a slider that shows what was known then.
function Steps({ state, actions }) {
  const { flow, step } = state;
  const atEnd = step >= flow.last;
  const button = (text, label, key, call) => html`<button type="button" aria-label=${label} title=${`${label} (${key})`} onClick=${call}>${text}</button>`;
  return html`<section class="steps bar" aria-label="Steps over arrival time">
    <div class="group" role="group" aria-label="Step">
      ${button(html`<${FirstIcon} />`, "First arrival", "Home", () => actions.setStep(0))}
      ${button("◂ event", "Previous event", "p", () => actions.previousEvent())}
      ${button("event ▸", "Next event", "n", () => actions.nextEvent())}
      ${button("CTI ▸", "Next CTI of the chosen operator", "c", () => actions.nextCti())}
      ${button("result ▸", "Next result", "r", () => actions.nextResult())}
      ${button(html`<${LastIcon} />`, "Last arrival", "End", () => actions.setStep(flow.last))}
    </div>
    <input type="range" class="slider" min="0" max=${flow.last} value=${step} aria-label="Arrival"
      aria-valuetext=${`arrival ${step} of ${flow.last}`} onInput=${(event) => actions.setStep(Number(event.target.value))} />
    <output class="step-text"><b>${atEnd ? "all" : count(step)}</b> of ${plural(flow.last + 1, stepName(flow))}
      <span class="sub">${" "}${atEnd ? (flow.spec.live ? "the newest rows are shown" : "everything is known") : describeStep(flow, step)}</span></output>
  </section>`;
}

// what a step of the flow stands for
function stepName({ spec }) {
  if (spec.live) return "batch";
  return spec.every > 1 ? "step" : "arrival";
}
