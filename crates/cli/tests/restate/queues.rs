//! A server with vqueues on, which hides long back-offs behind the word `ready`.

use crate::lab::Lab;

pub(crate) fn hidden_back_off(lab: &mut Lab) {
    let lab = Lab::new(lab.peers(), "experimental-enable-vqueues = true");
    lab.tell("hidden", "fail");
    let name = lab.start("Lab/charge", r#""hidden""#);
    let watch = lab.watch(&name);
    let shown = lab.sees_watched(&watch, &name, "backing-off", None);
    assert_eq!(shown["native_state"], "ready", "{shown:#}");
    assert_eq!(shown["mapping_basis"], "DERIVED");
    assert!(shown["retry"]["next_attempt_time"].is_string(), "{shown:#}");
    let message = shown["retry"]["last_error"]["message"].as_str().unwrap();
    assert!(message.contains("told to fail"), "{shown:#}");
    lab.tell("hidden", "go");
    lab.run(&["retry-now", &name]).exits(0);
    lab.sees(&name, "succeeded", None);
}
