//! Test with a thousand hosts.

mod files {
    use std::time::Instant;

    use nix::sys::resource::{UsageWho, getrusage};

    use crate::fleet_page::{PlantedFleet, assert_finds_what_is_planted, page};

    #[test]
    fn a_thousand_hosts_are_a_page_with_who_is_planted_first() {
        let fleet = PlantedFleet::planted(1_000, 8);
        let begun = Instant::now();
        let folder = fleet.data_set();
        let largest_kib = || getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
        println!(
            "{fleet:?}: written in {:?}, {} KiB",
            begun.elapsed(),
            largest_kib()
        );
        let begun = Instant::now();
        let page = page(&folder);
        // Peak memory of the largest process so far.
        println!(
            "a page of {} bytes in {:?}, {} KiB at most",
            page.len(),
            begun.elapsed(),
            largest_kib()
        );
        assert_finds_what_is_planted(&page, fleet);
    }
}
