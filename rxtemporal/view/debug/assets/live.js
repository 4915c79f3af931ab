// The live page: parts of the flow come as server-sent events. They are read by fetch, which can send a token.
const AGAIN = 1000;

class Feed {
  constructor(url, tell, take) {
    Object.assign(this, { url, tell, take, token: "" });
  }

  async run() {
    for (;;) {
      const wait = await this.connect().catch(() => this.lose());
      await new Promise((done) => setTimeout(done, wait));
    }
  }

  lose() {
    this.tell("connecting again");
    return AGAIN;
  }

  // one connection, from beginning to end; returns how long to wait before the next
  async connect() {
    const headers = { Accept: "text/event-stream", ...(this.token && { Authorization: `Bearer ${this.token}` }) };
    const response = await fetch(this.url, { headers, cache: "no-store" });
    if (response.status === 401 || response.status === 403) return this.needToken();
    if (response.status === 503) {
      this.tell("too many look at this page");
      return 1000 * (Number(response.headers.get("Retry-After")) || 5);
    }
    if (!response.ok) throw new Error(`status ${response.status}`);
    this.tell("connected");
    await this.read(response.body.pipeThrough(new TextDecoderStream()).getReader());
    return this.lose();
  }

  needToken() {
    this.tell("token needed");
    return new Promise((done) => {
      this.giveToken = (token) => { this.token = token; this.tell("connecting"); done(0); };
    });
  }

  async read(reader) {
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (text + value).split(/\r?\n\r?\n/);
      text = events.pop();
      events.forEach((event) => this.parse(event));
    }
  }

  parse(text) {
    const lines = text.split(/\r?\n/);
    const field = (name) => lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).replace(/^ /, "")).join("\n");
    if (field("data")) this.take(field("event"), JSON.parse(field("data")));
  }
}

function followLive(store, view) {
  const { spec } = store.state.flow;
  if (!spec.live || !spec.events) return null;
  store.set({ live: "connecting" });
  const take = (kind, data) => {
    if (kind === "flow") showFlow(store, view, data);
    if (kind === "part") showFlow(store, view, addPart(store.state.flow.spec, data));
  };
  const feed = new Feed(spec.events, (live) => store.set({ live }), take);
  feed.run();
  return feed;
}

// the same page with another flow; what is shown stays shown
function showFlow(store, view, spec) {
  const { state } = store;
  const isFollowing = state.step >= state.flow.last;
  const isWhole = view.from <= view.whole[0] && view.to >= view.whole[1];
  const flow = new Flow({ ...spec, live: true });
  const isSame = state.selected && flow.byId.has(state.selected.node) && flow.times.base === state.flow.times.base;
  const moved = Number(state.flow.times.base - flow.times.base);
  const chosen = flow.byId.has(state.chosen) ? state.chosen : flow.output?.id;
  view.setFlow(flow);
  store.set({
    flow, chosen, step: isFollowing ? flow.last : Math.min(state.step, flow.last), absence: null,
    ...(isSame ? keepSelected(state, flow) : { selected: null, trace: null }),
  });
  if (isWhole || !state.flow.nodes.length) view.fit();
  else view.set(view.from + moved, view.to + moved);
}

// rows have other numbers when older ones are forgotten: the selected row is looked for by what it is
function keepSelected({ flow: before, selected }, flow) {
  const [was, now] = [before, flow].map((each) => each.byId.get(selected.node).rows);
  if (selected.row < 0) return { selected: null, trace: null };
  const is = (row) => now.start[row] === was.start[selected.row] && now.known[row] === was.known[selected.row]
    && now.summary(row) === was.summary(selected.row);
  const row = was.start.findIndex((_, at) => at < now.n && is(at));
  return row < 0 ? { selected: null, trace: null } : { selected: { ...selected, row }, trace: traceRow(flow, flow.byId.get(selected.node), row) };
}
