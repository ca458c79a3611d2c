//! The verdict of a copy names its limit, and the parts of the path agree with it: each limit once, made on purpose. `cargo xtask lab diagnose` tries more of
//! each, without a time limit.

use haul_e2e::diagnose::{Ruling, everyday, everyday_limits};
use haul_e2e::is_root_or_skip;

macro_rules! limits {
    ($($test:ident: $limit:literal,)*) => {
        $(
            #[test]
            fn $test() {
                is_named($limit);
            }
        )*

        #[test]
        fn no_limit_is_forgotten() {
            assert_eq!(everyday_limits(), [$($limit),*]);
        }
    };
}

limits! {
    a_slow_disk_at_the_source: "source-disk",
    a_slow_disk_at_the_target: "target-disk",
    little_processor_time_at_the_source: "source-cpu",
    little_processor_time_at_the_target: "target-cpu",
    a_slow_link: "link",
    a_policer: "policer",
    losses: "loss",
    a_small_buffer_at_the_sender: "sender-buffer",
    a_small_window_at_the_receiver: "receiver-window",
    a_limit_of_the_users_own: "own-rate",
    a_slow_disk_at_the_source_beside_other_programs: "busy-source-disk",
    little_processor_time_at_the_source_beside_other_programs: "busy-source-cpu",
    a_slow_link_beside_other_programs: "busy-network",
    little_processor_time_at_the_target_beside_other_programs: "busy-target-cpu",
    a_slow_disk_at_the_target_beside_other_programs: "busy-target-disk",
    small_files_at_a_slow_source: "source-names",
    small_files_at_a_slow_target: "target-names",
    a_slow_program_at_the_source: "source-program",
    a_slow_program_at_the_target: "target-program",
}

#[track_caller]
fn is_named(limit: &str) {
    if !is_root_or_skip("making a limit") {
        return;
    }
    let outcome = everyday(limit).expect("there is such a case");
    match &outcome.ruling {
        Ruling::Right => println!("{}", outcome.line()),
        Ruling::Skipped(why) => println!("SKIPPED: {why}"),
        Ruling::Wrong | Ruling::Failed(_) => panic!("{}\n{:#}", outcome.line(), outcome.summary),
    }
}
