// Live updates, countdowns, keys and dialogs. Everything works without it, only stiller.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);

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
  const tell = (time, now) => {
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

  // What can be scrolled within a part stays where it was.
  const SCROLLS = ".graph, .scroll, pre";
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
    if (next.isEqualNode(old)) return;
    for (const details of old.querySelectorAll("details[id][open]")) {
      const same = next.querySelector(`#${CSS.escape(details.id)}`);
      if (same) same.open = true;
    }
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const path = focused && (focused.id ? `#${CSS.escape(focused.id)}` : focused.getAttribute("href") && `a[href="${CSS.escape(focused.getAttribute("href"))}"]`);
    const chosen = old.classList.contains("chosen");
    if (chosen) next.classList.add("chosen");
    const places = [...old.querySelectorAll(SCROLLS)].map((box) => [box.scrollLeft, box.scrollTop]);
    // What is read out when it changes must stay to be noticed: it is filled anew.
    const stays = old.getAttribute("role") === "status";
    if (stays) old.replaceChildren(...next.childNodes);
    else old.replaceWith(next);
    const shown = stays ? old : next;
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
    const answer = await fetch("/whoami").catch(() => null);
    if (answer?.status !== 401) return;
    location.assign(`/sign-in?back=${encodeURIComponent(location.pathname + location.search)}`);
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
    if (url.pathname === "/acting") url.searchParams.set("back", location.pathname + location.search);
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
    for (const button of event.target.querySelectorAll("button")) setTimeout(() => (button.disabled = true));
  });
  addEventListener("pageshow", () => {
    for (const button of document.querySelectorAll("button:disabled")) button.disabled = false;
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
    if (typing || document.querySelector("dialog[open]")) return;
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
