//! Tests two guests and their host in one lab. Each guest's recordings must join with its own VM,
//! and with no other VM that is similar. No wrong pair may be accepted, and no true pair may be
//! refused.

use std::sync::LazyLock;

use crate::neighbours_judge::Judge;
use vmnoise_testbed::bed::{DebianKernel, DebianSuite};
use vmnoise_testbed::neighbours::{NeighbourRecordings, Neighbours};

/// Recordings of one boot of the lab. All tests use them.
static RECORDED: LazyLock<NeighbourRecordings> = LazyLock::new(|| {
    let neighbours = Neighbours::of(DebianKernel::Cloud, DebianSuite::Own).unwrap();
    neighbours.virtual_time(0).record().unwrap()
});

/// Asserts that recordings of one lab do not join with recordings of another lab, even if a changed
/// clock makes them overlap in time.
fn assert_strangers(stranger: &Neighbours) {
    let stranger = stranger.record().unwrap();
    let (own, stranger) = (Judge::of(RECORDED.folder()), Judge::of(stranger.folder()));
    stranger.assert_true_pairs();
    own.assert_strangers_are_refused(&stranger);
    stranger.assert_strangers_are_refused(&own);
}

mod lab_full {
    use super::*;

    mod own_suite {
        use super::*;

        #[test]
        fn each_guest_finds_its_own_vm_and_is_refused_any_other() {
            let judge = Judge::of(RECORDED.folder());
            judge.assert_true_pairs();
            judge.assert_neighbours_are_refused();
            judge.assert_crossed_are_refused();
            judge.assert_other_clocks_are_refused();
        }

        /// The other lab has the same guests and commands, but its host has two CPUs.
        #[test]
        fn a_host_of_two_cpus_is_refused() {
            let neighbours = Neighbours::of(DebianKernel::Cloud, DebianSuite::Own).unwrap();
            assert_strangers(&neighbours.virtual_time(0).cpus(2));
        }
    }

    mod trixie {
        use super::*;

        #[test]
        fn a_host_of_another_kernel_is_refused() {
            let neighbours = Neighbours::of(DebianKernel::Cloud, DebianSuite::Trixie).unwrap();
            assert_strangers(&neighbours.virtual_time(0));
        }
    }

    mod trixie_backports {
        use super::*;

        #[test]
        fn a_host_of_a_newer_kernel_is_refused() {
            let neighbours =
                Neighbours::of(DebianKernel::Cloud, DebianSuite::TrixieBackports).unwrap();
            assert_strangers(&neighbours.virtual_time(0));
        }
    }
}
