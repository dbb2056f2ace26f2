//! Every example has its expected trajectory.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps an error has failed"
)]

mod copy;

use stateway_examples::catalogue::EXAMPLES;
use stateway_examples::stage::run;

async fn comes_to_what_is_written_down(name: &str) {
    let example = EXAMPLES.iter().find(|example| example.name == name);
    let example = example.unwrap();
    let trajectory = run(example, &|_| {}).await.unwrap();
    assert_eq!(trajectory, example.golden);
}

macro_rules! examples {
    ($($test:ident = $name:literal;)+) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            comes_to_what_is_written_down($name).await;
        }
    )+

        #[test]
        fn each_has_its_test() {
            let names: Vec<_> = EXAMPLES.iter().map(|example| example.name).collect();
            assert_eq!(names, [$($name),+]);
        }
    };
}

examples! {
    an_order_is_undone = "order-saga";
    a_release_waits_for_a_person = "release-approval";
    images_are_resized_side_by_side = "fan-out";
    an_agent_corrects_its_answer = "agent-correction";
    a_nightly_run_has_children = "nightly";
}
