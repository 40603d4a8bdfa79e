//! Tests `vmnoise serve` for a long time with many VMs that run rarely. Some VMs end while others
//! start. For each VM that stays, the sums in the metrics must cover the VM's whole time.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use vmnoise_testbed::binary;
use vmnoise_testbed::footprint::resident_kb;
use vmnoise_testbed::metrics::{Metrics, scrape};

use crate::{GROWTH_KB, Memory};

/// Number of VMs at the same time, with two vCPUs each.
const VMS: usize = 100;
const VCPUS_EACH: f64 = 2.0;
/// Number of VMs that stay to the end.
const STAY: usize = 50;
/// Time for which one VM runs before the next VM runs. Each VM runs for 1 % of the time.
const TURN: Duration = Duration::from_millis(20);
/// Time for which a VM runs first. `vmnoise serve` finds a vCPU only if a walk finds it inside
/// KVM_RUN, and there is one walk per second.
const FIRST_TURN: Duration = Duration::from_millis(1_500);
/// Time after which one VM ends and another starts.
const CHANGE: Duration = Duration::from_secs(5);

/// A running program. It ends when this value is dropped.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Running> {
        let command = command.stdin(Stdio::null()).stderr(Stdio::null());
        Ok(Running(command.spawn()?))
    }

    /// Starts a VM that would use all CPU time. Signals stop it and let it run.
    fn vm() -> Result<Running> {
        let mut nice = Command::new("nice");
        nice.args(["-n", "19"]).arg(binary());
        nice.args("microvm --exercise cpuid --cpus 0,1 --duration 30d".split(' '));
        Running::start(nice.stdout(Stdio::null())).context("starting a VM")
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.0), signal).context("a VM has ended")
    }

    /// Returns the name of the VM in the metrics.
    fn name(&self) -> String {
        format!("vmnoise:{}", self.0.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sums of a VM's vCPUs in the metrics, and the times before and after the metrics were read.
struct Held {
    asked: Instant,
    answered: Instant,
    seconds: f64,
    unseen: f64,
    /// Upper bound for the time that is in no sum yet, seconds.
    waiting: f64,
}

impl Held {
    fn of(metrics: &Metrics, vm: &str, (asked, answered): (Instant, Instant)) -> Held {
        let of = |family: &str| {
            let series = metrics.beginning(&format!("vmnoise_vcpu_{family}{{vm=\"{vm}\""));
            series.iter().map(|(_, value)| value).sum::<f64>()
        };
        Held {
            asked,
            answered,
            seconds: of("lost_seconds_total") + of("time_seconds_total"),
            unseen: metrics.of(&format!(
                "vmnoise_vcpu_lost_seconds_total{{vm=\"{vm}\",share=\"unseen\"}}"
            )),
            waiting: of("waiting_seconds") * VCPUS_EACH,
        }
    }
}

/// Lets each VM run for [`TURN`] until the time `until`, one after the other. The last VM runs all
/// the time. Returns the number of VMs that were started.
fn run(vms: &mut VecDeque<Running>, changing: bool, until: Instant) -> Result<usize> {
    let (mut next, mut came, mut changed) = (0, 0, Instant::now());
    while Instant::now() < until {
        if changing && changed.elapsed() > CHANGE {
            // The VMs that stay are at the front.
            vms.remove(STAY);
            vms.push_back(Running::vm()?);
            (came, changed) = (came + 1, Instant::now());
        }
        next = (next + 1) % vms.len();
        vms[next].signal(Signal::CONT)?;
        sleep(TURN);
        if next + 1 < vms.len() {
            vms[next].signal(Signal::STOP)?;
        }
    }
    Ok(came)
}

pub fn soak(length: Duration) -> Result<()> {
    let program = binary().with_file_name("vmnoise-serve");
    let mut serve = Command::new(&program);
    serve.args(["--listen", "127.0.0.1:0"]);
    let mut serve = Running::start(serve.stdout(Stdio::piped()))
        .with_context(|| format!("starting {}", program.display()))?;
    let mut said = String::new();
    let stdout = serve.0.stdout.take().context("its stdout")?;
    BufReader::new(stdout).read_line(&mut said)?;
    let host = said.split("://").nth(1).and_then(|it| it.split('/').next());
    let host = host.with_context(|| format!("no address: {said}"))?;
    let mut answer_kb = 0;
    let mut look = || -> Result<(Metrics, (Instant, Instant))> {
        let asked = Instant::now();
        let answer = scrape(host)?;
        answer_kb = answer_kb.max(answer.len() as u64 / 1024);
        Ok((Metrics::of_text(&answer), (asked, Instant::now())))
    };

    let mut vms = VecDeque::new();
    for _ in 0..VMS {
        vms.push_back(Running::vm()?);
        run(&mut vms, false, Instant::now() + FIRST_TURN)?;
    }
    let begin = Instant::now();
    let (mut memory, mut came) = (Memory::default(), 0);
    run(&mut vms, false, begin + TURN * 2 * VMS as u32)?;
    let (first, at) = look()?;
    let mut names: Vec<String> = vms.iter().take(STAY).map(Running::name).collect();
    names.retain(|vm| first.of(&format!("vmnoise_vcpus{{vm=\"{vm}\"}}")) == VCPUS_EACH);
    ensure!(
        names.len() > STAY / 2,
        "{} VMs were found whole",
        names.len()
    );
    let first: Vec<Held> = names.iter().map(|vm| Held::of(&first, vm, at)).collect();
    while begin.elapsed() < length {
        came += run(&mut vms, true, Instant::now() + CHANGE * 2)?;
        look()?;
        memory.is_now(resident_kb(serve.0.id())?, begin.elapsed() > length / 2);
    }
    let (last, at) = look()?;
    let (mut worst, mut unseen) = (0.0_f64, 0.0);
    for (vm, first) in names.iter().zip(&first) {
        let last = Held::of(&last, vm, at);
        let least = (last.asked - first.answered).as_secs_f64() * VCPUS_EACH;
        let most = (last.answered - first.asked).as_secs_f64() * VCPUS_EACH;
        let held = last.seconds - first.seconds;
        worst = worst.max((least - held) / least);
        // `Instant` and the sums use the same clock. Each sum is rounded to 1 ns.
        let rounded = 1e-6;
        ensure!(
            held > least - last.waiting - rounded && held < most + first.waiting + rounded,
            "{vm}: {held} s of {least} to {most} s"
        );
        // This time has no limit, because some kernels hide switches of some tasks.
        unseen += last.unseen - first.unseen;
    }
    let [missed, without_room] =
        ["vmnoise_events_missed_total", "vmnoise_vcpus_without_room"].map(|name| last.of(name));
    let vcpus = last.beginning("vmnoise_vcpus{");
    let vcpus: f64 = vcpus.iter().map(|(_, vcpus)| vcpus).sum();
    println!(
        "serve: {length:?}, {vcpus} vCPUs at the end, {came} VMs started, {memory}, {missed} events missed, {without_room} vCPUs without room; at most {worst:.1e} of the time of {} VMs is in no sum, and {unseen:.3} s in total are unseen",
        names.len()
    );
    ensure!(missed == 0.0, "{missed} events were missed");
    ensure!(without_room == 0.0, "{without_room} vCPUs found no room");
    // Metrics list ended VMs until there are 256 of them, so answers grow until then. Each answer
    // is in memory twice: as text, and in the buffer of its connection.
    memory.ensure_flat("serve", GROWTH_KB + 2 * answer_kb)
}
