//! `stateway completions`.

use crate::binary::run;

#[test]
fn each_shell_gets_a_script_that_knows_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).exits(0).out;
        assert!(
            script.contains("stateway") && script.contains("retry-now"),
            "{shell}"
        );
    }
}

#[test]
fn another_shell_is_a_mistake() {
    run(&["completions", "tcsh"]).exits(2);
}
