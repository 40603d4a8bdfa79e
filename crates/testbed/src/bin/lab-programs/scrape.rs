//! `lab-scrape up` sets up the loopback link of a lab. `lab-scrape ADDRESS:PORT [THREAD…]` prints
//! the metrics that a server exports under `/metrics`. In the same format, it prints the
//! scheduler's counts before and after the request, for all threads whose names begin with THREAD.

use std::time::Duration;

use anyhow::{Result, bail};
use rustix::time::{ClockId, clock_gettime};
use vmnoise_testbed::links::Links;
use vmnoise_testbed::metrics::scrape;
use vmnoise_testbed::{processes, schedstat};

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["up"] => Links::here()?.set_up("lo", None),
        [host, ref threads @ ..] => {
            let before = looked("before", threads)?;
            let said = scrape(host)?;
            print!("{said}{before}{}", looked("after", threads)?);
            Ok(())
        }
        [] => bail!("usage: lab-scrape up | lab-scrape ADDRESS:PORT [THREAD…]"),
    }
}

fn looked(when: &str, threads: &[&str]) -> Result<String> {
    let now = clock_gettime(ClockId::Monotonic);
    let now = now.tv_sec as f64 + Duration::from_nanos(now.tv_nsec as u64).as_secs_f64();
    let mut said = format!("lab_uptime_seconds{{look=\"{when}\"}} {now}\n");
    for name in threads {
        let (mut on_cpu_ns, mut run_delay_ns) = (0, 0);
        for process in processes::all() {
            let all = schedstat::threads(process.pid).unwrap_or_default();
            for (tid, _) in all.iter().filter(|(_, comm)| comm.starts_with(name)) {
                let stat = schedstat::read(process.pid, *tid)?;
                on_cpu_ns += stat.on_cpu_ns;
                run_delay_ns += stat.run_delay_ns;
            }
        }
        for (kind, ns) in [("on_cpu", on_cpu_ns), ("run_delay", run_delay_ns)] {
            let seconds = Duration::from_nanos(ns).as_secs_f64();
            said += &format!(
                "lab_thread_seconds{{thread=\"{name}\",kind=\"{kind}\",look=\"{when}\"}} {seconds}\n"
            );
        }
    }
    Ok(said)
}
