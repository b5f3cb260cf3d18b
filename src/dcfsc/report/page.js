"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { shown, view, classes, best, colors } = data;
  const storedAt = new Map(shown.i.map((sample, at) => [sample, at]));
  const viewAt = new Map(view.i.map((sample, at) => [sample, at]));
  const root = document.documentElement, PAGE = 240;

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const title = (label) => (data.titles[label] === String(label) ? String(label) : `${data.titles[label]} (${label})`);
  const className = (label) => (best[label] >= 0 ? classes[best[label]] : "none");
  const nameOf = (sample) => data.ids?.[sample] ?? `Sample ${sample}`;

  // Pictures ------------------------------------------------------------------------------

  const picture = (at, large) => {
    const span = make("span", { class: large ? "px large" : "px" });
    span.style.setProperty("--x", at % data.columns);
    span.style.setProperty("--y", Math.floor(at / data.columns));
    return span;
  };
  const quote = (at) => make("span", { class: "quote", dir: "auto" }, shown.text[at] || "(empty)");
  const thumb = (at) => {
    const label = `${nameOf(shown.i[at])}, cluster ${shown.l[at]}, confidence ${(shown.c[at] / 100).toFixed(2)}`;
    const attributes = { type: "button", class: "thumb", "data-at": at };
    if (shown.text) return make("button", attributes, quote(at));
    const face = data.columns ? picture(at) : String(data.ids?.[shown.i[at]] ?? shown.i[at]);
    return make("button", { ...attributes, "aria-label": label }, face);
  };

  const fact = (name, value) => make("div", {}, make("dt", {}, name), make("dd", {}, value));

  // What is known of a sample: all of it where it is stored, else its place in the view.
  const describe = (sample, container) => {
    const at = storedAt.get(sample), place = viewAt.get(sample);
    const from = at !== undefined ? [shown, at] : [view, place];
    const label = from[0].l[from[1]];
    container.replaceChildren();
    if (at !== undefined && data.columns) {
      const large = picture(at, true);
      large.setAttribute("role", "img");
      large.setAttribute("aria-label", nameOf(sample));
      container.append(large);
    }
    const isFile = at !== undefined && shown.name;
    container.append(make("h3", {}, isFile ? shown.name[at].split("/").pop() : nameOf(sample)));
    if (at !== undefined && shown.text) container.append(quote(at));
    const facts = make("dl", { class: "sample-facts" });
    if (isFile) {
      const link = shown.link && make("a", { href: shown.link[at], target: "_blank", rel: "noopener" }, shown.name[at]);
      facts.append(fact("file", link || shown.name[at]));
    }
    if (data.ids && !isFile) facts.append(fact("row", String(sample)));
    facts.append(fact("cluster", title(label)));
    facts.append(fact("confidence", (from[0].c[from[1]] / 100).toFixed(2)));
    if (at !== undefined && shown.rival[at] >= 0) facts.append(fact("next cluster", title(shown.rival[at])));
    if (from[0].t) {
      const truth = from[0].t[from[1]];
      facts.append(fact("given label", classes[truth]));
      facts.append(fact("label of the cluster", className(label)));
    }
    container.append(facts);
    if (at === undefined) {
      if (data.columns) container.append(make("p", { class: "meta small" }, "Its picture is not stored on this page."));
      return;
    }
    if (shown.v) {
      const measured = make("dl", { class: "sample-facts" });
      data.measured.forEach((name, j) => measured.append(fact(name, String(shown.v[at][j]))));
      container.append(make("h4", {}, "Measurements"), measured);
    }
    const near = shown.near[at].filter((i) => i >= 0);
    if (!near.length) return;
    const strip = make("div", { class: "strip near" });
    for (const i of near) {
      if (storedAt.has(i)) strip.append(thumb(storedAt.get(i)));
      else strip.append(make("span", { class: "meta small" }, String(data.ids?.[i] ?? i)));
    }
    container.append(make("h4", {}, "Nearest by affinity"), strip);
  };

  // In a notebook's frame, a link to a place on this page would open the notebook in it.
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (!link || location.protocol !== "about:") return;
    event.preventDefault();
    document.querySelector(link.getAttribute("href")).scrollIntoView();
  });

  // The dialog for strips; inside the inspector a neighbor takes its place -----------------

  const dialog = document.getElementById("sample");
  document.addEventListener("click", (event) => {
    const button = event.target.closest(".thumb");
    if (!button) return;
    const sample = shown.i[Number(button.dataset.at)];
    if (button.closest("#inspector") && viewAt.has(sample)) select(viewAt.get(sample));
    else {
      describe(sample, dialog.querySelector(".body"));
      if (!dialog.open) dialog.showModal();
      else dialog.querySelector("form button").focus();
    }
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

  // The clusters as a file, made here: a page that was sent on its own has them too --------------

  const cell = (text) => {
    const safe = /^[=+\-@\t]/.test(text) && !/^-\d+$/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const clustersFile = () => {
    const { l, c, n } = data.all;
    const rows = l.map((label, i) => [
      data.ids ? cell(data.ids[i]) : i, label, cell(data.titles[label]), (c[i] / 1000).toFixed(3), n[i],
    ].join(","));
    return ["id,cluster,name,confidence,next_best", ...rows].join("\n") + "\n";
  };
  document.getElementById("download")?.addEventListener("click", () => {
    const url = URL.createObjectURL(new Blob([clustersFile()], { type: "text/csv" }));
    make("a", { href: url, download: "clusters.csv" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  });

  // Expanding a cluster ----------------------------------------------------------------------

  // A page of them at a time, and a button for the next.
  const fill = (container, list) => {
    container.append(...list.slice(0, PAGE).map(thumb));
    const left = list.slice(PAGE);
    if (!left.length) return;
    const more = make("button", { type: "button" }, `Next ${Math.min(PAGE, left.length)} of ${left.length} more`);
    more.addEventListener("click", () => {
      const first = more.previousElementSibling;
      more.remove();
      fill(container, left);
      first.nextElementSibling.focus();
    });
    container.append(more);
  };
  for (const button of document.querySelectorAll(".expand[data-cluster]")) {
    const words = button.textContent, label = Number(button.dataset.cluster);
    const all = document.getElementById(`all${label}`);
    button.addEventListener("click", () => {
      const open = all.hidden;
      if (open && !all.childElementCount) fill(all, shown.l.flatMap((l, at) => (l === label ? [at] : [])));
      all.hidden = !open;
      button.setAttribute("aria-expanded", String(open));
      button.textContent = open ? "Show fewer" : words;
    });
  }

  // Samples that differ from the labels --------------------------------------------------------

  const gallery = document.getElementById("mistakes");
  if (gallery) {
    const list = gallery.dataset.at.split(",").map(Number), more = document.getElementById("more-mistakes");
    let next = 0;
    const extend = () => {
      for (const at of list.slice(next, next + 36)) {
        const words = `${classes[shown.t[at]]} → ${className(shown.l[at])}`;
        gallery.append(make("figure", {}, thumb(at), make("figcaption", {}, words)));
      }
      next += 36;
      more.hidden = next >= list.length;
    };
    more.addEventListener("click", extend);
    extend();
  }

  // The map ------------------------------------------------------------------------------------

  const plane = document.getElementById("plane"), canvas = plane.querySelector("canvas");
  const inspector = document.getElementById("inspector"), paint = document.getElementById("paint");
  const count = view.i.length;
  const ordered = [...Array(count).keys()].sort((a, b) => view.l[a] - view.l[b] || view.c[b] - view.c[a]);
  const position = new Map(ordered.map((at, rank) => [at, rank]));
  let chosen = -1, side = 0, brought = new Set();

  const px = (at) => 26 + (view.x[at] / 1000) * (side - 52);
  const py = (at) => 26 + (1 - view.y[at] / 1000) * (side - 52);
  const wrong = (at) => view.t && view.t[at] !== best[view.l[at]];
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  const colorOf = (at, neutral, alarm) => {
    if (paint.value === "confidence") return `hsl(${20 + 1.8 * view.c[at]} 60% 50%)`;
    if (paint.value === "truth") return classColor(view.t[at]);
    if (paint.value === "mistakes") return wrong(at) ? alarm : neutral;
    return colors[view.l[at]];
  };
  // A class takes the color of the cluster it is matched with, so that the two paintings agree.
  const partner = new Map(best.map((c, k) => [c, k]));
  const classColor = (c) => (partner.has(c) ? colors[partner.get(c)] : "hsl(0 0% 50%)");

  const draw = () => {
    const scale = window.devicePixelRatio || 1;
    side = plane.clientWidth;
    canvas.width = canvas.height = Math.round(side * scale);
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const radius = count > 3000 ? 2.2 : count > 800 ? 2.8 : 4;
    const neutral = css("--line"), alarm = css("--warm");
    for (const pass of paint.value === "mistakes" ? [false, true] : [null]) {
      for (let at = 0; at < count; at++) {
        if (pass !== null && Boolean(wrong(at)) !== pass) continue;
        pen.globalAlpha = brought.size && !brought.has(view.l[at]) ? 0.07 : 0.72;
        pen.fillStyle = colorOf(at, neutral, alarm);
        pen.beginPath();
        pen.arc(px(at), py(at), radius, 0, 7);
        pen.fill();
      }
    }
    if (chosen >= 0) {
      pen.globalAlpha = 1;
      pen.fillStyle = colors[view.l[chosen]];
      pen.strokeStyle = css("--ink");
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(px(chosen), py(chosen), radius + 4, 0, 7);
      pen.fill();
      pen.stroke();
    }
  };

  const select = (at) => {
    if (at === chosen) return;
    chosen = at;
    const confidence = (view.c[at] / 100).toFixed(2);
    plane.setAttribute("aria-valuenow", position.get(at));
    plane.setAttribute("aria-valuetext", `${nameOf(view.i[at])}, cluster ${view.l[at]}, confidence ${confidence}`);
    describe(view.i[at], inspector);
    draw();
  };

  const nearestTo = (event) => {
    const box = plane.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    let found = -1, least = 30 * 30;
    for (let at = 0; at < count; at++) {
      if (brought.size && !brought.has(view.l[at])) continue;
      const distance = (px(at) - x) ** 2 + (py(at) - y) ** 2;
      if (distance < least) [found, least] = [at, distance];
    }
    return found;
  };
  const point = (event) => {
    const at = nearestTo(event);
    if (at >= 0) select(at);
  };
  plane.addEventListener("pointermove", point);
  plane.addEventListener("pointerdown", point);
  plane.addEventListener("focus", () => chosen < 0 && count && select(ordered[0]));
  plane.addEventListener("keydown", (event) => {
    if (!count || event.ctrlKey || event.metaKey || event.altKey) return;
    const rank = position.get(Math.max(chosen, 0)), label = view.l[ordered[rank]];
    const last = count - 1;
    const firstOf = (test) => ordered.find((at) => test(view.l[at]));
    const before = ordered.filter((at) => view.l[at] < label);
    const moves = {
      ArrowRight: () => ordered[Math.min(rank + 1, last)],
      ArrowLeft: () => ordered[Math.max(rank - 1, 0)],
      ArrowDown: () => firstOf((l) => l > label) ?? ordered[last],
      ArrowUp: () => before.find((at) => view.l[at] === view.l[before[before.length - 1]]) ?? ordered[0],
      Home: () => ordered[0],
      End: () => ordered[last],
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    select(moves[event.key]());
  });
  for (const button of document.querySelectorAll("[data-bring]")) {
    button.addEventListener("click", () => {
      const label = Number(button.dataset.bring), on = !brought.has(label);
      brought[on ? "add" : "delete"](label);
      button.setAttribute("aria-pressed", String(on));
      draw();
    });
  }
  paint.addEventListener("change", draw);
  new ResizeObserver(draw).observe(plane);

  // Light and dark -----------------------------------------------------------------------------

  const theme = document.getElementById("theme"), system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    theme.setAttribute("aria-pressed", String(isDark()));
    draw();
  };
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("dcfsc-theme", root.dataset.theme);
    } catch (_) { /* a page opened from a file may have no storage */ }
    show();
  });
  system.addEventListener("change", show);
  show();
})();
