//! Tests of the rights that vmnoise keeps while it works, by the status of each of its threads and
//! by the kernel's answers to forbidden calls.

mod call;
mod status;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use vmnoise_testkit::{TestProcess, wait_for, wait_until};

use status::{ThreadStatus, kept, threads};

/// Time limit for everything; after it a program counts as hung.
const BACKSTOP: Duration = Duration::from_secs(30);
const MEASURE: &str = "`microvm`, `osnoise`, `timerlat`";
const EXITS: &str = "`exits`";
const FEED: &str = "`exits --feed`";
const FINDING: &str = "finding VMs";
const FILES: &str = "files by name";
const SIGNALS: &str = "signals";
/// CAP_BPF of capabilities(7), which a measuring thread keeps.
const BPF: u64 = 1 << 39;
/// User nobody.
const NOBODY: u32 = 65534;

fn vmnoise(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command
        .args(line.split(' '))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

struct Run(TestProcess);

impl Run {
    fn start(line: &str) -> Run {
        Run(TestProcess::start(&mut vmnoise(line)))
    }

    /// Returns its threads, once at least `least` of them exist and their calls are limited.
    fn at_work(&mut self, least: usize) -> Vec<ThreadStatus> {
        let begin = Instant::now();
        loop {
            let threads = threads(self.0.id());
            // A filter may be inherited from a container, so its existence alone is not enough.
            let limited = threads.iter().all(|thread| {
                thread.number("Seccomp") == 2
                    && thread.number("NoNewPrivs") == 1
                    && thread.bits("CapBnd") == 0
            });
            if threads.len() >= least && limited {
                return threads;
            }
            assert_eq!(self.0.try_wait().unwrap(), None, "it has ended");
            assert!(begin.elapsed() < BACKSTOP, "{threads:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn measures(name: &str) -> bool {
    let kinds = ["vmnoise-spin", "vmnoise-vcpu", "vmnoise-timer"];
    kinds.iter().any(|kind| name.starts_with(kind))
}

/// Checks that each thread of a run has exactly the rights that docs/security.md lists for this
/// work.
fn has_what_the_table_says(line: &str, works: &[&str], least: usize) {
    look_at(Run::start(line), line, works, least);
}

fn look_at(mut run: Run, line: &str, works: &[&str], least: usize) {
    let kept = kept(works);
    for thread in run.at_work(least) {
        let all = format!("{line}: {thread:?}");
        let held = thread.bits("CapPrm");
        assert_eq!(thread.bits("CapEff"), held, "{all}");
        for none in ["CapInh", "CapBnd", "CapAmb"] {
            assert_eq!(thread.bits(none), 0, "{none}: {all}");
        }
        assert_eq!(thread.number("NoNewPrivs"), 1, "{all}");
        if thread.is_first() {
            assert_eq!(held, kept, "{all}");
        } else if measures(thread.name()) {
            assert_eq!(held, BPF, "{all}");
        } else if thread.name() == "vmnoise-vms" {
            assert_eq!(held, self::kept(&[FINDING]), "{all}");
        } else {
            assert_eq!(held & !kept, 0, "{all}");
        }
    }
}

/// Checks that Ctrl-C ends the command although its calls are limited, and that it reports its
/// result.
fn ends_with_its_result(line: &str, least: usize) {
    let mut run = Run(TestProcess::start(vmnoise(line).stdout(Stdio::piped())));
    run.at_work(least);
    let pid = rustix::process::Pid::from_child(&run.0);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let what = format!("the end of `{line}` after Ctrl-C");
    let status = wait_for(&what, || run.0.try_wait().unwrap());
    assert!(status.success(), "{line}: {status}");
    let reported = std::io::read_to_string(run.0.stdout.take().unwrap()).unwrap();
    assert!(!reported.is_empty(), "{line}");
}

/// Duration that is longer than the whole test.
const LONG: &str = "-d 600s";

mod root {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn each_thread_has_what_the_table_says() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace.txt");
        // The first thread, the signals' thread and the measuring one; or the first two.
        let of_osnoise = format!("osnoise -c 1 {LONG}");
        has_what_the_table_says(&of_osnoise, &[MEASURE], 3);
        has_what_the_table_says(&format!("timerlat -c 1 {LONG}"), &[MEASURE], 3);
        let stops = format!("{of_osnoise} -s 60s -t={}", trace.display());
        has_what_the_table_says(&stops, &[MEASURE, FILES], 3);
        // Also the thread that writes the recording.
        let records = format!("{of_osnoise} -o {}", folder.path().join("run").display());
        has_what_the_table_says(&records, &[MEASURE], 4);
        let signals = format!("{of_osnoise} --on-end signal,num=10,pid=1");
        has_what_the_table_says(&signals, &[MEASURE, SIGNALS], 3);
        let as_nobody = format!("{of_osnoise} --user nobody");
        has_what_the_table_says(&as_nobody, &[MEASURE], 3);
        // The first thread, the signals' thread and the one that looks for VMs.
        has_what_the_table_says(&format!("exits {LONG}"), &[EXITS], 3);
        let feed = format!("exits {LONG} --feed unix:/run/nobody.sock");
        has_what_the_table_says(&feed, &[EXITS, FEED], 3);
    }

    #[test]
    fn so_has_whoever_lists_vms() {
        prints_with_what_the_table_says("exits --list", &[FINDING]);
    }

    #[test]
    fn so_has_the_doctor_as_it_reports_what_it_found() {
        prints_with_what_the_table_says("doctor", &[]);
    }

    /// Checks the rights of a command while it prints, at which it is blocked.
    fn prints_with_what_the_table_says(line: &str, works: &[&str]) {
        let (_reader, mut stdout) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&stdout, true).unwrap();
        // The pipe is full, so the command waits when it prints.
        while std::io::Write::write(&mut stdout, &[0; 1]).is_ok() {}
        rustix::io::ioctl_fionbio(&stdout, false).unwrap();
        let run = Run(TestProcess::start(vmnoise(line).stdout(stdout)));
        look_at(run, line, works, 1);
    }

    #[test]
    fn ctrl_c_ends_each_of_them_with_its_result() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace.txt");
        let of_osnoise = format!("osnoise -c 1 {LONG}");
        for (line, least) in [
            (of_osnoise.clone(), 3),
            (format!("timerlat -c 1 {LONG}"), 3),
            (format!("{of_osnoise} -s 60s -t={}", trace.display()), 3),
            // SIGCONT has no effect.
            (format!("{of_osnoise} --on-end signal,num=18,pid=parent"), 3),
            (format!("{of_osnoise} --user nobody"), 3),
            (format!("exits {LONG}"), 2),
            (format!("exits {LONG} --feed unix:/run/nobody.sock"), 2),
        ] {
            ends_with_its_result(&line, least);
        }
    }

    #[test]
    fn so_has_whoever_reads_a_recording() {
        let folder = tempfile::tempdir().unwrap();
        // Nothing is written to it, so the command reads for ever.
        let recording = folder.path().join("recording");
        mknodat(CWD, &recording, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let recording = recording.display();
        for line in [
            format!("explain {recording}"),
            format!("report {recording} -o {}/page", folder.path().display()),
            format!("compare {recording} {recording}"),
            format!("export {recording} --csv {}", folder.path().display()),
        ] {
            has_what_the_table_says(&line, &[FILES], 1);
        }
    }

    #[test]
    fn a_call_that_the_work_does_not_need_is_refused() {
        let mut exits = Run::start(&format!("exits {LONG}"));
        let mut timerlat = Run::start(&format!("timerlat -c 1 -p 100ms {LONG}"));
        let timerlat = timerlat.at_work(3);
        let sleeps = timerlat.iter().find(|thread| measures(thread.name()));
        let first = exits
            .at_work(2)
            .into_iter()
            .find(ThreadStatus::is_first)
            .unwrap();
        for thread in [&first, sleeps.unwrap()] {
            call::refused(thread);
        }
    }

    /// As another user the run still produces its recording.
    #[test]
    fn another_user_measures_on() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("run.vmn");
        let recording = recording.display();
        let line = format!("osnoise -c 1 {LONG} --user nobody -o {recording} --format json");
        let mut run = Run(TestProcess::start(vmnoise(&line).stdout(Stdio::piped())));
        for thread in run.at_work(3) {
            for id in ["Uid", "Gid"] {
                let ids = thread.numbers(id);
                assert_eq!(ids, [u64::from(NOBODY); 4], "{thread:?}");
            }
            assert!(!thread.numbers("Groups").contains(&0), "{thread:?}");
        }
        std::thread::sleep(Duration::from_secs(1));
        let pid = rustix::process::Pid::from_child(&run.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let stdout = run.0.stdout.take().unwrap();
        let reported: serde_json::Value = serde_json::from_reader(stdout).unwrap();
        assert!(run.0.wait().unwrap().success());
        let cpu = &reported["cpus"][0];
        assert!(cpu["runtime_ns"].as_u64().unwrap() > 0, "{cpu}");
        let explained = vmnoise(&format!("explain {recording}")).status().unwrap();
        assert!(explained.success());
    }

    /// The trace's file is created before the process changes its user, so it belongs to another
    /// user. In a folder like /tmp only its owner may replace it.
    #[test]
    fn another_user_saves_a_trace_in_a_folder_of_all() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let trace = folder.path().join("trace");
        let line = format!(
            "osnoise -c 1 -d 60s -a 1 -t={} --user nobody",
            trace.display()
        );
        assert_eq!(vmnoise(&line).status().unwrap().code(), Some(2));
        assert!(!fs::read(trace).unwrap().is_empty());
    }

    #[test]
    fn what_is_new_belongs_to_whoever_called_sudo() {
        let folder = tempfile::tempdir().unwrap();
        let sudo = |line: &str| {
            let line = line.replace("IN", folder.path().to_str().unwrap());
            let variables = [("SUDO_UID", "1234"), ("SUDO_GID", "2345")];
            vmnoise(&line).envs(variables).status().unwrap().code()
        };
        fs::write(folder.path().join("old"), "").unwrap();
        std::os::unix::fs::symlink("old", folder.path().join("link")).unwrap();
        // Any gap stops the run.
        let stopped = sudo("osnoise -c 1 -d 60s -a 1 -t=IN/trace -o IN/run.vmn");
        assert_eq!(stopped, Some(2));
        assert_eq!(sudo("osnoise -c 1 -d 100ms -o IN/link"), Some(0));
        assert_eq!(sudo("report IN/run.vmn -o IN/page"), Some(0));
        assert_eq!(
            sudo("export IN/run.vmn --csv IN/a/b --perfetto IN/line"),
            Some(0)
        );
        let theirs = Some((1234, 2345));
        for name in ["run.vmn", "trace", "page", "line", "a", "a/b"] {
            assert_eq!(owner(&folder.path().join(name)), theirs, "{name}");
        }
        let mut tables = 0;
        each_below(&folder.path().join("a/b"), &mut |path| {
            assert_eq!(owner(path), theirs, "{}", path.display());
            tables += usize::from(path.is_file());
        });
        assert!(tables > 0);
        assert_eq!(owner(&folder.path().join("old")), Some((0, 0)));
    }

    fn owner(path: &Path) -> Option<(u32, u32)> {
        let found = fs::symlink_metadata(path).ok()?;
        Some((found.uid(), found.gid()))
    }

    fn each_below(folder: &Path, look: &mut dyn FnMut(&Path)) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            look(&entry.path());
            if entry.path().is_dir() {
                each_below(&entry.path(), look);
            }
        }
    }

    /// Checks the rights of a shell command: those of a process of the user who started vmnoise.
    #[test]
    fn a_shell_command_has_the_rights_of_whoever_started_it() {
        let folder = tempfile::tempdir().unwrap();
        let said = folder.path().join("said");
        let command = format!("cat /proc/self/status >{}", said.display());
        let mut run = vmnoise("osnoise -c 1 -d 100ms --user nobody");
        run.args(["--on-end", &format!("shell,command={command}")]);
        assert!(run.status().unwrap().success());
        let here = Command::new("cat")
            .arg("/proc/self/status")
            .output()
            .unwrap();
        let here = ThreadStatus::of(&String::from_utf8(here.stdout).unwrap());
        let there = ThreadStatus::of(&fs::read_to_string(said).unwrap());
        for line in [
            "Uid",
            "Gid",
            "Groups",
            "NoNewPrivs",
            "Seccomp",
            "CapInh",
            "CapPrm",
            "CapEff",
            "CapBnd",
            "CapAmb",
            "SigIgn",
        ] {
            assert_eq!(there.text(line), here.text(line), "{line}");
        }
    }

    #[test]
    fn the_helper_for_shell_commands_ends_with_its_parent() {
        let line = format!("osnoise -c 1 {LONG} --on-end shell,command=true");
        let mut run = Run::start(&line);
        run.at_work(3);
        let parent = format!("PPid:\t{}", run.0.id());
        let is_there = |pid: &str| {
            let status = fs::read_to_string(format!("/proc/{pid}/status"));
            status.is_ok_and(|status| !status.contains("State:\tZ"))
        };
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().into_string().ok());
        let helpers = pids.filter(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status"));
            status.is_ok_and(|status| status.lines().any(|line| line == parent))
        });
        let helpers: Vec<String> = helpers.collect();
        assert_eq!(helpers.len(), 1);
        drop(run);
        wait_until("the end of the helper", || !is_there(&helpers[0]));
    }

    #[test]
    fn nobody_becomes_another_user_without_the_right_to() {
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--clear-groups", "--no-new-privs"])
            .arg(program().1)
            .args(["osnoise", "-d", "1s", "--user", "root"])
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        assert!(stderr.contains("--user root needs CAP_SETUID"), "{stderr}");
    }

    /// Returns a copy of the program in a folder that everybody may read.
    fn program() -> (tempfile::TempDir, std::path::PathBuf) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), open.clone()).unwrap();
        let program = folder.path().join("vmnoise");
        fs::copy(env!("CARGO_BIN_EXE_vmnoise"), &program).unwrap();
        fs::set_permissions(&program, open).unwrap();
        (folder, program)
    }
}

mod kvm {
    use super::*;

    #[test]
    fn each_thread_of_a_guest_has_what_the_table_says() {
        has_what_the_table_says(&format!("microvm -c 1 {LONG}"), &[MEASURE], 3);
        let as_nobody = format!("microvm -c 1 {LONG} --user nobody");
        has_what_the_table_says(&as_nobody, &[MEASURE], 3);
        let exercise = format!("microvm -c 1 {LONG} --exercise io");
        has_what_the_table_says(&exercise, &[], 3);
    }

    #[test]
    fn ctrl_c_ends_each_guest_with_its_result() {
        ends_with_its_result(&format!("microvm -c 1 {LONG}"), 3);
        // Exit that any KVM reports: if a layer below answers CPUID, the status is 3.
        ends_with_its_result(&format!("microvm -c 1 {LONG} --exercise io"), 3);
    }
}
