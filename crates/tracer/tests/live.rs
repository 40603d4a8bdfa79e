//! The tracer on this machine: real events of known causes, and nothing left behind.

#[cfg(test)]
mod root {
    use std::{
        collections::HashSet,
        fs,
        sync::{
            Arc, Mutex, MutexGuard, PoisonError,
            atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
        },
        thread::{self, JoinHandle},
        time::{Duration, Instant},
    };

    use libbpf_rs::query::ProgInfoIter;
    use rustix::thread::{CpuSet, gettid, sched_setaffinity};
    use vmnoise_events::{Activity, ActivityKind, Event, LossKind};
    use vmnoise_tracer::{Tracer, host::Host};

    /// Tests that look at the same CPU, or at all programs, must not meet.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time a thread of this process has had on a CPU, by the scheduler's own count
    /// (Documentation/scheduler/sched-stats.rst).
    fn on_cpu_ns(tid: u32) -> u64 {
        let text = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }

    /// A CPU to measure and another one to drain from.
    fn two_cpus() -> (u32, u32) {
        let allowed = Host::here().allowed_cpus().unwrap();
        assert!(
            allowed.len() > 1,
            "these tests need two CPUs, and may use {allowed:?}"
        );
        (allowed[allowed.len() - 1], allowed[0])
    }

    fn pin(cpu: u32) {
        let mut set = CpuSet::new();
        set.set(cpu as usize);
        sched_setaffinity(None, &set).unwrap();
    }

    fn own_tid() -> u32 {
        gettid().as_raw_nonzero().get() as u32
    }

    /// A thread that works a little and sleeps a little, pinned to one CPU.
    struct Disturber {
        stop: Arc<AtomicBool>,
        tid: u32,
        thread: Option<JoinHandle<()>>,
    }

    impl Disturber {
        fn on(cpu: u32, name: &str) -> Disturber {
            let stop = Arc::new(AtomicBool::new(false));
            let tid = Arc::new(AtomicU32::new(0));
            let (stopped, told) = (Arc::clone(&stop), Arc::clone(&tid));
            let work = move || {
                pin(cpu);
                told.store(own_tid(), Relaxed);
                while !stopped.load(Relaxed) {
                    let until = Instant::now() + Duration::from_millis(2);
                    while Instant::now() < until {}
                    thread::sleep(Duration::from_millis(3));
                }
            };
            let thread = thread::Builder::new()
                .name(name.to_owned())
                .spawn(work)
                .unwrap();
            while tid.load(Relaxed) == 0 {
                thread::yield_now();
            }
            let tid = tid.load(Relaxed);
            Disturber {
                stop,
                tid,
                thread: Some(thread),
            }
        }
    }

    impl Drop for Disturber {
        fn drop(&mut self) {
            self.stop.store(true, Relaxed);
            self.thread.take().map(JoinHandle::join);
        }
    }

    /// What a tracer has told so far.
    #[derive(Default)]
    struct Told {
        names: Vec<String>,
        activities: Vec<Activity>,
    }

    impl Told {
        fn drain(&mut self, tracer: &mut Tracer) {
            tracer
                .drain(&mut |event| match event {
                    Event::Source(source) => {
                        assert_eq!(source.id.0 as usize, self.names.len(), "ids have no holes");
                        self.names.push(source.name);
                    }
                    Event::Activity(activity) => self.activities.push(activity),
                    other => panic!("a tracer says nothing of {other:?}"),
                })
                .unwrap();
        }

        fn drain_for(&mut self, tracer: &mut Tracer, time: Duration) {
            let until = Instant::now() + time;
            while Instant::now() < until {
                thread::sleep(Duration::from_millis(50));
                self.drain(tracer);
            }
        }

        fn named<'a>(
            &'a self,
            kind: ActivityKind,
            name: &'a str,
        ) -> impl Iterator<Item = &'a Activity> {
            self.activities
                .iter()
                .filter(move |it| it.kind == kind && self.names[it.source.0 as usize] == name)
        }
    }

    fn loss(tracer: &Tracer, kind: LossKind) -> u64 {
        tracer
            .losses()
            .into_iter()
            .find(|loss| loss.kind == kind)
            .unwrap()
            .count
    }

    #[test]
    fn known_causes_are_told_within_a_second() {
        let _alone = alone();
        let (cpu, other) = two_cpus();
        pin(other);
        let disturber = Disturber::on(cpu, "known-cause");
        let mut tracer = Tracer::load(&[cpu]).unwrap();
        tracer.attach().unwrap();
        let mut told = Told::default();
        told.drain_for(&mut tracer, Duration::from_secs(1));
        let thread = format!("known-cause:{}", disturber.tid);
        assert!(
            told.named(ActivityKind::Thread, &thread).count() > 20,
            "{:?}",
            told.names
        );
        let timer = if cfg!(target_arch = "x86_64") {
            "local_timer:236"
        } else {
            "arch_timer"
        };
        assert!(
            told.names.iter().any(|name| name.starts_with(timer)),
            "{:?}",
            told.names
        );
        assert!(
            told.activities
                .iter()
                .any(|it| it.kind == ActivityKind::Softirq)
        );
        for activity in &told.activities {
            assert_eq!(activity.cpu, cpu, "{activity:?}");
            assert!(
                activity.start_mono_ns < activity.end_mono_ns,
                "{activity:?}"
            );
        }
        for kind in [LossKind::RingFull, LossKind::Undecodable] {
            assert_eq!(loss(&tracer, kind), 0, "{:?}", tracer.losses());
        }
        // A kernel may keep some tasks untraced: then a switch away from one is missing.
        let unpaired = loss(&tracer, LossKind::Unpaired) as usize;
        assert!(
            unpaired * 20 < told.activities.len(),
            "{:?}",
            tracer.losses()
        );
    }

    #[test]
    fn a_threads_time_is_what_the_scheduler_counts() {
        let _alone = alone();
        let (cpu, other) = two_cpus();
        pin(other);
        let disturber = Disturber::on(cpu, "counted");
        let mut tracer = Tracer::load(&[cpu]).unwrap();
        tracer.attach().unwrap();
        let stat = || on_cpu_ns(disturber.tid);
        let mut told = Told::default();
        told.drain_for(&mut tracer, Duration::from_millis(100));
        let (before, mut first_ns) = (stat(), 0);
        told.drain(&mut tracer);
        let name = format!("counted:{}", disturber.tid);
        for activity in told.named(ActivityKind::Thread, &name) {
            first_ns += activity.end_mono_ns - activity.start_mono_ns;
        }
        told.drain_for(&mut tracer, Duration::from_secs(2));
        let after = stat();
        told.drain(&mut tracer);
        let told_ns: u64 = told
            .named(ActivityKind::Thread, &name)
            .map(|it| it.end_mono_ns - it.start_mono_ns)
            .sum::<u64>()
            - first_ns;
        let counted_ns = after - before;
        // One turn may be open at either reading; the scheduler's clock leaves out
        // interrupts and stolen time where it accounts for them, so it may say less.
        let turn_ns = 20_000_000;
        assert!(
            told_ns + turn_ns >= counted_ns,
            "told {told_ns}, counted {counted_ns}"
        );
    }

    #[test]
    fn a_watched_thread_is_no_activity_and_its_sleeps_are_named() {
        let _alone = alone();
        let (cpu, other) = two_cpus();
        pin(other);
        let disturber = Disturber::on(cpu, "watched");
        let mut tracer = Tracer::load(&[cpu]).unwrap();
        tracer.watch(cpu, disturber.tid).unwrap();
        tracer.attach().unwrap();
        assert!(tracer.watch(cpu, disturber.tid).is_err(), "too late");
        let mut told = Told::default();
        told.drain_for(&mut tracer, Duration::from_secs(1));
        let own = format!("watched:{}", disturber.tid);
        assert_eq!(told.named(ActivityKind::Thread, &own).count(), 0);
        // It sleeps 3 ms at a time, and the timer interrupt wakes it.
        let slept: Vec<u64> = told
            .named(ActivityKind::Blocked, "local_timer:236")
            .map(|it| it.end_mono_ns - it.start_mono_ns)
            .collect();
        assert!(slept.len() > 20, "{:?}", told.names);
        let whole = slept.iter().filter(|&&ns| ns >= 2_900_000).count();
        assert!(whole * 10 >= slept.len() * 9, "{slept:?}");
    }

    #[test]
    fn draining_is_no_noise_on_the_measured_cpu() {
        let _alone = alone();
        let (cpu, other) = two_cpus();
        pin(other);
        let mut tracer = Tracer::load(&[cpu]).unwrap();
        tracer.attach().unwrap();
        let mut told = Told::default();
        told.drain_for(&mut tracer, Duration::from_millis(200));
        told.activities.clear();
        told.drain_for(&mut tracer, Duration::from_secs(1));
        let own = format!(":{}", own_tid());
        let ours = told
            .activities
            .iter()
            .filter(|it| told.names[it.source.0 as usize].ends_with(&own))
            .count();
        assert_eq!(ours, 0, "the draining thread shows on the measured CPU");
        // A wake-up per record would be an interrupt work item per record.
        let wakes = told.named(ActivityKind::Irq, "irq_work:246").count();
        assert!(
            wakes * 10 < told.activities.len().max(100),
            "{wakes} irq_work of ours"
        );
    }

    /// Ids of the BPF programs this process holds open.
    fn held_programs() -> HashSet<u32> {
        fs::read_dir("/proc/self/fdinfo")
            .unwrap()
            .filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok())
            .filter_map(|info| {
                let id = info
                    .lines()
                    .find_map(|line| line.strip_prefix("prog_id:"))?;
                id.trim().parse().ok()
            })
            .collect()
    }

    #[test]
    fn after_drop_no_program_remains() {
        let _alone = alone();
        let (cpu, _) = two_cpus();
        let mut tracer = Tracer::load(&[cpu]).unwrap();
        tracer.attach().unwrap();
        let held = held_programs();
        assert!(held.len() > 10, "{held:?}");
        drop(tracer);
        // The kernel frees programs after a grace period.
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            let left = ProgInfoIter::default()
                .filter(|info| held.contains(&info.id))
                .count();
            if left == 0 {
                break;
            }
            assert!(
                Instant::now() < until,
                "{left} of {} programs remain",
                held.len()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn own_cost_is_accounted() {
        let _alone = alone();
        let (cpu, other) = two_cpus();
        pin(other);
        let _disturber = Disturber::on(cpu, "costly");
        let mut tracer = Tracer::load(&[cpu]).unwrap();
        assert_eq!(
            tracer.own_cost(),
            None,
            "nothing is accounted before attaching"
        );
        tracer.attach().unwrap();
        thread::sleep(Duration::from_millis(500));
        let cost = tracer.own_cost().unwrap();
        assert!(cost.bpf_runs > 100, "{cost:?}");
        let each_ns = cost.bpf_ns / cost.bpf_runs;
        assert!((10..100_000).contains(&each_ns), "{cost:?}");
    }

    #[test]
    fn exits_of_a_cpu_without_a_vcpu_are_unknown_or_none() {
        let _alone = alone();
        let (cpu, other) = two_cpus();
        let mut tracer = Tracer::load(&[cpu]).unwrap();
        tracer.attach().unwrap();
        assert_eq!(tracer.light_exits(cpu), None, "kvm_exit has not fired");
        if tracer.witnesses().kvm_run {
            assert_eq!(tracer.heavy_exits(cpu), Some(0));
        }
        assert_eq!(tracer.heavy_exits(other), None, "not measured");
        assert!(tracer.watch(other, 1).is_err(), "not measured");
    }

    #[test]
    fn the_steal_clock_of_this_machine_never_runs_backwards() {
        let _alone = alone();
        let (cpu, other) = two_cpus();
        let tracer = Tracer::load(&[cpu]).unwrap();
        let is_guest = Host::here().hypervisor().is_some();
        let readings: Vec<_> = (0..50).map(|_| tracer.outer_steal_ns(cpu)).collect();
        assert!(readings.is_sorted(), "{readings:?}");
        assert!(is_guest || readings == [None; 50]);
        let rungs = tracer.rungs();
        let rung = rungs
            .iter()
            .find(|rung| rung.probe == "steal clock of this machine")
            .unwrap();
        if rung.rung.contains("BTF") {
            // Both count since boot; the column moves at ticks and may lag or lose some.
            let reading_ns = tracer.outer_steal_ns(other).unwrap();
            let column_ns = proc_stat_steal_ns(other);
            assert!(
                reading_ns + 1_000_000_000 > column_ns,
                "{reading_ns} {column_ns}"
            );
        }
    }

    fn proc_stat_steal_ns(cpu: u32) -> u64 {
        let stat = fs::read_to_string("/proc/stat").unwrap();
        let label = format!("cpu{cpu} ");
        let line = stat.lines().find(|line| line.starts_with(&label)).unwrap();
        line.split_ascii_whitespace()
            .nth(8)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            * 10_000_000
    }
}
