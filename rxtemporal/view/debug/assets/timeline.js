// The timeline: a canvas with lanes, their names as buttons beside it, zoom buttons, and an overview.
const GUTTER = 196;
const NARROW = 640;

function Timeline({ state, actions, view }) {
  const frame = useRef(null);
  const { width, height } = useSize(frame);
  const gutter = width && width < NARROW ? 0 : GUTTER;
  const layout = useMemo(() => layLanes(state, !gutter), [state.flow, state.expanded, state.version, !gutter]);
  // the page may give it less
  const wanted = Math.min(Math.max(layout.height + AXIS, 96), Math.max(430, 0.55 * window.innerHeight));
  const palette = useMemo(readPalette, [state.theme, state.dark]);
  const size = useMemo(() => ({ width, height, gutter }), [width, height, gutter]);
  return html`<section class="timeline" aria-label="Timeline">
    <header class="bar">
      <h2>Timeline</h2>
      <${ViewRange} view=${view} times=${state.flow.times} />
      <span class="spring"></span>
      <div class="group" role="group" aria-label="Zoom">
        <button type="button" aria-label="Zoom out" title="Zoom out (−)" onClick=${() => actions.zoom(1 / 1.6)}>−</button>
        <button type="button" aria-label="Zoom in" title="Zoom in (+)" onClick=${() => actions.zoom(1.6)}>+</button>
        <button type="button" title="Show everything (f)" onClick=${() => view.fit()}>Fit</button>
        <${All} view=${view} />
      </div>
    </header>
    <${Legend} isLive=${state.flow.spec.live} />
    <div class="timeline-frame" ref=${frame} style=${{ flexBasis: `${wanted}px` }}>
      <${Surface} state=${state} actions=${actions} view=${view} layout=${layout} size=${size} palette=${palette} />
    </div>
    <${Overview} state=${state} view=${view} gutter=${gutter} palette=${palette} />
  </section>`;
}

function Surface({ state, actions, view, layout, size, palette }) {
  const canvas = useRef(null);
  const scroller = useRef(null);
  const painter = useRef(null);
  const [hover, setHover] = useState(null);
  useLayoutEffect(() => {
    painter.current = new Painter(canvas.current, view);
    new Pointer(scroller.current, view, pointerHandlers(painter.current, actions, setHover));
    const request = () => painter.current.request();
    view.listeners.add(request);
    return () => view.listeners.delete(request);
  }, []);
  useLayoutEffect(() => painter.current.update({ state, layout, size, palette }));
  useEffect(() => revealSelected(scroller.current, state, layout), [state.selected]);
  const onScroll = (event) => painter.current.update({ scroll: event.target.scrollTop });
  return html`
    <canvas ref=${canvas} aria-hidden="true" style=${{ width: `${size.width}px`, height: `${size.height}px` }}></canvas>
    <div class="timeline-scroll" ref=${scroller} onScroll=${onScroll} tabindex="0" role="group" data-surface
        aria-label=${`Rows over application time in ${plural(layout.bands.length, "lane")}. Arrow keys pan, plus and minus zoom, brackets select rows.`}
        style=${{ top: `${AXIS}px`, cursor: hover?.row !== undefined || hover?.arrival !== undefined ? "pointer" : "grab" }}>
      <div style=${{ height: `${layout.height}px` }}>
        ${layout.bands.map((band) => html`<${LaneHead} key=${band.node.id} band=${band} state=${state} actions=${actions} gutter=${size.gutter} />`)}
      </div>
    </div>
    ${hover ? html`<div class="tip" aria-hidden="true" style=${tipPlace(hover, size)}>${hover.text}</div>` : null}`;
}

function tipPlace({ x, y }, { width }) {
  return x > width / 2 ? { right: `${width - x + 12}px`, top: `${y + 14}px` } : { left: `${x + 12}px`, top: `${y + 14}px` };
}

// what the pointer does here; places of the scrolled part become places of the canvas
function pointerHandlers(painter, actions, setHover) {
  const find = (at) => hit(painter.scene(), { x: at.x, y: at.y + AXIS });
  const showHover = (at) => {
    const found = at && find(at);
    setHover(found ? { ...at, row: found.row, arrival: found.arrival, text: describeHit(painter.scene(), found) } : null);
  };
  return {
    hover: showHover,
    click: (at) => {
      const found = find(at);
      if (!found) return;
      const { band, row, arrival, time, key } = found;
      if (row !== undefined) actions.select(band.node.id, row);
      else if (arrival !== undefined) actions.selectArrival(band.node.id, arrival);
      else actions.ask(band.node.id, time, key);
    },
    brush: (brush) => painter.update({ brush }),
    time: (x) => painter.scene().time(x),
    width: () => painter.size.width - painter.size.gutter,
    gutter: () => painter.size.gutter,
  };
}

// the lane of the selected row scrolls into sight
function revealSelected(element, { selected }, layout) {
  const band = selected && layout.bands.find(({ node }) => node.id === selected.node);
  if (!band) return;
  const top = selected.row >= 0 && band.lanes.length ? band.lanes[band.place.lane[selected.row]].top : band.top;
  if (top < element.scrollTop || top + 30 > element.scrollTop + element.clientHeight) element.scrollTop = top - 40;
}

// a name that may be broken after each underscore
function breakName(name) {
  return name.split(/(?<=_)|(?=\.)/).map((part) => html`${part}<wbr />`);
}

function LaneHead({ band: { node, top, height, lanes, split }, state, actions, gutter }) {
  const keys = keyCount(node);
  const toggle = keys > 1 ? html`<button type="button" class="keys" aria-expanded=${split}
    aria-label=${`Keys of ${node.name}`} title=${`${keys} keys`} onClick=${() => actions.toggleKeys(node.id)}>${split ? "▾" : "▸"}</button>` : null;
  return html`<div class=${`lane-head${state.chosen === node.id ? " is-chosen" : ""}`} style=${{ top: `${top}px`, height: `${gutter ? height : CAPTION}px`, width: gutter ? `${gutter - 8}px` : "100%" }}>
    <span class="lane-name">${toggle}<button type="button" class="link-button" aria-pressed=${state.chosen === node.id} title=${node.name} onClick=${() => actions.choose(node.id)}>${breakName(node.name)}</button></span>
    ${gutter && split ? lanes.map((lane) => html`<span class="lane-key" style=${{ top: `${lane.top - top}px`, height: `${lane.height}px` }}>${lane.label}</span>`) : null}
  </div>
  ${!gutter && split ? lanes.map((lane) => html`<span class="lane-key over" style=${{ top: `${lane.top}px` }}>${lane.label}</span>`) : null}`;
}

// a part of the page that is made anew when the span of time changes
function useView(view) {
  const [, again] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    const frame = onFrame(again);
    view.listeners.add(frame);
    return () => view.listeners.delete(frame);
  }, [view]);
}

// a button for the times of wrong clocks, where there are such
function All({ view }) {
  useView(view);
  return view.hasMore ? html`<button type="button" aria-pressed=${view.isAll} title="Some rows or late events have times far from all others: show these, too" onClick=${() => view.showAll(!view.isAll)}>All times</button>` : null;
}

// the span of time that is shown, in words
function ViewRange({ view, times }) {
  useView(view);
  return html`<output class="range" aria-label="Time shown">${rangeText(view, times)}</output>`;
}

function rangeText({ from, to }, times) {
  const span = to - from;
  const [first, last] = [times.coarse(from, span), times.coarse(to, span)];
  return html`${times.range(first, last)} <span>(${times.span(last - first)})</span>`;
}

function Legend({ isLive }) {
  const signs = [["bar source", "input"], ["bar operator", "operator"], ["bar output", "result"], ["bar cause", "cause"],
    ["bar effect", "effect"], ["flag", "CTI"], ["late", "late event"], ["fade", "still open"], ["unsettled", "not final yet"],
    ...(isLive ? [["so-far", "result so far, not final"]] : [])];
  return html`<ul class="legend" aria-label="Signs of the timeline">
    ${signs.map(([sign, text]) => html`<li><i class=${`sign ${sign}`}></i>${text}</li>`)}
  </ul>`;
}
