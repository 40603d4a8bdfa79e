// Shows the sums of each VM as they arrive, once a second. Sums only grow: the page shows the
// difference between two snapshots.
"use strict";
(() => {
  const WINDOW_S = 10;
  const KEPT_S = 300;
  const MOST_CULPRITS = 4;
  const SHARES = {
    preempted: "preempted: other tasks had its CPU",
    throttled: "throttled: by a quota, or by the limit of real-time tasks",
    blocked: "blocked: slept inside KVM, although its guest did not want to",
    idle: "idle: its CPU was idle, and usually about to run it",
    unsure: "unsure: its quota was used up, and other tasks may have run",
    unseen: "unseen: not observed, because events were missed",
  };
  const KINDS = { foreign: "", own: "of its own VMM", vm: "another VM", unknown: "" };

  const byId = (id) => document.getElementById(id);
  // Names come from other people: use them as text only.
  const make = (tag, text, kind) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };
  const percent = (part) => `${(100 * part).toFixed(part < 0.1 ? 2 : 1)} %`;
  const duration = (s) => s === 0 ? "–" : s < 1e-3 ? `${(s * 1e6).toFixed(0)} µs` : s < 1 ? `${(s * 1e3).toFixed(1)} ms` : `${s.toFixed(1)} s`;

  const history = [];

  const sum = (shares) => Object.values(shares).reduce((all, part) => all + part, 0);
  const vmOf = (snapshot, name) => snapshot.vms.find((vm) => vm.vm === name);
  const goesOn = (old, now) => old && now.ran >= old.ran && sum(now.lost) >= sum(old.lost);

  // Returns the latest snapshot of at least this age, or else the oldest.
  const before = (at, seconds) => history.findLast((it) => it.at_s <= at - seconds) ?? history[0];

  const spark = (name) => {
    const points = [];
    for (let i = 1; i < history.length; i++) {
      const [earlier, later] = [vmOf(history[i - 1], name), vmOf(history[i], name)];
      // Sums that shrink belong to a VM that has restarted.
      if (earlier && later && later.ran >= earlier.ran) {
        const lost = (sum(later.lost) - sum(earlier.lost)) / (history[i].at_s - history[i - 1].at_s);
        points.push([history[i].at_s, lost]);
      }
    }
    const most = Math.max(1, ...points.map((point) => point[1]));
    const last = history[history.length - 1].at_s;
    const place = ([at, lost]) => `${(100 * (1 - (last - at) / KEPT_S)).toFixed(2)},${(20 * (1 - lost / most)).toFixed(2)}`;
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 -1 100 22");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("class", "spark");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `lost by ${name} each second; the top is ${percent(most)}`);
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    line.setAttribute("points", points.map(place).join(" "));
    svg.append(line);
    return svg;
  };

  const row = (now, before, seconds) => {
    const old = goesOn(before, now) ? before : undefined;
    const rate = (later, earlier) => (later - (earlier ?? 0)) / seconds;
    const shares = Object.keys(SHARES).map((share) => [share, rate(now.lost[share], old?.lost[share])]);
    const lost = shares.reduce((all, [, part]) => all + part, 0);
    const line = make("tr");
    const name = make("td", now.vm);
    const known = Object.entries(now.identity).filter(([, word]) => word !== null);
    name.title = known.map(([fact, word]) => `${fact} ${word}`).join("\n");
    line.append(
      name,
      make("td", String(now.vcpus), "n"),
      make("td", percent(rate(now.ran, old?.ran)), "n"),
      make("td", percent(lost), "n"),
    );
    const bar = make("div", undefined, "bar");
    for (const [share, part] of shares.filter(([, part]) => part > 0)) {
      const piece = make("span", undefined, `share ${share}`);
      piece.style.width = `${100 * part / Math.max(lost, now.vcpus)}%`;
      piece.title = `${share} ${percent(part)}`;
      bar.append(piece);
    }
    const list = make("ul");
    const had = (who) => old?.culprits.find((it) => it.culprit === who.culprit && it.kind === who.kind && it.cgroup === who.cgroup)?.seconds;
    const culprits = now.culprits
      .map((who) => [who, rate(who.seconds, had(who))])
      .filter(([, part]) => part >= 0.0001)
      .sort((one, other) => other[1] - one[1]);
    for (const [who, part] of culprits.slice(0, MOST_CULPRITS)) {
      const item = make("li", `${percent(part)} ${who.culprit} `);
      item.append(make("span", who.cgroup ?? KINDS[who.kind] ?? who.kind, "kind"));
      list.append(item);
    }
    const cell = (node) => { const it = make("td"); it.append(node); return it; };
    line.append(cell(bar), cell(list), make("td", duration(now.waiting), "n"), cell(spark(now.vm)));
    return [lost, line];
  };

  const show = (snapshot) => {
    const old = before(snapshot.at_s, WINDOW_S);
    const seconds = snapshot.at_s - old.at_s;
    if (seconds <= 0) return;
    const rows = snapshot.vms.map((vm) => row(vm, vmOf(old, vm.vm), seconds));
    rows.sort((one, other) => other[0] - one[0]);
    byId("vms").replaceChildren(...rows.map(([, line]) => line));
    const none = snapshot.vms.length === 0;
    byId("state").hidden = !none;
    byId("state").textContent = none ? "No VM runs on this host." : "";
  };

  byId("legend").append(...Object.entries(SHARES).map(([share, words]) => {
    const item = make("li");
    item.append(make("span", undefined, `share ${share}`), words);
    return item;
  }));

  const source = new EventSource("events");
  source.onmessage = (message) => {
    const snapshot = JSON.parse(message.data);
    // After a restart of the server the sums restart too.
    if (history.length && snapshot.began !== history[0].began) history.length = 0;
    history.push(snapshot);
    while (history[0].at_s < snapshot.at_s - KEPT_S) history.shift();
    show(snapshot);
  };
  source.onerror = () => {
    byId("state").hidden = false;
    byId("state").textContent = source.readyState === EventSource.CLOSED
      ? "vmnoise serve has too many pages open: close one, and load this one again."
      : "vmnoise serve does not answer: the figures on this page are old.";
  };
})();
