//! Limits of crates that do not know each other, and must fit together.

use std::time::Duration;

use berth_agent::Backoff;
use berth_controller::GRACE_MIN;

#[test]
fn an_agent_tries_twice_in_the_time_that_a_leader_waits_for_it() {
    for servers in [1, 3, 5] {
        let mut backoff = Backoff::default();
        // The longest pause that it may come to.
        let longest = (0..300).map(|_| backoff.next_of(servers, u64::MAX)).max().unwrap();
        let round = longest * u32::try_from(servers).unwrap();
        // What is beyond half of it is the shortest pause, which is added to each.
        let allowed = GRACE_MIN / 2 + Duration::from_millis(50) * u32::try_from(servers).unwrap();
        assert!(round <= allowed, "{servers} servers are tried in {round:?}, a leader waits {GRACE_MIN:?}");
    }
}
