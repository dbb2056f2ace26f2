//! `stateway completions`.

use crate::binary::{finish, run};

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

/// What bash offers for a line that ends with an unfinished word.
fn offered(line: &[&str]) -> Vec<String> {
    let script = run(&["completions", "bash"]).exits(0).out;
    let last = line.len() - 1;
    let before = line.get(last.wrapping_sub(1)).unwrap_or(&"");
    let test = format!(
        "{script}\nCOMP_WORDS=({}); COMP_CWORD={last}\n_stateway stateway '{}' '{before}'\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        line.join(" "),
        line[last],
    );
    let mut bash = std::process::Command::new("bash");
    let answer = finish(bash.args(["--norc", "-s"]), &test).exits(0);
    answer.out.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    assert_eq!(offered(&["stateway", "wat"]), ["watch"]);
    assert_eq!(
        offered(&["stateway", "retry-"]),
        ["retry-now", "retry-from"]
    );
    assert_eq!(offered(&["stateway", "approvals", "gr"]), ["grant"]);
    assert_eq!(offered(&["stateway", "start", "--req"]), ["--request-id"]);
    let formats = offered(&["stateway", "list", "--output", ""]);
    assert_eq!(formats, ["table", "json"]);
    let shells = offered(&["stateway", "completions", ""]);
    assert!(shells.contains(&"zsh".to_owned()), "{shells:?}");
}
