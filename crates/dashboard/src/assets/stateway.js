// Live updates, countdowns, keys and dialogs. The pages also work without this script; then they update only
// when they are loaded again.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  document.documentElement.classList.add("js");
  // Where a proxy serves the pages.
  const base = document.body.dataset.base ?? "";

  // Times: the server writes them once, here they are kept true, by the server's clock.
  const ahead = (+document.body.dataset.now || Date.now()) - Date.now();
  const clock = () => Date.now() + ahead;
  const span = (s) => {
    const pair = (a, au, b, bu) => (b ? `${a} ${au} ${b} ${bu}` : `${a} ${au}`);
    if (s < 60) return `${s} s`;
    if (s < 600) return pair(Math.floor(s / 60), "min", s % 60, "s");
    if (s < 3600) return `${Math.floor(s / 60)} min`;
    if (s < 86400) return pair(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
    return pair(Math.floor(s / 86400), "d", Math.floor((s % 86400) / 3600), "h");
  };
  // By the clock: as the server writes it, or in the zone of this browser.
  const byClock = { utc: (ms) => stamp(new Date(ms).toISOString()), local: (ms) => stamp(new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString()) }[document.body.dataset.times];
  const stamp = (iso) => iso.slice(0, 19).replace("T", " ");
  const clockText = (data) => {
    if (data.at) return `${byClock(+data.at)}${new Date(+data.at).toISOString().slice(19, 23)}`;
    if (data.for) return `since ${byClock(+data.for)}`;
    return byClock(+(data.ago || data.until));
  };
  const tell = (time, now) => {
    if (byClock) {
      const { ago, until, at } = time.dataset;
      if (!ago && !until && !at && !time.dataset.for) return;
      const text = clockText(time.dataset);
      if (time.textContent !== text) time.textContent = text;
      return;
    }
    const seconds = (from, to) => Math.max(0, Math.floor((to - from) / 1000));
    const { ago, until } = time.dataset;
    const since = time.dataset.for;
    let text;
    if (ago) {
      const s = seconds(+ago, now);
      text = s ? `${span(s)} ago` : "just now";
    } else if (until) {
      const s = Math.max(0, Math.ceil((+until - now) / 1000));
      text = s ? `in ${span(s)}` : "now";
    } else if (since) {
      text = `for ${span(seconds(+since, now))}`;
    }
    if (text && time.textContent !== text) time.textContent = text;
  };
  const tick = () => {
    const now = clock();
    for (const time of document.querySelectorAll("time")) tell(time, now);
  };
  tick();
  setInterval(tick, 1000);

  // Buttons that copy a text; without a script it can be selected.
  const copyButton = () => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "small copy";
    return button;
  };
  const decorate = (root) => {
    for (const box of root.querySelectorAll("pre[data-copy]")) {
      if (box.nextElementSibling?.classList.contains("copy")) continue;
      const button = copyButton();
      button.textContent = "Copy";
      button.setAttribute("aria-label", `Copy ${box.dataset.copy}`);
      box.after(button);
    }
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy, button[data-copy-text]");
    if (!button) return;
    const text = button.dataset.copyText ?? button.previousElementSibling.textContent;
    const before = button.textContent;
    button.textContent = (await copy(text)) ? "Copied" : "Not copied";
    setTimeout(() => (button.textContent = before), 1500);
  });
  decorate(document);

  // Zoom of the graph and of the timeline; kept when a part is replaced.
  let zoom = null;
  let wide = 1;
  const scale = (root) => {
    const box = root.matches?.(".graph") ? root : root.querySelector(".graph");
    const svg = box?.querySelector("svg");
    if (svg && zoom !== null) {
      const { width, height } = svg.viewBox.baseVal;
      const factor = zoom === "fit" ? Math.min(1, box.clientWidth / width) : zoom;
      svg.setAttribute("width", width * factor);
      svg.setAttribute("height", height * factor);
    }
    const timeline = root.querySelector(".timeline");
    if (timeline) timeline.dataset.wide = wide;
  };
  document.addEventListener("click", (event) => {
    const { zoom: way, widen } = event.target.closest("button")?.dataset ?? {};
    if (way) {
      const svg = document.querySelector(".graph svg");
      const now = svg.width.baseVal.value / svg.viewBox.baseVal.width;
      zoom = { in: Math.min(3, now * 1.25), out: Math.max(0.2, now / 1.25), full: 1, fit: "fit" }[way];
    } else if (widen) {
      wide = { in: Math.min(8, wide * 2), out: Math.max(1, wide / 2), fit: 1 }[widen];
    } else return;
    scale(document);
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-jump]");
    const node = link && byId(link.hash.slice(1));
    if (!node) return;
    event.preventDefault();
    node.scrollIntoView({ block: "nearest", inline: "center" });
    node.querySelector("a")?.focus({ preventScroll: true });
  });

  // Every row of the page, ticked or not.
  document.addEventListener("click", (event) => {
    const name = event.target.closest("button")?.dataset.selectAll;
    if (!name) return;
    const boxes = [...document.querySelectorAll(`input[type=checkbox][name="${name}"]`)];
    const all = boxes.every((box) => box.checked);
    for (const box of boxes) box.checked = !all;
  });

  // What can be scrolled within a part stays where it was.
  const SCROLLS = ".graph, .timeline, .scroll, pre";
  // Live parts: an id and the element that takes its place.
  const put = (id, html) => {
    const old = byId(id);
    if (!old) return;
    const template = document.createElement("template");
    template.innerHTML = html;
    const next = template.content.firstElementChild;
    if (!next) return;
    const now = clock();
    for (const time of next.querySelectorAll("time")) tell(time, now);
    decorate(next);
    if (next.isEqualNode(old)) return;
    for (const box of old.querySelectorAll("input[type=checkbox]:checked")) {
      const same = next.querySelector(`input[name="${CSS.escape(box.name)}"][value="${CSS.escape(box.value)}"]`);
      if (same) same.checked = true;
    }
    for (const details of old.querySelectorAll("details[id][open]")) {
      const same = next.querySelector(`#${CSS.escape(details.id)}`);
      if (same) same.open = true;
    }
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const path = focused && (focused.id ? `#${CSS.escape(focused.id)}` : focused.getAttribute("href") && `a[href="${CSS.escape(focused.getAttribute("href"))}"]`);
    const chosen = old.classList.contains("chosen");
    if (chosen) next.classList.add("chosen");
    const places = [...old.querySelectorAll(SCROLLS)].map((box) => [box.scrollLeft, box.scrollTop]);
    // A live region must stay in the page to be read out: only its content is replaced.
    const stays = old.getAttribute("role") === "status";
    if (stays) old.replaceChildren(...next.childNodes);
    else old.replaceWith(next);
    const shown = stays ? old : next;
    scale(shown);
    [...shown.querySelectorAll(SCROLLS)].forEach((box, at) => places[at] && box.scrollTo(...places[at]));
    if (path) shown.querySelector(path)?.focus();
    shown.classList.add("changed");
  };
  const address = document.body.dataset.live;
  const light = byId("live");
  let source = null;
  // How long to wait after a refusal: longer each time, in milliseconds.
  const SOON = 2000;
  const LATE = 60000;
  let pause = SOON;
  const say = (word, state) => {
    if (!light) return;
    light.dataset.state = state;
    const text = light.querySelector(".word");
    if (text && text.textContent !== word) text.textContent = word;
  };
  // A session that has ended leads to the sign-in, and from there back to this page.
  const leaveIfSignedOut = async () => {
    if (!document.body.dataset.signedIn) return;
    const answer = await fetch(`${base}/whoami`).catch(() => null);
    if (answer?.status !== 401) return;
    location.assign(`${base}/sign-in?back=${encodeURIComponent(location.pathname + location.search)}`);
  };
  const open = () => {
    if (!address || source || document.hidden) return;
    source = new EventSource(address);
    source.addEventListener("open", () => {
      pause = SOON;
      say("live", "on");
    });
    source.addEventListener("part", (event) => {
      const at = event.data.indexOf("\n");
      put(event.data.slice(0, at), event.data.slice(at + 1));
    });
    source.addEventListener("error", () => {
      say("reconnecting", "off");
      // A refusal closes it for good; the gateway may be back in a moment.
      if (source && source.readyState === EventSource.CLOSED) {
        source = null;
        leaveIfSignedOut();
        setTimeout(open, pause);
        pause = Math.min(2 * pause, LATE);
      }
    });
  };
  const close = () => {
    source?.close();
    source = null;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();

  // Questions open in a dialog instead of on a page of their own.
  const dialog = byId("dialog");
  const ask = async (link) => {
    const url = new URL(link.href);
    if ([`${base}/acting`, `${base}/display`].includes(url.pathname)) url.searchParams.set("back", location.pathname + location.search);
    const answer = await fetch(url, { headers: { accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const question = page.getElementById("question");
    if (!answer.ok || !question) {
      location.assign(url);
      return;
    }
    dialog.replaceChildren(document.importNode(question, true));
    dialog.showModal();
    const first = dialog.querySelector("[autofocus]") ?? dialog.querySelector("input:not([type=hidden]), textarea, button");
    first?.focus();
  };
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = event.target.closest("a[data-dialog]");
    if (link) {
      event.preventDefault();
      ask(link).catch(() => location.assign(link.href));
    } else if (event.target.closest("dialog a[data-close]") || event.target === dialog) {
      event.preventDefault();
      dialog.close();
    }
  });
  document.addEventListener("submit", (event) => {
    if (event.target.method === "dialog") return;
    for (const button of event.target.querySelectorAll("button:enabled")) {
      button.dataset.sent = "";
      setTimeout(() => (button.disabled = true));
    }
  });
  addEventListener("pageshow", () => {
    for (const button of document.querySelectorAll("button[data-sent]")) button.disabled = false;
  });

  // Keys.
  const rows = () => [...document.querySelectorAll("tr.row, li.row")];
  const choose = (step) => {
    const all = rows();
    const at = all.findIndex((row) => row.classList.contains("chosen"));
    const next = all[Math.min(all.length - 1, Math.max(0, at + step))];
    if (!next) return;
    all[at]?.classList.remove("chosen");
    next.classList.add("chosen");
    next.querySelector("a.go")?.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input, textarea, select");
    if (event.key === "Escape" && typing && !event.target.closest("dialog")) event.target.blur();
    if (typing || document.querySelector("dialog[open]") || document.body.dataset.keys === "off") return;
    const act = {
      j: () => choose(1),
      k: () => choose(-1),
      "/": () => byId("filter")?.select(),
      n: () => document.querySelector("a.fresh")?.click(),
      "?": () => byId("keys").showModal(),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
})();
