//! Tests of `vmnoise osnoise` and `timerlat` with a feed from a program that claims to be their
//! host.

pub mod root {
    use std::io::Write;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;
    use std::process::{Child, Command, Output, Stdio};
    use std::time::Duration;

    use serde_json::Value;
    use vmnoise_events::{FeedDetail, HostCulprit, HostFrame, HostReason, Share, ShareMap};
    use vmnoise_feed::encode;
    use vmnoise_host::Host;
    use vmnoise_workload::tsc;

    const VMNOISE: &str = env!("CARGO_BIN_EXE_vmnoise");
    const CORPUS: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/corpus/feed_decoder"
    );

    /// Pretended host of the last CPU, which counts about one exit per millisecond.
    pub struct PseudoHost {
        vcpu: u32,
        from_tsc: u64,
    }

    impl PseudoHost {
        pub fn of(cpu: u32) -> PseudoHost {
            let ids = Host::here().facts().unwrap().apic_ids;
            let (_, vcpu) = ids.into_iter().find(|(number, _)| *number == cpu).unwrap();
            PseudoHost {
                vcpu,
                from_tsc: tsc::now(),
            }
        }

        pub fn frame(&self) -> HostFrame {
            let until_tsc = tsc::now();
            let exits = (until_tsc - self.from_tsc) >> 20;
            HostFrame {
                vcpu: self.vcpu,
                from_tsc: self.from_tsc,
                until_tsc,
                detail: FeedDetail::Full,
                sees_kvm: true,
                is_last: true,
                exits,
                heavy: exits / 4,
                split: ShareMap::from([(Share::Vmm, exits * 100), (Share::Preempted, exits * 10)]),
                lost: 0,
                reasons: vec![HostReason {
                    name: "io".into(),
                    exits,
                    dur_ns: exits * 110,
                }],
                culprits: vec![HostCulprit {
                    share: Share::Preempted,
                    name: "disturber:4711".into(),
                    dur_ns: exits * 10,
                }],
            }
        }
    }

    fn last_cpu() -> u32 {
        *Host::here().allowed_cpus().unwrap().last().unwrap()
    }

    fn osnoise(cpu: u32, port: &Path, recording: &Path, words: &str) -> Child {
        measure("osnoise", cpu, port, recording, words)
    }

    fn measure(command: &str, cpu: u32, port: &Path, recording: &Path, words: &str) -> Child {
        Command::new(VMNOISE)
            .args([command, "-c", &cpu.to_string(), "--feed"])
            .arg(port)
            .arg("-o")
            .arg(recording)
            .args(words.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn text(output: &Output) -> &str {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        std::str::from_utf8(&output.stdout).unwrap()
    }

    fn number(value: &Value) -> u64 {
        value
            .as_u64()
            .unwrap_or_else(|| panic!("{value} is no number"))
    }

    /// Sends until the other end is closed.
    pub fn send(mut to: UnixStream, mut bytes: impl FnMut() -> Vec<u8>) {
        while to.write_all(&bytes()).is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[test]
    fn tasks_that_sleep_are_reported_what_the_host_took_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let [port, recording] = ["port", "rec"].map(|name| folder.path().join(name));
        let listener = UnixListener::bind(&port).unwrap();
        let cpu = last_cpu();
        let host = PseudoHost::of(cpu);
        let run = measure("timerlat", cpu, &port, &recording, "-d 2s --format json");
        let (feed, _) = listener.accept().unwrap();
        send(feed, || encode(&host.frame()));
        let output = run.wait_with_output().unwrap();
        let result: Value = serde_json::from_str(text(&output)).unwrap();
        let reported = &result["cpus"][0]["host"];
        println!("{reported:#}");
        let exits = number(&reported["exits"]);
        assert!(exits > 100, "{reported}");
        assert_eq!(
            number(&reported["light"]) + number(&reported["heavy"]),
            exits
        );
        assert_eq!(reported["virt_ns"], exits * 100);
        assert_eq!(reported["culprits"][0]["name"], "disturber:4711");
        // The hardware's part of a sleep cannot be observed.
        assert_eq!(reported["hw_at_least_ns"], 0);
        assert!(reported["hw_at_most_ns"].is_null(), "{reported}");
        assert_eq!(result["feed"]["detail"], "full");

        let explain = |words: &[&str]| {
            let mut explain = Command::new(VMNOISE);
            let explain = explain.arg("explain").arg(&recording).args(words);
            text(&explain.output().unwrap()).to_owned()
        };
        let again: Value = serde_json::from_str(&explain(&["--format", "json"])).unwrap();
        assert_eq!(again, result);
        let shown = explain(&[]);
        assert!(
            shown.contains("\nTime taken, as reported by the host\n"),
            "{shown}"
        );
    }

    #[test]
    fn what_the_host_says_fills_the_columns_live_and_from_the_recording() {
        let folder = tempfile::tempdir().unwrap();
        let [port, recording] = ["port", "rec"].map(|name| folder.path().join(name));
        let listener = UnixListener::bind(&port).unwrap();
        let cpu = last_cpu();
        let host = PseudoHost::of(cpu);
        let run = osnoise(cpu, &port, &recording, "-d 3s -p 500ms --json-lines");
        let (mut first, _) = listener.accept().unwrap();
        // The host may hang up in the middle of a frame, and connect again.
        let half = encode(&host.frame());
        first.write_all(&half[..half.len() / 2]).unwrap();
        drop(first);
        let (second, _) = listener.accept().unwrap();
        let mut last = None;
        send(second, || {
            let frame = host.frame();
            last = Some(frame.clone());
            encode(&frame)
        });
        let output = run.wait_with_output().unwrap();
        let lines: Vec<Value> = text(&output)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let (summary, periods) = lines.split_last().unwrap();
        let reported = &summary["cpus"][0]["host"];
        let columns = &summary["cpus"][0]["guest_columns"];
        println!("{reported:#}\n{columns:#}\n{}", summary["feed"]);

        let exits = number(&reported["exits"]);
        assert!(exits > 100, "{reported}");
        assert!(exits <= last.unwrap().exits);
        assert_eq!(
            number(&reported["light"]) + number(&reported["heavy"]),
            exits
        );
        assert_eq!(reported["virt_ns"], exits * 100);
        assert_eq!(reported["shares_ns"]["preempted"], exits * 10);
        assert_eq!(columns["virt_ns"], reported["virt_ns"]);
        assert_eq!(columns["heavy_exits"], reported["heavy"]);
        let culprit = &reported["culprits"][0];
        assert_eq!(culprit["name"], "disturber:4711");
        assert_eq!(reported["reasons"][0]["exits"], exits);
        let of_periods = periods.iter().map(|period| &period["cpus"][0]["host"]);
        let in_periods: u64 = of_periods.filter_map(|host| host["exits"].as_u64()).sum();
        assert!(
            in_periods <= exits && in_periods + 1_000 > exits,
            "{in_periods}"
        );
        let feed = &summary["feed"];
        assert_eq!(
            (&feed["detail"], &feed["refused"]),
            (&"full".into(), &0.into())
        );
        assert_eq!(feed["hang_ups"], 1);
        assert_eq!(feed["garbled"], 1, "the half frame");

        let explain = |words: &[&str]| {
            let mut explain = Command::new(VMNOISE);
            let explain = explain.arg("explain").arg(&recording).args(words);
            text(&explain.output().unwrap()).to_owned()
        };
        let again: Value = serde_json::from_str(&explain(&["--format", "json"])).unwrap();
        assert_eq!(&again, summary);
        let shown = explain(&[]);
        for words in [
            "Who took it, as reported by the host",
            "disturber:4711",
            "feed of the host (full)",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
    }

    #[test]
    fn a_hostile_host_breaks_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let [port, recording] = ["port", "rec"].map(|name| folder.path().join(name));
        let listener = UnixListener::bind(&port).unwrap();
        let cpu = last_cpu();
        let host = PseudoHost::of(cpu);
        let run = osnoise(cpu, &port, &recording, "-d 3s -q --format json");
        let (stream, _) = listener.accept().unwrap();
        let mut seeds: Vec<Vec<u8>> = std::fs::read_dir(CORPUS)
            .unwrap()
            .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
            .collect();
        seeds.sort();
        let mut turn = 0_u64;
        send(stream, || {
            turn += 1;
            let mut bytes: Vec<u8> = seeds.concat();
            for word in 0..4_096_u64 {
                let noise = (word ^ turn).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                bytes.extend((noise >> 7).to_le_bytes());
            }
            // Complete frames with false contents.
            let lie = |change: fn(&mut HostFrame)| {
                let mut frame = host.frame();
                change(&mut frame);
                encode(&frame)
            };
            bytes.extend(lie(|frame| frame.until_tsc = u64::MAX));
            bytes.extend(lie(|frame| frame.vcpu = u32::MAX));
            bytes.extend(lie(|frame| {
                (frame.exits, frame.heavy) = (u64::MAX, u64::MAX)
            }));
            bytes.extend(lie(|frame| frame.split[Share::Blocked] = u64::MAX));
            bytes.extend(lie(|frame| frame.from_tsc = 0));
            bytes.extend(lie(|frame| {
                (frame.from_tsc, frame.exits) = (frame.until_tsc, 0)
            }));
            bytes
        });
        let output = run.wait_with_output().unwrap();
        let summary: Value = serde_json::from_str(text(&output)).unwrap();
        println!("{:#}", summary["feed"]);
        assert_eq!(summary["complete"], true);
        assert!(
            number(&summary["cpus"][0]["gaps"]) > 0,
            "it went on measuring"
        );
        let feed = &summary["feed"];
        for what in ["garbled", "refused", "frames"] {
            assert!(number(&feed[what]) > 10, "{feed}");
        }
        let reported = &summary["cpus"][0]["host"];
        assert!(
            number(&reported["covered_ns"]) < 10_000_000_000,
            "{reported}"
        );
    }

    #[test]
    fn a_way_that_is_not_there_is_refused_only_where_the_user_named_it() {
        let folder = tempfile::tempdir().unwrap();
        let [port, recording] = ["port", "rec"].map(|name| folder.path().join(name));
        let refused = osnoise(last_cpu(), &port, &recording, "-d 100ms -q");
        let refused = refused.wait_with_output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(
            said.contains("cannot read the feed") && said.contains("--feed none"),
            "{said}"
        );
        for nowhere in ["none", "auto"] {
            let nowhere = Path::new(nowhere);
            let run = osnoise(last_cpu(), nowhere, &recording, "-d 100ms -q --format json");
            let run = run.wait_with_output().unwrap();
            let summary: Value = serde_json::from_str(text(&run)).unwrap();
            assert_eq!(
                (&summary["feed"], &summary["cpus"][0]["host"]),
                (&Value::Null, &Value::Null)
            );
        }
    }
}
