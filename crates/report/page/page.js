// Draws the charts, shows the causes of a spike after a click, and sorts tables. Loads nothing.
"use strict";
(() => {
  const root = document.documentElement;
  const read = (node) => JSON.parse(node.textContent);
  // The charts' library turns tags in its texts into links and line breaks. Names come from outside,
  // so they are escaped. Templates are part of vmnoise, and are not escaped.
  const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const ours = ["hovertemplate", "texttemplate"];
  const readChart = (node) => JSON.parse(node.textContent, (key, value) =>
    typeof value === "string" && !ours.includes(key) ? plain(value) : value);
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const make = (tag, text, kind) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };

  const duration = (ns) => {
    const [size, unit] = ns < 1e3 ? [1, "ns"] : ns < 999500 ? [1e3, "µs"] : ns < 999.5e6 ? [1e6, "ms"] : [1e9, "s"];
    const value = ns / size;
    return `${size === 1 ? ns : value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${unit}`;
  };

  // Adds the page's colours and fonts to the layout of a chart.
  const dress = (layout) => {
    const axis = (given) => ({
      gridcolor: colour("--grid"), linecolor: colour("--line"), zeroline: false, automargin: true,
      tickfont: { color: colour("--soft"), size: 11 }, ...given,
      title: { ...(given?.title ?? {}), font: { color: colour("--soft"), size: 12 }, standoff: 8 },
    });
    return {
      ...layout, autosize: true, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, color: colour("--ink"), size: 12 },
      margin: { l: 56, r: 38, t: 26, b: 44 }, xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis),
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11, color: colour("--soft") } },
      hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
      colorway: ["#3f7fd6", "#e4572e", "#1f9e89", "#8a63c9", "#d69a00", "#c8375f", "#5fb0e8", "#a9793f"],
      modebar: { orientation: "v", bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: colour("--accent") },
      dragmode: "zoom",
    };
  };
  const settings = {
    responsive: true, displaylogo: false, scrollZoom: false, displayModeBar: "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "toImage"],
  };

  // On a logarithmic axis over more than one power of ten, marks only the powers. The library would
  // omit the unit of the marks between powers.
  const mark = (plot) => {
    const change = {};
    for (const name of ["xaxis", "yaxis"]) {
      const { type, ticksuffix, range, dtick } = plot.layout[name];
      if (type !== "log" || ticksuffix !== "s" || !range) continue;
      const step = Math.abs(range[1] - range[0]) > 1 ? 1 : null;
      if ((dtick ?? null) !== step) change[`${name}.dtick`] = step;
    }
    return Object.keys(change).length ? Plotly.relayout(plot, change) : plot;
  };

  // Largest number of parts that are listed for a spike.
  const MOST_PARTS = 12;

  const redraws = [];
  const figureOf = (figure, views, names, drawn) => {
    const plot = figure.querySelector(".plot");
    let chosen = 0;
    const draw = () => {
      const view = views(chosen);
      if (view.layout.height) plot.style.height = `${view.layout.height}px`;
      return Plotly.react(plot, view.data, dress(view.layout), settings).then(mark);
    };
    if (names.length === 1 && names[0]) figure.querySelector("figcaption").append(make("p", names[0], "shown"));
    if (names.length > 1) {
      const choice = make("select");
      choice.setAttribute("aria-label", "what is shown");
      names.forEach((name) => choice.append(make("option", name)));
      choice.addEventListener("change", () => { chosen = choice.selectedIndex; draw(); });
      figure.querySelector("figcaption").append(choice);
    }
    redraws.push(draw);
    return draw().then(() => {
      plot.on("plotly_relayout", () => mark(plot));
      drawn?.(plot);
    });
  };

  const chart = (figure) => {
    const nodes = [...figure.querySelectorAll("script")];
    return figureOf(figure, (at) => readChart(nodes[at]), nodes.map((node) => node.dataset.name));
  };

  const spikes = (figure) => {
    const told = read(figure.querySelector("script"));
    const views = (at) => {
      const traces = new Map();
      told.spikes.forEach(([lane, start, length, parts], place) => {
        if (at > 0 && lane !== at - 1) return;
        const share = parts.length ? parts[0] : told.shares.length - 1;
        if (!traces.has(share)) {
          const { label, colour } = told.shares[share];
          traces.set(share, {
            type: "scatter", mode: "markers", name: label, x: [], y: [], customdata: [], text: [],
            marker: { color: colour, size: 6, opacity: 0.8 },
            hovertemplate: "%{text}<extra></extra>",
          });
        }
        const trace = traces.get(share);
        trace.x.push(start / 1e9);
        trace.y.push(length / 1e9);
        trace.customdata.push(place);
        trace.text.push(plain(`${duration(length)} on ${told.lanes[lane]}`));
      });
      const layout = {
        xaxis: { title: { text: "time since the start (s)" } },
        yaxis: { type: "log", title: { text: told.length }, tickformat: "~s", ticksuffix: "s" },
        hovermode: "closest", showlegend: true,
      };
      const data = [...traces.entries()].sort(([a], [b]) => a - b).map(([, trace]) => trace);
      return { data, layout };
    };
    const names = told.lanes.length > 1 ? [told.all, ...told.lanes] : [];
    return figureOf(figure, views, names, (plot) => {
      plot.on("plotly_click", (event) => detail(figure, told, event.points[0].customdata));
      // At first the longest spike is selected, because readers look for it first.
      const longest = (best, it, place) => it[2] > told.spikes[best][2] ? place : best;
      detail(figure, told, told.spikes.reduce(longest, 0));
    });
  };

  const detail = (figure, told, place) => {
    const [lane, start, length, parts, scene, tree] = told.spikes[place];
    const flat = () => {
      const all = Array.from({ length: parts.length / 3 }, (_, nth) => {
        const [share, name, ns] = parts.slice(nth * 3);
        return [0, share, `${told.shares[share].label} ${told.names[name]}`, ns];
      });
      const rest = all.slice(MOST_PARTS).reduce((sum, it) => sum + it[3], 0);
      if (all.length <= MOST_PARTS + 1) return all;
      return [...all.slice(0, MOST_PARTS), [0, -1, `${all.length - MOST_PARTS} smaller parts`, rest]];
    };
    const grown = () => told.trees[tree][1].map(([depth, share, words, ns]) => [depth, share, told.names[words], ns]);
    const lines = tree === null ? flat() : grown();
    const box = figure.querySelector(".detail");
    box.replaceChildren();
    box.append(make("h3", `${duration(length)} on ${told.lanes[lane]} at ${(start / 1e9).toFixed(6)} s`));
    const table = make("table", undefined, "tree");
    for (const [depth, share, words, ns] of lines) {
      const row = table.insertRow();
      const who = row.insertCell();
      who.className = `d${depth}`;
      if (share >= 0) {
        const key = make("span", undefined, "key");
        key.style.background = told.shares[share].colour;
        who.append(key);
      }
      who.append(words);
      const time = row.insertCell();
      time.className = "n";
      time.textContent = duration(ns);
      const part = row.insertCell();
      part.className = "n";
      part.textContent = `${(ns * 100 / length).toFixed(1)} %`;
    }
    box.append(table);
    if (scene === null) {
      box.append(make("p", "The page shows what ran when only for the longest.", "hint"));
    } else {
      const steps = told.phases && tree !== null ? told.trees[tree][1].filter(([depth]) => depth === 0) : [];
      box.append(timeline(told, length, steps, told.scenes[scene]));
    }
    if (tree !== null && told.trees[tree][0]) box.append(make("p", told.trees[tree][0], "hint"));
    box.hidden = false;
  };

  // Draws activity over time: the workload with its phases at the top, then the activity of its own
  // kernel, then the activity of the host.
  const timeline = (told, length, steps, bars) => {
    const [wide, left, high] = [760, 190, 22];
    const rows = [{ name: told.victim, bars: [[0, 0, length, -1, 0]] }];
    if (steps.length) {
      let after = 0;
      const phases = steps.map(([, , words, ns]) => {
        after += ns;
        return [0, after - ns, ns, -1, words];
      });
      rows.push({ name: "phases", bars: phases });
    }
    for (const bar of bars) {
      const name = `${bar[0] ? "below: " : ""}${told.shares[bar[3]].label}`;
      let row = rows.find((it) => it.name === name);
      if (!row) rows.push(row = { name, bars: [] });
      row.bars.push(bar);
    }
    const node = (tag, given, text) => {
      const it = document.createElementNS("http://www.w3.org/2000/svg", tag);
      Object.entries(given).forEach(([key, value]) => it.setAttribute(key, value));
      if (text !== undefined) it.textContent = text;
      return it;
    };
    const svg = node("svg", { class: "timeline", viewBox: `0 0 ${wide} ${rows.length * high + 22}`, role: "img" });
    svg.append(node("title", {}, "what ran when"));
    const span = length * 1.1;
    const x = (ns) => left + (ns + length * 0.05) / span * (wide - left - 4);
    rows.forEach((row, nth) => {
      const y = nth * high;
      svg.append(node("text", { x: 0, y: y + 15 }, row.name));
      svg.append(node("line", { class: "rail", x1: left, x2: wide, y1: y + high - 2, y2: y + high - 2 }));
      for (const [, after, ns, share, name] of row.bars) {
        const from = Math.max(0, after);
        const fill = share < 0 ? colour("--line") : told.shares[share].colour;
        const bar = node("rect", { x: x(from), y: y + 4, width: Math.max(1, x(from + ns) - x(from)), height: high - 8, rx: 2, fill });
        if (share < 0) bar.style.stroke = colour("--card");
        const who = told.names[name] || (share < 0 ? told.phases ? "late" : "missing" : told.shares[share].label);
        bar.append(node("title", {}, `${who}: ${duration(ns)}, ${duration(from)} after the start`));
        svg.append(bar);
        if (x(from + ns) - x(from) > who.length * 6.4 + 8) {
          svg.append(node("text", { x: x(from) + 4, y: y + 15, style: share < 0 ? "" : "fill:#fff" }, who));
        }
      }
    });
    const foot = rows.length * high + 15;
    svg.append(node("text", { x: x(0), y: foot }, "0"));
    svg.append(node("text", { x: x(length), y: foot, "text-anchor": "end" }, duration(length)));
    return svg;
  };

  const sortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    const value = (row, at) => {
      const cell = row.cells[at];
      return cell.dataset.rank === undefined ? cell.textContent : Number(cell.dataset.rank);
    };
    heads.forEach((head, at) => {
      const button = make("button", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const numbers = head.classList.contains("n");
        const up = head.ariaSort ? head.ariaSort !== "ascending" : !numbers;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const body = table.tBodies[0];
        // Unknown values are not numbers. They count as smaller than all numbers.
        const order = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
          : typeof a === "number" ? 1 : typeof b === "number" ? -1 : a.localeCompare(b, "en", { numeric: true });
        const rows = [...body.rows].sort((a, b) => (up ? 1 : -1) * order(value(a, at), value(b, at)));
        body.append(...rows);
      });
    });
  };

  // Decompresses the charts' library and runs it. The page's policy allows this by the hash of the
  // library.
  const unpack = async () => {
    const packed = Uint8Array.from(atob(document.getElementById("library").textContent), (it) => it.charCodeAt(0));
    const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    document.head.append(make("script", await new Response(plain).text()));
  };

  root.classList.add("js");
  document.querySelectorAll("table.sortable").forEach(sortable);
  // A chart is drawn shortly before it becomes visible.
  const waiting = new Set(document.querySelectorAll("figure"));
  const start = (figure) => {
    sight.unobserve(figure);
    if (!waiting.delete(figure)) return Promise.resolve();
    return (figure.classList.contains("spikes") ? spikes : chart)(figure);
  };
  const sight = new IntersectionObserver((seen) => {
    const near = seen.filter((it) => it.isIntersecting).map((it) => start(it.target));
    Promise.all(near).then(() => { root.dataset.drawn ??= Math.round(performance.now()); });
  }, { rootMargin: "300px" });
  const again = () => redraws.forEach((draw) => draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  // On paper a chart has another width. The library lays out the legend for the previous width, so
  // the chart must be drawn twice.
  matchMedia("print").addEventListener("change", () => { again(); again(); });
  unpack().then(() => {
    waiting.forEach((figure) => sight.observe(figure));
    addEventListener("beforeprint", () => waiting.forEach(start));
  }).catch(() => root.classList.remove("js")); // Without Compression Streams, the page looks as without scripts.
})();
