// Curves drawn by uPlot, one chart below the other, over the steps.
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const INKS = ["--source", "--cause", "--output", "--effect", "--late", "--operator"];

function Charts({ state, actions }) {
  const charts = useMemo(() => allCurves(state.flow), [state.flow, state.version]);
  return html`<div class="charts">${charts.map((chart) => html`<${Chart} key=${chart.id} chart=${chart} state=${state} actions=${actions} />`)}</div>`;
}

function Chart({ chart, state, actions }) {
  const place = useRef(null);
  const width = useWidth(place);
  const isEmpty = chart.curves.every(({ data }) => !data[0].length);
  useEffect(() => {
    if (!width || isEmpty) return undefined;
    const plot = new uPlot(chartOptions(chart, state, width), chartData(chart, state.flow), place.current);
    plot.over.addEventListener("click", () => plot.cursor.idx != null && actions.setStep(plot.data[0][plot.cursor.idx]));
    return () => plot.destroy();
  }, [width, chart, state.theme, state.dark]);
  const label = `${chart.title}: ${chart.text}. ` + chart.curves.map((curve) => `${curve.name}: at most ${peak(chart, curve, state.flow)}`).join("; ");
  return html`<figure class="chart" data-chart=${chart.id} aria-label=${label}>
    <figcaption><b>${chart.title}</b> <span class="sub">${chart.text}</span></figcaption>
    <div ref=${place} class="chart-place"></div>
    ${isEmpty ? html`<p class="empty">Nothing to show.</p>`
      : html`<ul class="legend">${chart.curves.map((curve, i) => html`<li><i class="sign line" style=${`--ink: var(${INKS[i % INKS.length]})`}></i>${curve.name}: at most ${peak(chart, curve, state.flow)}${delayText(curve, state.flow)}</li>`)}</ul>`}
  </figure>`;
}

function peak(chart, { data }, flow) {
  const most = data[1].reduce((a, b) => Math.max(a, b), 0);
  return chart.isTime ? flow.times.span(most) : plural(most, "row");
}

function delayText({ delay }, flow) {
  return delay == null ? "" : `, delay ${flow.times.span(delay)}`;
}

// curves, and a dashed line for each stream's delay
function chartData(chart) {
  const data = joinCurves(chart.curves);
  const delays = chart.curves.filter(({ delay }) => delay != null);
  return [...data, ...delays.map(({ delay }) => data[0].map(() => delay))];
}

function chartOptions(chart, state, width) {
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue(name).trim();
  const line = (i, dash) => ({ stroke: ink(INKS[i % INKS.length]), width: 1.5, dash, spanGaps: true, points: { show: false } });
  const delays = chart.curves.map(({ delay }, i) => ({ delay, i })).filter(({ delay }) => delay != null);
  const axis = { stroke: ink("--muted"), grid: { stroke: ink("--grid"), width: 1 }, ticks: { stroke: ink("--grid"), width: 1 }, font: "11px system-ui, sans-serif" };
  const value = (ticks) => (chart.isTime ? state.flow.times.span(ticks) : count(ticks));
  return {
    width, height: 168, legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } },
    scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(high, 1) * 1.08] } },
    series: [{}, ...chart.curves.map((_, i) => line(i, DASHES[i % DASHES.length])), ...delays.map(({ i }) => line(i, [5, 4]))],
    axes: [{ ...axis, size: 30 }, { ...axis, size: 74, ...(chart.isTime && state.flow.times.isDate ? { incrs: STEPS } : {}), values: (_, splits) => splits.map((each) => (each ? value(each) : "0")) }],
  };
}
