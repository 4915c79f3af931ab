// The plan as boxes and arrows: counts, CTI, rows held and time of each node, as of the chosen step.
function Plan({ state, actions }) {
  const { flow } = state;
  const plan = useMemo(() => layPlan(flow), [flow]);
  const scroller = useRef(null);
  const [edges, look] = useEdges(scroller);
  useEffect(() => revealBox(scroller.current, plan, state.chosen), [plan, state.chosen]);
  return html`<section class="plan" aria-label="Plan of the query">
    <div class=${`plan-scroll${edges}`} ref=${scroller} onScroll=${look} tabindex="0" role="group" aria-label="Plan, left to right">
      <div class="plan-area" style=${{ width: `${plan.width}px`, height: `${plan.height}px` }}>
        <svg width=${plan.width} height=${plan.height} aria-hidden="true">
          <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">
            <path d="M0,0 L8,4 L0,8 z" class="arrow" /></marker></defs>
          ${plan.links.map((link) => html`<path class=${linkClass(state, link)} d=${link.path} marker-end=${link.to.node ? "url(#arrow)" : null} />`)}
        </svg>
        ${plan.boxes.map((box) => html`<${PlanBox} key=${box.node.id} box=${box} state=${state} actions=${actions} />`)}
      </div>
    </div>
  </section>`;
}

// a name up to its first dot: tumbling_window() of tumbling_window().aggregate
function shortName({ name }) {
  const at = name.indexOf(".");
  return at > 0 ? name.slice(0, at) : name;
}

// classes that fade the edges past which there is more of the plan
function useEdges(ref) {
  const [edges, setEdges] = useState("");
  const look = () => {
    const { scrollLeft, clientWidth, scrollWidth } = ref.current;
    setEdges(`${scrollLeft > 2 ? " more-left" : ""}${scrollLeft + clientWidth < scrollWidth - 2 ? " more-right" : ""}`);
  };
  const width = useWidth(ref);
  useEffect(look, [width]);
  return [edges, look];
}

// the box of the chosen node scrolls into sight
function revealBox(element, { boxes }, chosen) {
  const box = boxes.find(({ node }) => node.id === chosen);
  if (!box) return;
  const { scrollLeft, clientWidth } = element;
  if (box.x < scrollLeft || box.x + BOX.width > scrollLeft + clientWidth) element.scrollLeft = box.x - (clientWidth - BOX.width) / 2;
}

function PlanBox({ box: { node, x, y }, state, actions }) {
  const { flow } = state;
  const facts = nodeFacts(state, node);
  const causes = tracedCount(state, "causes", node);
  const effects = tracedCount(state, "effects", node);
  const classes = ["box", node.isSource ? "is-source" : node === flow.output ? "is-output" : "is-operator",
    state.chosen === node.id && "is-chosen", node.spec.holdsBack && "holds-back", causes && "has-causes", effects && "has-effects"];
  return html`<button type="button" class=${classes.filter(Boolean).join(" ")} data-node=${node.id}
      style=${{ left: `${x}px`, top: `${y}px`, width: `${BOX.width}px`, height: `${BOX.height}px` }}
      aria-pressed=${state.chosen === node.id} aria-label=${boxLabel(node, facts, causes, effects)}
      title=${[node.spec.name, node.spec.line, node.spec.ctiRule && `CTI: ${node.spec.ctiRule}`, node.spec.holds && `holds: ${node.spec.holds}`].filter(Boolean).map((text) => show(text)).join("\n")}
      onClick=${() => actions.choose(node.id)}>
    ${node.spec.holdsBack ? html`<i class="mark-back"><${Hourglass} />holds back</i>` : null}
    <span class="box-head"><b class=${shortName(node).length > 14 ? "is-long" : ""}>${shortName(node)}</b><span class="sub">${node.name.slice(shortName(node).length)}</span>${node === flow.output ? html`<i class="mark-kind">result</i>` : node.isSource ? html`<i class="mark-kind">input</i>` : null}</span>
    <span class="box-flow">${facts.in} <span>in</span> <em>→</em> ${facts.out} <span>out</span></span>
    <span class="box-row"><span>CTI</span> ${facts.ctiShort}</span>
    <span class="box-row"><span>held</span> ${facts.held}${facts.time ? html` <span>time</span> ${facts.time}` : null}
      ${causes ? html`<i class="mark-cause">◂ ${causes}</i>` : null}${effects ? html`<i class="mark-effect">▸ ${effects}</i>` : null}</span>
  </button>`;
}

// numbers of a node as of the step; at the end those of the run, which a sample does not change
function nodeFacts({ flow, step }, node) {
  const atEnd = step >= flow.last;
  const arrivals = flow.arrivalsOf.get(node.id);
  const known = (id) => flow.byId.get(id).rows.countKnown(step);
  const then = arrivals ? firstAbove(arrivals.step, step) : node.inputs.reduce((sum, id) => sum + known(id), 0);
  const cti = node.ctiAt(step);
  return {
    in: count(atEnd ? node.spec.rowsIn : then),
    out: count(atEnd ? node.spec.rowsOut : node.rows.countKnown(step)),
    cti: ctiText(cti, (ticks) => flow.times.full(ticks)), ctiShort: ctiText(cti, (ticks) => flow.times.cell(ticks)),
    held: count(atEnd ? node.spec.held : node.heldAt(step)),
    notFinal: atEnd ? node.countNotFinal() : 0, time: seconds(node.spec.seconds),
  };
}

function ctiText(cti, tell) {
  if (cti === -Infinity) return "none yet";
  return cti === Infinity ? "the end of time" : tell(cti);
}

function count(number) {
  return Number(number ?? 0).toLocaleString("en");
}

// nothing where the time was not measured, as in a live run
function seconds(value) {
  if (value === null) return null;
  if (!value) return "0 ms";
  return value < 1 ? `${Number((value * 1000).toPrecision(2))} ms` : `${Number(value.toPrecision(3))} s`;
}

function boxLabel(node, facts, causes, effects) {
  return `${node.name}, ${node.isSource ? "input stream" : "operator"}: ${facts.in} rows in, ${facts.out} out, CTI ${facts.cti}, ${facts.held} held`
    + (node.spec.holdsBack ? ", holds back" : "")
    + (facts.notFinal ? `, ${count(facts.notFinal)} not final` : "")
    + (causes ? `, ${plural(causes, "cause")}` : "") + (effects ? `, ${plural(effects, "effect")}` : "");
}

function tracedCount(state, side, node) {
  return state.trace?.[side].get(node.id)?.size ?? 0;
}

// a link lights up where causes or effects lie on both of its ends
function linkClass(state, { above, below }) {
  if (!state.trace) return "link";
  const has = (side, node) => tracedCount(state, side, node) > 0;
  const isEnd = (node) => state.selected.node === node.id;
  if (has("causes", above) && (has("causes", below) || isEnd(below))) return "link is-cause";
  if (has("effects", below) && (has("effects", above) || isEnd(above))) return "link is-effect";
  return "link";
}
