//! What a measurement needs of a workload, whoever feels its gaps.

use vmnoise_events::{Event, Tally};
use vmnoise_tracer::Tracer;
use vmnoise_workload::microvm::Microvm;
use vmnoise_workload::spin::Spin;
use vmnoise_workload::timer::Timer;

/// A prepared workload; an observed one asks the probes, which are attached by then.
pub trait Poller {
    /// Lets all threads go; those of our own end by themselves at `end_tsc`.
    fn start(&mut self, tracer: Option<&Tracer>, end_tsc: Option<u64>) -> anyhow::Result<()>;
    /// Threads of our own may go on until then without being asked for it again.
    fn renew(&mut self, until_tsc: u64);
    /// Hands out every gap or activation recorded since the last call.
    fn drain(&mut self, sink: &mut dyn FnMut(Event));
    /// Counters of each CPU, cumulative; what only the host can tell is `None`.
    fn tallies(&self, tracer: Option<&Tracer>) -> Vec<Tally>;
    /// Gaps or activations that found no room.
    fn dropped(&self) -> u64;
    /// How often the clock went back.
    fn clock_steps_back(&self) -> u64;
    /// Whether any thread has not reached its end.
    fn running(&self) -> bool;
    /// Why one ended early, if one did.
    fn failure(&self) -> Option<String>;
    /// Asks all threads to end.
    fn stop(&mut self);
}

/// The workloads of our own have the same hands; the compiler checks that it stays so.
macro_rules! poller {
    ($workload:ty, $felt:path) => {
        impl Poller for $workload {
            fn start(
                &mut self,
                _tracer: Option<&Tracer>,
                end_tsc: Option<u64>,
            ) -> anyhow::Result<()> {
                Ok(<$workload>::start(self, end_tsc)?)
            }

            fn renew(&mut self, until_tsc: u64) {
                <$workload>::renew(self, until_tsc);
            }

            fn drain(&mut self, sink: &mut dyn FnMut(Event)) {
                <$workload>::drain(self, &mut |felt| sink($felt(felt)));
            }

            fn tallies(&self, _tracer: Option<&Tracer>) -> Vec<Tally> {
                <$workload>::tallies(self)
            }

            fn dropped(&self) -> u64 {
                <$workload>::dropped(self)
            }

            fn clock_steps_back(&self) -> u64 {
                <$workload>::clock_steps_back(self)
            }

            fn running(&self) -> bool {
                <$workload>::running(self)
            }

            fn failure(&self) -> Option<String> {
                <$workload>::failure(self).map(|error| error.to_string())
            }

            fn stop(&mut self) {
                <$workload>::stop(self);
            }
        }
    };
}

poller!(Microvm, Event::Gap);
poller!(Spin, Event::Gap);
poller!(Timer, Event::Activation);
