// Small pictures of buttons and marks; not characters, which many fonts lack.
function Icon({ path }) {
  return html`<svg class="icon" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true"><path d=${path} /></svg>`;
}

function Hourglass() {
  return html`<${Icon} path="M2 1h8v1.5L7 6l3 3.5V11H2V9.500L5 6 2 2.500z" />`;
}

function FirstIcon() {
  return html`<${Icon} path="M2 2h2v8H2zM10 2v8L4.500 6z" />`;
}

function LastIcon() {
  return html`<${Icon} path="M8 2h2v8H8zM2 2v8l5.500-4z" />`;
}
