//! A task and a virtual machine whose names steer a terminal and forge a line, through every
//! output of every command.

mod kvm {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::process::{Child, Command, Output, Stdio};

    use tempfile::TempDir;
    use vmnoise_tracer::host::Host;

    /// Clears the screen, ends the line and forges another: 12 of the 15 bytes of a name.
    const HOSTILE: &str = "e\u{1b}[2J\nFAKE 0";
    /// As it is shown.
    const SHOWN: &str = "e␛[2J␊FAKE 0";

    /// Killed when it is dropped.
    struct Process(Child);

    impl Drop for Process {
        fn drop(&mut self) {
            let _ = self.0.kill();
            self.0.wait().unwrap();
        }
    }

    /// Under that name the kernel runs this program.
    fn disguised(folder: &Path, program: &str) -> Command {
        let name = folder.join(HOSTILE);
        symlink(program, &name).unwrap();
        Command::new(name)
    }

    /// A task of that name that works for a while and sleeps for a while, on this CPU.
    fn task(folder: &Path, cpu: u32) -> Process {
        let script = "exec 9<> <(:); while :; do i=0; \
                      while [ $i -lt 20000 ]; do i=$((i+1)); done; read -t 0.002 -u 9; done";
        let mut bash = disguised(folder, "/bin/bash");
        let child = bash.args(["-c", script]).stdout(Stdio::null()).spawn();
        let task = Process(child.unwrap());
        let pid = task.0.id().to_string();
        let pinned = Command::new("taskset")
            .args(["-p", "-c", &cpu.to_string(), &pid])
            .output();
        assert!(pinned.unwrap().status.success());
        task
    }

    /// A VM of that name: its VMM was given none, so it goes by that of its program.
    fn vm(folder: &Path, cpu: u32) -> Process {
        let child = disguised(folder, env!("CARGO_BIN_EXE_vmnoise"))
            .args(["microvm", "--exercise", "io", "-d", "600s", "-c"])
            .arg(cpu.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Process(child.unwrap())
    }

    fn run(folder: &Path, line: &str) -> Output {
        let output = Command::new(env!("CARGO_BIN_EXE_vmnoise"))
            .current_dir(folder)
            .args(line.split_whitespace())
            .output()
            .unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        output
    }

    /// Whether a text has nothing in it but letters, and no line that nobody measured.
    fn is_clean(what: &str, bytes: &[u8]) {
        let text = String::from_utf8(bytes.to_vec()).unwrap_or_else(|_| panic!("{what}"));
        for line in text.lines() {
            assert!(!line.trim_start().starts_with("FAKE"), "{what}: {line:?}");
            let steers = |letter: char| letter.is_control() && letter != '\t' && letter != '\r';
            assert!(!line.contains(steers), "{what}: {line:?}");
        }
    }

    /// Runs it, and says whether the name was shown.
    fn shows(folder: &Path, line: &str) -> bool {
        let output = run(folder, line);
        is_clean(line, &output.stdout);
        is_clean(line, &output.stderr);
        let told = String::from_utf8_lossy(&output.stdout);
        told.contains(SHOWN)
    }

    /// Every file under this folder is clean if it is text; how many hold the name.
    fn files_that_show(folder: &Path) -> usize {
        let mut found = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found += files_that_show(&path);
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let raw = HOSTILE.as_bytes();
            let has_raw = bytes.windows(raw.len()).any(|it| it == raw);
            assert!(!has_raw, "{} has the name as it was given", path.display());
            let shown = SHOWN.as_bytes();
            found += usize::from(bytes.windows(shown.len()).any(|it| it == shown));
        }
        found
    }

    fn folder() -> TempDir {
        tempfile::tempdir().unwrap()
    }

    fn last_cpu() -> u32 {
        *Host::here().allowed_cpus().unwrap().last().unwrap()
    }

    #[test]
    fn a_hostile_task_is_shown_and_steers_nothing() {
        let (folder, cpu) = (folder(), last_cpu());
        let (folder, _task) = (folder.path(), task(folder.path(), cpu));
        let of = |rest: &str| format!("{rest} -c {cpu} -d 1s");
        for line in [of("osnoise trace"), of("osnoise top --format json")] {
            assert!(shows(folder, &line), "{line}: no trace of {SHOWN}");
        }
        // Which of these name it depends on what was longest.
        for line in [
            of("osnoise top -o noise.rec"),
            of("osnoise hist"),
            of("timerlat top -o timer.rec"),
            of("timerlat hist"),
            of("timerlat trace"),
            "explain noise.rec".to_owned(),
            "explain timer.rec --format json".to_owned(),
        ] {
            shows(folder, &line);
        }
        for line in [
            "explain noise.rec --trace",
            "explain noise.rec --format json",
        ] {
            assert!(shows(folder, line), "{line}: no trace of {SHOWN}");
        }
        for line in [
            "compare noise.rec noise.rec --format json",
            "report noise.rec timer.rec -o out/page.html",
            "export noise.rec --csv out/csv --perfetto out/noise.pftrace --host one",
            "export noise.rec --spreadsheet-csv out/sheet --host one",
            "export timer.rec --rt-tests out/cyclictest.json",
        ] {
            fs::create_dir_all(folder.join("out")).unwrap();
            shows(folder, line);
        }
        let found = files_that_show(&folder.join("out"));
        assert!(found >= 4, "the page, two tables and a timeline: {found}");
    }

    #[test]
    fn a_hostile_vm_is_shown_and_steers_nothing() {
        let (folder, cpu) = (folder(), last_cpu());
        let folder = folder.path();
        let _vm = vm(folder, cpu);
        let begin = std::time::Instant::now();
        while !shows(folder, "exits --list") {
            assert!(begin.elapsed().as_secs() < 30, "the VM never came");
        }
        for line in [
            "exits --list --format json",
            "exits -d 1s -o exits.rec",
            "exits top -d 1s --format json",
            "explain exits.rec",
            "explain exits.rec --format json",
        ] {
            assert!(shows(folder, line), "{line}: no trace of {SHOWN}");
        }
        for line in [
            "exits hist -d 1s",
            "exits trace -d 1s",
            "report exits.rec -o out/page.html",
            "export exits.rec --csv out/csv --perfetto out/exits.pftrace --host one",
        ] {
            fs::create_dir_all(folder.join("out")).unwrap();
            shows(folder, line);
        }
        let found = files_that_show(&folder.join("out"));
        assert!(found >= 3, "the page, a table and a timeline: {found}");
    }
}
