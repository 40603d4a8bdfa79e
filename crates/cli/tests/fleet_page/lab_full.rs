//! A thousand hosts.

mod files {
    use std::time::Instant;

    use crate::fleet_page::{Fleet, assert_finds_what_is_planted, page};

    #[test]
    fn a_thousand_hosts_are_a_page_with_who_is_planted_first() {
        let fleet = Fleet::planted(1_000, 8);
        let begun = Instant::now();
        let folder = fleet.data_set();
        println!("{fleet:?}: written in {:?}", begun.elapsed());
        let begun = Instant::now();
        let page = page(&folder);
        println!("a page of {} bytes in {:?}", page.len(), begun.elapsed());
        assert_finds_what_is_planted(&page, fleet);
    }
}
