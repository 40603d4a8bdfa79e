//! Tests with a task and a VM whose names contain control characters and a forged line, in every
//! output of every command.

mod kvm {
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::{Command, Output, Stdio};

    use tempfile::TempDir;
    use vmnoise_host::Host;
    use vmnoise_recording::seal;
    use vmnoise_testkit::TestProcess;

    use crate::host_feed::root::{PseudoHost, send};
    use crate::join_pair::{Flaws, write_guest, write_host};

    /// Name that clears the screen, returns to the beginning of the line and to another column,
    /// ends the line, and forges another line that is written from right to left and contains a
    /// control sequence (CSI of C1). It has the 15 bytes of a task's name.
    const HOSTILE: &str = "\u{1b}[J\r\t\nFAKE\u{202e}\u{9b}";
    /// Name as it must be shown.
    const SHOWN: &str = "␛[J␍␉␊FAKE\u{fffd}\u{fffd}";
    /// Part of the name that is shown unchanged.
    const FORGED: &str = "FAKE";

    /// Returns a command that runs this program under the hostile name.
    fn disguised(folder: &Path, program: &str) -> Command {
        let name = folder.join(HOSTILE);
        symlink(program, &name).unwrap();
        Command::new(name)
    }

    /// Starts a task with this name that alternately works and sleeps on this CPU.
    fn task(folder: &Path, cpu: u32) -> TestProcess {
        let script = "exec 9<> <(:); while :; do i=0; \
                      while [ $i -lt 20000 ]; do i=$((i+1)); done; read -t 0.002 -u 9; done";
        let mut bash = disguised(folder, "/bin/bash");
        let task = TestProcess::start(bash.args(["-c", script]).stdout(Stdio::null()));
        let pid = task.id().to_string();
        let pinned = Command::new("taskset")
            .args(["-p", "-c", &cpu.to_string(), &pid])
            .output();
        assert!(pinned.unwrap().status.success());
        task
    }

    /// Starts a VM with this name: its VMM has no name for it, so the name of the program is used.
    fn vm(folder: &Path, cpu: u32) -> TestProcess {
        let mut vmm = disguised(folder, env!("CARGO_BIN_EXE_vmnoise"));
        vmm.args(["microvm", "--exercise", "io", "-d", "600s", "-c"])
            .arg(cpu.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        TestProcess::start(&mut vmm)
    }

    /// CPU for the process of [`is_a_vmm_if_it_is_told_to`].
    const VMM_CPU: &str = "VMNOISE_VMM_CPU";

    /// Starts a VM whose name is on the command line of its VMM; it is much longer than a task's
    /// name.
    fn named_vm(cpu: u32) -> TestProcess {
        let name = format!("{HOSTILE}\u{2028}{}", "x".repeat(300));
        let this = "hostile::kvm::is_a_vmm_if_it_is_told_to";
        let mut vmm = Command::new(std::env::current_exe().unwrap());
        vmm.arg0("qemu-system-x86_64")
            // All words after `--` would be names of tests too.
            .args(["--exact", "--test-threads=1", this, "--", "-name"])
            .arg(format!("guest={name},debug-threads=on"))
            .env(VMM_CPU, cpu.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        TestProcess::start(&mut vmm)
    }

    /// Returns the beginning of such a name as it must be shown.
    fn named_shown() -> String {
        format!("{SHOWN}\u{fffd}x")
    }

    /// Becomes a VMM as the process of [`named_vm`]; does nothing otherwise.
    #[test]
    fn is_a_vmm_if_it_is_told_to() {
        if let Some(cpu) = std::env::var_os(VMM_CPU) {
            let words = "vmnoise microvm --exercise io -d 600s -c".split(' ');
            vmnoise::run(words.map(OsString::from).chain([cpu]));
        }
    }

    fn run(folder: &Path, words: &[&str]) -> Output {
        let output = Command::new(env!("CARGO_BIN_EXE_vmnoise"))
            .current_dir(folder)
            .args(words)
            .output()
            .unwrap();
        // Status 2 means that a limit was hit.
        let ended = output.status.success() || output.status.code() == Some(2);
        assert!(ended, "{words:?}: {output:?}");
        // A command that writes files may print nothing.
        let reports =
            !output.stdout.is_empty() || words.iter().any(|word| word.starts_with("out/"));
        assert!(reports, "{words:?}: {output:?}");
        output
    }

    /// Returns whether a letter is invisible, or changes the place or appearance of others.
    fn steers(letter: char) -> bool {
        let is_unseen = matches!(
            letter,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        );
        // The analysis of a latency contains tabs; names are checked separately.
        is_unseen || letter.is_control() && letter != '\t'
    }

    /// Returns how often the name occurs; it must always be shown in the safe form.
    fn names_in(what: &str, bytes: &[u8]) -> usize {
        names_in_of(SHOWN, what, bytes)
    }

    fn names_in_of(shown: &str, what: &str, bytes: &[u8]) -> usize {
        let (before, after) = shown.split_once(FORGED).unwrap();
        let places = bytes.windows(FORGED.len()).enumerate();
        let places = places.filter(|(_, word)| *word == FORGED.as_bytes());
        let mut found = 0;
        for (at, _) in places {
            let is_shown = bytes[..at].ends_with(before.as_bytes())
                && bytes[at + FORGED.len()..].starts_with(after.as_bytes());
            let around = &bytes[at.saturating_sub(20)..bytes.len().min(at + 40)];
            let around = String::from_utf8_lossy(around);
            assert!(is_shown, "{what} has the name as {around:?}");
            found += 1;
        }
        found
    }

    /// Checks that a text contains only visible letters; returns how often it has the name.
    fn names_in_text(what: &str, bytes: &[u8]) -> usize {
        names_in_text_of(SHOWN, what, bytes)
    }

    fn names_in_text_of(shown: &str, what: &str, bytes: &[u8]) -> usize {
        let text = String::from_utf8(bytes.to_vec()).unwrap_or_else(|_| panic!("{what}"));
        for line in text.lines() {
            assert!(!line.contains(steers), "{what}: {line:?}");
        }
        names_in_of(shown, what, bytes)
    }

    /// Runs the command; returns whether the name was shown.
    fn shows(folder: &Path, line: &str) -> bool {
        shows_words(folder, &line.split_whitespace().collect::<Vec<_>>())
    }

    fn shows_words(folder: &Path, words: &[&str]) -> bool {
        let output = run(folder, words);
        let what = words.join(" ");
        names_in_text(&what, &output.stderr);
        names_in_text(&what, &output.stdout) > 0
    }

    /// Returns the files under this folder that contain the name; it must be in the safe form.
    fn files_that_show(folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(files_that_show(&path));
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let name = path.display().to_string();
            let is_text = ["txt", "csv", "json"]
                .iter()
                .any(|it| name.ends_with(&format!(".{it}")));
            let count = match is_text {
                true => names_in_text(&name, &bytes),
                false => names_in(&name, &bytes),
            };
            if count > 0 {
                found.push(name);
            }
        }
        found
    }

    fn assert_files_show(folder: &Path, endings: &[&str]) {
        let found = files_that_show(folder);
        for ending in endings {
            let is_there = found.iter().any(|name| name.ends_with(ending));
            assert!(is_there, "no {ending} has it: {found:?}");
        }
    }

    fn folder() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("out")).unwrap();
        folder
    }

    fn last_cpu() -> u32 {
        *Host::here().allowed_cpus().unwrap().last().unwrap()
    }

    /// Files that a run writes about the gap or wait that ended it.
    const TRACES: [&str; 3] = ["stopped.txt", "action.txt", "late.txt"];

    /// The task shares the CPU with the measuring thread, so that each wait contains it.
    #[test]
    fn a_hostile_task_is_shown_and_steers_nothing() {
        let (folder, cpu) = (folder(), last_cpu());
        let (folder, task) = (folder.path(), task(folder.path(), cpu));
        let of = |rest: &str| format!("{rest} -c {cpu}");
        for line in [
            "osnoise trace -d 1s",
            "osnoise top -d 1s --format json",
            "osnoise top -d 1s -o noise.rec",
            "osnoise -d 1s --json-lines",
            "osnoise -d 5s -s 1ms -t=out/stopped.txt",
            "osnoise -d 2s -s 1ms --on-threshold trace,file=out/action.txt --on-threshold continue",
            "microvm -d 1s -o micro.rec",
            "microvm -d 1s --format json",
            "timerlat top -d 1s -P o:0 -o timer.rec",
            "timerlat top -d 1s -P o:0 --format json",
            "timerlat hist -d 1s -P o:0",
            "timerlat trace -d 1s -P o:0",
            "timerlat -d 5s -P o:0 -T 1ms -t=out/late.txt",
            "timerlat -d 5s -P o:0 --aa-only 1ms",
            "timerlat -d 1s -P o:0 --histogram 500 --histfile out/hist.txt --json out/rt.json \
             --cdf out/cdf.txt",
        ] {
            // The first gap or wait above a threshold ends a run, and the trace contains only that.
            // If the hypervisor caused it, the trace does not contain the task, and the run does
            // not count.
            let traces = TRACES.iter().filter(|name| line.contains(*name));
            let traces: Vec<&str> = traces.copied().collect();
            let are_shown = || {
                let found = files_that_show(&folder.join("out"));
                let is_shown = |trace: &&str| found.iter().any(|name| name.ends_with(trace));
                traces.iter().all(is_shown)
            };
            let is_shown = (0..5).any(|_| shows(folder, &of(line)) && are_shown());
            assert!(is_shown, "{line}: no trace of {SHOWN}");
        }
        for line in [
            "explain noise.rec",
            "explain noise.rec --trace",
            "explain noise.rec --format json",
            "explain timer.rec",
            "explain timer.rec --trace",
            "explain timer.rec --format json",
            "explain micro.rec",
            "explain micro.rec --format json",
        ] {
            assert!(shows(folder, line), "{line}: no trace of {SHOWN}");
        }
        // The only measured thread has the hostile name.
        let pid = task.id().to_string();
        for words in [["--pid", &*pid], ["--comm", HOSTILE]] {
            let words = [&["osnoise", "-d", "1s", "--format", "json"], &words[..]].concat();
            assert!(shows_words(folder, &words), "{words:?}: no trace");
        }
        // These outputs contain no names, or only differences.
        for line in [
            &*of("osnoise hist -d 1s"),
            "compare noise.rec noise.rec",
            "compare noise.rec noise.rec --format json",
            "check noise.rec --limit thread=0% --max 1ns --format github",
            "doctor",
            "doctor --format json",
        ] {
            shows(folder, line);
        }
        for line in [
            "report noise.rec timer.rec -o out/page.html",
            "report micro.rec -o out/micro.html",
            "export noise.rec --csv out/csv --perfetto out/noise.pftrace --host one",
            "export noise.rec --spreadsheet-csv out/sheet --host one",
            "export timer.rec --csv out/timers --perfetto out/timer.pftrace --host one",
            "export timer.rec --rt-tests out/cyclictest.json",
        ] {
            shows(folder, line);
        }
        let files = ["page.html", "micro.html", "noise.pftrace", "timer.pftrace"];
        assert_files_show(&folder.join("out"), &[&TRACES[..], &files].concat());
    }

    /// A recording from a host may contain any bytes as a name and still be sealed.
    #[test]
    fn a_guest_and_its_host_of_hostile_names_steer_nothing() {
        /// Names with the same number of bytes, and an interrupt of both.
        const NAMES: [&str; 2] = ["a VM of a guest", "local_timer:236"];
        let folder = folder();
        let folder = folder.path();
        let flaws = Flaws {
            vm_name: Some(NAMES[0]),
            ..Flaws::default()
        };
        write_guest(&folder.join("guest.rec"));
        write_host(&folder.join("host.rec"), flaws);
        let mut replaced = 0;
        for file in ["guest.rec", "host.rec"] {
            let mut bytes = fs::read(folder.join(file)).unwrap();
            for name in NAMES {
                let raw = format!("{HOSTILE}{}", "x".repeat(name.len() - HOSTILE.len()));
                for at in 0..bytes.len() - name.len() {
                    if bytes[at..].starts_with(name.as_bytes()) {
                        bytes[at..at + name.len()].copy_from_slice(raw.as_bytes());
                        replaced += 1;
                    }
                }
            }
            fs::write(folder.join(file), seal(&bytes)).unwrap();
        }
        assert!(replaced >= 3, "the names are not in the files: {replaced}");
        for line in [
            "explain host.rec",
            "explain guest.rec host.rec",
            "explain guest.rec host.rec --format json",
        ] {
            assert!(shows(folder, line), "{line}: no trace of {SHOWN}");
        }
        for line in [
            "explain guest.rec",
            "report guest.rec host.rec -o out/page.html",
            "export guest.rec host.rec --csv out/csv --perfetto out/both.pftrace --host one",
            "export guest.rec host.rec --spreadsheet-csv out/sheet --host one",
        ] {
            shows(folder, line);
        }
        let files = ["page.html", "both.pftrace", ".csv"];
        assert_files_show(&folder.join("out"), &files);
    }

    /// Name in a feed from a host. Control characters are refused with the whole frame
    /// (`crates/feed`), but these letters are no control characters.
    const HOSTS_NAME: &str = "\u{2028}FAKE\u{202e}\u{200b}";
    const HOSTS_NAME_SHOWN: &str = "\u{fffd}FAKE\u{fffd}\u{fffd}";

    /// Returns a frame of the host with this name for a culprit and a reason; it is sealed.
    fn hostile_frame(host: &PseudoHost) -> Vec<u8> {
        const NAMES: [&str; 2] = ["a culprit....", "a reason....."];
        let mut frame = host.frame();
        frame.culprits[0].name = NAMES[0].into();
        frame.reasons[0].name = NAMES[1].into();
        let mut bytes = vmnoise_feed::encode(&frame);
        for name in NAMES {
            let mut places = bytes.windows(name.len());
            let at = places.position(|it| it == name.as_bytes()).unwrap();
            bytes[at..at + name.len()].copy_from_slice(HOSTS_NAME.as_bytes());
        }
        vmnoise_feed::seal(&mut bytes);
        bytes
    }

    /// Returns whether the text contains the host's name in the safe form.
    fn shows_hosts_name(what: &str, bytes: &[u8]) -> bool {
        names_in_text_of(HOSTS_NAME_SHOWN, what, bytes) > 0
    }

    /// Returns whether a run with such a feed shows the name.
    fn shows_of_its_host(folder: &Path, cpu: u32, line: &str) -> bool {
        let port = folder.join("port");
        let listener = UnixListener::bind(&port).unwrap();
        let run = Command::new(env!("CARGO_BIN_EXE_vmnoise"))
            .current_dir(folder)
            .args(line.split(' '))
            .args(["-c", &cpu.to_string(), "--feed", "port"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (feed, _) = listener.accept().unwrap();
        let host = PseudoHost::of(cpu);
        send(feed, || hostile_frame(&host));
        let output = run.wait_with_output().unwrap();
        fs::remove_file(port).unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        shows_hosts_name(line, &output.stderr);
        shows_hosts_name(line, &output.stdout)
    }

    #[test]
    fn a_hostile_host_is_shown_to_its_guest_and_steers_nothing() {
        let (folder, cpu) = (folder(), last_cpu());
        let folder = folder.path();
        for line in [
            "osnoise -d 1s --format json -o fed.rec",
            "osnoise -d 1s",
            "timerlat -d 1s --format json",
        ] {
            let shown = shows_of_its_host(folder, cpu, line);
            assert!(shown, "{line}: no trace of {HOSTS_NAME_SHOWN}");
        }
        for line in ["explain fed.rec", "explain fed.rec --format json"] {
            let words: Vec<&str> = line.split(' ').collect();
            let shown = shows_hosts_name(line, &run(folder, &words).stdout);
            assert!(shown, "{line}: no trace of {HOSTS_NAME_SHOWN}");
        }
    }

    #[test]
    fn a_hostile_vm_is_shown_and_steers_nothing() {
        let (folder, cpu) = (folder(), last_cpu());
        let folder = folder.path();
        let (_vm, _named) = (vm(folder, cpu), named_vm(cpu));
        let begin = std::time::Instant::now();
        let both_are_there = || {
            let listed = run(folder, &["exits", "--list"]).stdout;
            let listed = String::from_utf8_lossy(&listed);
            listed.matches(SHOWN).count() > 1 && listed.contains(&named_shown())
        };
        while !both_are_there() {
            assert!(begin.elapsed().as_secs() < 30, "the VMs never came");
        }
        for line in [
            "exits --list",
            "exits --list --format json",
            "exits -d 1s -o exits.rec",
            "exits top -d 1s --format json",
            "exits trace -d 1s",
            "explain exits.rec",
            "explain exits.rec --trace",
            "explain exits.rec --format json",
        ] {
            assert!(shows(folder, line), "{line}: no trace of {SHOWN}");
        }
        // The VM with this name, cut to the length of names.
        let mut words = vec!["exits", "-d", "1s", "--format", "json", "--vm"];
        let name = format!(
            "{SHOWN}\u{fffd}{}…",
            "x".repeat(128 - SHOWN.chars().count() - 2)
        );
        words.push(&name);
        let reported = run(folder, &words).stdout;
        let reported = String::from_utf8_lossy(&reported);
        assert!(reported.contains(&name), "{reported}");
        for line in [
            "exits hist -d 1s",
            "report exits.rec -o out/page.html",
            "export exits.rec --csv out/csv --perfetto out/exits.pftrace --host one",
            "export exits.rec --spreadsheet-csv out/sheet --host one",
        ] {
            shows(folder, line);
        }
        assert_files_show(&folder.join("out"), &["page.html", ".csv", "exits.pftrace"]);
    }
}
