//! For everyone: a phone, a screen reader, both lights.

use serde_json::json;
use stateway_client::v1;

use crate::browser::Browser;
use crate::stage::{act_as, asks, clean, escalated, page};
use crate::support::{BuiltInRig, Puppet, TestWorker};

const MIXED: &str = "\
name: mixed
description: Asks, and gets stuck.
failurePolicy: compensate
steps:
  - {name: ask, approval: {role: ops, expiresAfter: 1h}}
  - {name: pay, agent: billing, timeout: 5m, onFailure: escalate, dependsOn: [ask]}
  - {name: a-step-with-quite-a-long-name-for-a-phone, agent: nobody, timeout: 5m}
compensation:
  - {step: pay, agent: billing, action: refund, timeout: 5m}
";

const PAGES: [&str; 13] = [
    "/executions",
    "/executions?filter=colour%20%3D%20red",
    "/executions/b/m1",
    "/executions/b/m2",
    "/executions/b/m1/do/cancel",
    "/acting",
    "/inbox",
    "/inbox/resolve?name=providers%2Fb%2Fexecutions%2Fm2%2Fescalations%2Fpay~1&action=reassign",
    "/definitions",
    "/definitions/mixed",
    "/providers",
    "/providers/p",
    "/workers",
];

/// Something on every page.
async fn full() -> (BuiltInRig, TestWorker) {
    let puppet = Puppet::new();
    puppet.show(&"long".repeat(40), "RUNNING");
    let rig = BuiltInRig::start_beside(|gateway| gateway.with_puppet("p", &puppet)).await;
    rig.apply(&MIXED.replace("Asks", "Once asked")).await;
    rig.apply(MIXED).await;
    let long = json!({"text": "unbroken".repeat(60), "list": [1, 2, 3]});
    for id in ["m1", "m2"] {
        rig.begin("mixed", id, "ada", long.clone()).await;
        rig.until(id, |view| {
            view.steps.iter().any(|step| !step.waits.is_empty())
        })
        .await;
    }
    let offer = v1::Offer {
        worker_id: "cashier".into(),
        roles: vec!["billing".into()],
        capacity: 2,
        ..v1::Offer::default()
    };
    let mut worker = rig.work(offer).await.unwrap();
    let grant = v1::DecideApprovalRequest {
        name: "providers/b/executions/m2/approvals/ask~1".into(),
        decision: v1::decide_approval_request::Choice::Grant.into(),
        ..v1::DecideApprovalRequest::default()
    };
    let mut client = rig.approvals().await;
    let grant = crate::support::by("tom", "ops", grant);
    client.decide_approval(grant).await.unwrap();
    let task = worker.task().await;
    worker.fail(&task, v1::ErrorCategory::Governance);
    rig.until("m2", |view| {
        escalated(view) || asks(view) || view.last_error.is_some()
    })
    .await;
    (rig, worker)
}

/// What sticks out to the right; nothing when nothing does.
const WIDE: &str = r#"
// Not innerWidth: a phone zooms out to what is too wide.
const room = document.documentElement.clientWidth, wide = document.documentElement.scrollWidth;
if (wide <= room + 1) return null;
const out = [...document.body.querySelectorAll('*')]
  .filter((e) => e.getBoundingClientRect().right > room + 1)
  .filter((e) => {
    // What scrolls by itself may be wider inside.
    for (let at = e.parentElement; at; at = at.parentElement) if (getComputedStyle(at).overflowX !== 'visible') return false;
    return true;
  })
  .map((e) => e.outerHTML.slice(0, 160));
return [wide, room, out.slice(0, 5)];
"#;

pub(crate) async fn a_phone_shows_every_page_without_scrolling_sideways(browser: &Browser) {
    let (rig, _worker) = full().await;
    act_as(browser, &rig, "eve", "ops");
    browser.phone();
    for path in PAGES {
        browser.go(&page(&rig, path));
        let found = browser.script(WIDE, &[]);
        assert!(found.is_null(), "{path}: {found}");
    }
    // What is too wide would be seen.
    browser.script("document.querySelector('main').style.width = '900px'", &[]);
    assert!(!browser.script(WIDE, &[]).is_null());
    clean(browser);
}

/// What a screen reader needs; each line names an element that lacks it.
const LACKING: &str = r#"
const seen = (e) => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== 'hidden';
const name = (e) => (e.getAttribute('aria-label') || e.innerText || e.textContent || e.title || '').trim();
const wrong = [];
const tell = (what, e) => wrong.push(what + ': ' + e.outerHTML.slice(0, 160));
if (!document.documentElement.lang) wrong.push('no language');
if (!document.title) wrong.push('no title');
for (const mark of ['main', 'header', 'nav']) {
  if (!document.querySelector(mark)) wrong.push('no ' + mark);
}
if (document.querySelectorAll('main').length !== 1) wrong.push('not one main');
for (const field of document.querySelectorAll('input:not([type=hidden]), select, textarea, progress')) {
  const labelled = field.labels?.length || field.getAttribute('aria-label') || field.getAttribute('aria-labelledby');
  if (!labelled) tell('no label', field);
}
for (const one of document.querySelectorAll('a[href], button')) if (seen(one) && !name(one)) tell('no name', one);
for (const svg of document.querySelectorAll('svg[role=img]')) if (!svg.getAttribute('aria-label')) tell('no words', svg);
for (const nav of document.querySelectorAll('nav')) if (!nav.getAttribute('aria-label')) tell('no label', nav);
let last = 0;
const heads = [...document.querySelectorAll('h1, h2, h3, h4')].filter((h) => !h.closest('dialog'));
for (const head of heads) {
  const level = +head.tagName[1];
  if (level > last + 1) tell('skips a level', head);
  last = level;
}
if (document.querySelectorAll('h1').length !== 1) wrong.push('not one h1');
const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push('twice: ' + id);
for (const e of document.querySelectorAll('[aria-labelledby], [aria-describedby]')) {
  for (const id of ((e.getAttribute('aria-labelledby') || '') + ' ' + (e.getAttribute('aria-describedby') || '')).split(' ')) {
    if (id && !document.getElementById(id) && !e.matches('dialog')) tell('names nothing (' + id + ')', e);
  }
}
return wrong;
"#;

pub(crate) async fn every_page_can_be_read_out(browser: &Browser) {
    let (rig, _worker) = full().await;
    act_as(browser, &rig, "eve", "ops");
    for path in PAGES {
        browser.go(&page(&rig, path));
        let lacking = browser.script(LACKING, &[]);
        assert_eq!(lacking, json!([]), "{path}");
    }
    // What is lacking would be told.
    let spoil = "document.querySelector('main').append(document.createElement('input'), \
                 document.createElement('h1'))";
    browser.script(spoil, &[]);
    let lacking = browser.script(LACKING, &[]);
    assert_eq!(lacking.as_array().map(Vec::len), Some(2), "{lacking}");
    clean(browser);
}

/// Texts whose contrast is below what WCAG AA asks for.
const PALE: &str = r#"
const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
const over = (top, below) => {
  const a = top.length > 3 ? top[3] : 1;
  return [0, 1, 2].map((i) => top[i] * a + below[i] * (1 - a));
};
const ground = (e) => {
  const layers = [];
  for (let at = e; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
};
const light = (c) => {
  const [r, g, b] = c.map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
  return .2126 * r + .7152 * g + .0722 * b;
};
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
const pale = [];
const judge = (text, style, fore, back) => {
  const size = parseFloat(style.fontSize), bold = +style.fontWeight >= 700;
  const least = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
  const found = ratio(over(fore, back), back);
  if (found < least) pale.push(found.toFixed(2) + ': ' + text.slice(0, 60));
};
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walk.nextNode(); node; node = walk.nextNode()) {
  const e = node.parentElement, text = node.textContent.trim();
  if (!text || !e.getClientRects().length || e.closest('.hidden, .skip, dialog:not([open]), title, :disabled')) continue;
  const style = getComputedStyle(e);
  if (style.visibility === 'hidden') continue;
  if (e instanceof SVGElement) {
    const box = e.closest('.node')?.querySelector('.box');
    const fill = box && parse(getComputedStyle(box).fill);
    const below = ground(e.closest('svg').parentElement);
    judge(text, style, parse(style.fill), fill && fill.length ? over(fill, below) : below);
  } else {
    judge(text, style, parse(style.color), ground(e));
  }
}
return [...new Set(pale)];
"#;

pub(crate) async fn text_has_contrast_in_both_lights(browser: &Browser) {
    let (rig, _worker) = full().await;
    act_as(browser, &rig, "eve", "ops");
    let mut grounds = Vec::new();
    for light in ["light", "dark"] {
        browser.prefers(light);
        for path in PAGES {
            browser.go(&page(&rig, path));
            // What has just changed is coloured for a moment; a still page is looked at.
            browser.script("for (const a of document.getAnimations()) a.finish()", &[]);
            let pale = browser.script(PALE, &[]);
            assert_eq!(pale, json!([]), "{light} {path}");
        }
        grounds.push(browser.script(
            "return getComputedStyle(document.body).backgroundColor",
            &[],
        ));
    }
    assert_ne!(grounds[0], grounds[1], "there is one light only");
    // What is pale would be told.
    browser.script("document.querySelector('h1').style.color = '#333'", &[]);
    let pale = browser.script(PALE, &[]);
    assert_eq!(pale.as_array().map(Vec::len), Some(1), "{pale}");
    clean(browser);
}
