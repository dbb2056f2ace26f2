//! The service's and the server's death in the middle.

use crate::lab::Lab;
use crate::process::eventually;

pub(crate) fn of_the_service(lab: &mut Lab) {
    lab.tell("orphan", "hold");
    let name = lab.start("Lab/walk", r#""orphan""#);
    let watch = lab.watch(&name);
    lab.sees_watched(&watch, &name, "running", None);
    lab.service.kill();
    let shown = lab.sees_watched(&watch, &name, "backing-off", None);
    let error = &shown["retry"]["last_error"];
    assert_eq!(error["category"], "external", "{shown:#}");
    lab.restart_service();
    lab.run(&["retry-now", &name]).exits(0);
    lab.sees(&name, "running", None);
    lab.tell("orphan", "go");
    lab.sees(&name, "waiting", Some("AWAITING_INPUT"));
    lab.run(&["cancel", &name]).exits(0);
    lab.sees(&name, "failed", Some("CANCELLED"));
}

pub(crate) fn of_the_server(lab: &mut Lab) {
    lab.tell("survivor", "hold");
    let running = lab.start("Lab/walk", r#""survivor""#);
    let watch = lab.watch(&running);
    lab.sees_watched(&watch, &running, "running", None);
    let waiting = lab.start("Lab/walk", r#""sleeper""#);
    lab.sees(&waiting, "waiting", Some("AWAITING_INPUT"));

    lab.server.kill();
    let dead = lab.run(&["get", &running, "--timeout", "2s"]);
    assert!([6, 7].contains(&dead.code), "{dead:?}");

    lab.restart_server();
    // The gateway lets the first call through when its breaker has cooled down.
    eventually("the gateway answers again", || {
        let got = lab.run(&["get", &waiting, "-o", "json"]);
        (got.code == 0).then_some(())
    });
    lab.sees(&waiting, "waiting", Some("AWAITING_INPUT"));
    let shown = lab.sees(&running, "running", None);
    assert!(
        shown["retry"]["attempt"].as_u64().unwrap() >= 1,
        "{shown:#}"
    );
    lab.tell("survivor", "go");
    // The watch that was open all the while tells it too.
    lab.sees_watched(&watch, &running, "waiting", Some("AWAITING_INPUT"));
    for name in [&running, &waiting] {
        lab.run(&["cancel", name]).exits(0);
        lab.sees(name, "failed", Some("CANCELLED"));
    }
}
