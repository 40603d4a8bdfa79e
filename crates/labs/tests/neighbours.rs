//! Two guests and their host in one lab: each guest's recordings join with its own VM, and with
//! nothing else that looks like it. No wrong pair is accepted, and no true pair refused.

use std::sync::LazyLock;

use crate::neighbours_judge::Judge;
use vmnoise_labs::bed::{DebianKernel, DebianSuite};
use vmnoise_labs::neighbours::{NeighbourRecordings, Neighbours};

/// The recordings of one boot, which all tests share.
static RECORDED: LazyLock<NeighbourRecordings> = LazyLock::new(|| {
    let neighbours = Neighbours::of(DebianKernel::Cloud, DebianSuite::Own).unwrap();
    neighbours.virtual_time(0).record().unwrap()
});

/// Asserts that recordings of one lab do not join with those of another, even if a clock puts one
/// over the other.
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

        /// The same guests and commands, on a host of two CPUs.
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
